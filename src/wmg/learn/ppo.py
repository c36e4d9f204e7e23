"""PPO with one-window recurrence: one agent, many environments at once, for an accelerator.

A *round* has two halves. First every environment takes `t_max` steps, or several windows of
`t_max` steps; where an episode ends, the next one begins. Then the agent learns from all those
steps together: the gradient is the mean over windows of what A3C would sum over one, so
hyperparameters keep their meaning. The steps may be learned from more than once, with clipped
ratios of probabilities.

Returns look to the end of the round. Gradients reach past Memos within a window only, and a
window's first memory is a constant, as in A3C.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from wmg.agents.precision import in_precision
from wmg.config import Batched, Hyper, Precision
from wmg.envs.batch import Batch
from wmg.learn import losses
from wmg.learn.losses import Terms
from wmg.learn.optimizer import update
from wmg.learn.rule import Rule, new_run
from wmg.types import (
    Agent,
    Env,
    Learner,
    Observation,
    Run,
    Scene,
    Summary,
    Totals,
    keep_if,
    sample,
    start_scene,
)

Outcome = TypeVar("Outcome")

FACTOR_CAPACITY = 0.6
"""The share of all Factors that the faster form of an agent has room for. The mean Sokoban level
has 0.54 of the cells of the largest one, and 256 levels together rarely have more than 0.6."""


class Rollout(eqx.Module):
    """What acting leaves for learning: one step of every environment, or all steps of a window."""

    observation: Observation
    action: Int[Array, "*time envs"]
    log_probability: Float[Array, "*time envs"]
    """Of the action, by the policy that acted."""
    value: Float[Array, "*time envs"]
    reward: Float[Array, "*time envs"]
    done: Bool[Array, "*time envs"]
    success: Bool[Array, "*time envs"]
    total: Float[Array, "*time envs"] | None = None
    """The whole reward of the episode so far, where the environment keeps it."""
    value_beyond: Float[Array, "*time envs"] | None = None
    """Value of the last observation where an episode was truncated, else 0; None where nothing
    follows such an end."""
    valid: Bool[Array, "*time envs"] | None = None
    """False where no action was taken, since an environment of the host only began its next
    episode. Such a step also counts as `done`. None if there is none."""


class Minibatch(eqx.Module):
    """Windows to learn from: their steps, advantages and value targets."""

    memory: PyTree[Any]
    """At the start of each window."""
    rollout: Rollout
    advantage: Float[Array, "time windows"]
    target: Float[Array, "time windows"]
    """What the value should have been."""

    def take(self, windows: Int[Array, " some"]) -> "Minibatch":
        """Some of the windows."""
        memory = jax.tree.map(lambda x: x[windows], self.memory)
        rest = (self.rollout, self.advantage, self.target)
        return Minibatch(memory, *jax.tree.map(lambda x: x[:, windows], rest))


@dataclasses.dataclass(frozen=True)
class PPO(Rule):
    """Act for a round in many environments, then make several updates."""

    settings: Batched
    precision: Precision = "float32"

    spread: ClassVar[Literal["runs", "envs"]] = "envs"

    def start(self, env: Env, agent: Agent, key: PRNGKeyArray) -> Run:
        skey, key = jax.random.split(key)
        # Without this split, which nothing else needs, every run would draw other numbers.
        _, key = jax.random.split(key)
        keys = jax.random.split(skey, self.settings.envs)
        return new_run(agent, jax.vmap(lambda key: start_scene(env, agent, key))(keys), key)

    def advance(
        self, env: Env, hyper: Hyper, run: Run, until: Int[Array, ""], batch: str | None = None
    ) -> tuple[Run, Totals]:
        """See `Rule`. An update is a round."""
        del batch  # runs of many environments are not mapped

        def unfinished(carry: tuple[Run, Totals]) -> Bool[Array, ""]:
            return (carry[0].steps < until) & ~carry[0].diverged

        def one_more(carry: tuple[Run, Totals]) -> tuple[Run, Totals]:
            run, totals = carry
            run, more = self.one_round(env, hyper, run)
            return run, jax.tree.map(jnp.add, totals, more)

        return jax.lax.while_loop(unfinished, one_more, (run, Totals.zeros()))

    def one_round(self, env: Env, hyper: Hyper, run: Run) -> tuple[Run, Totals]:
        """Act, then learn."""
        akey, lkey, key = jax.random.split(run.key, 3)
        return self.learn_from(run, *self.play(env, run, akey), hyper, lkey, key)

    def play(self, env: Env, run: Run, key: PRNGKeyArray) -> tuple[Scene, PyTree, Rollout]:
        """The scene after a round; the memory at the start of each window, and its steps."""
        batch = Batch(env, self.settings.envs)

        def window(scene: Scene, key: PRNGKeyArray) -> tuple[Scene, tuple]:
            after, rollout = collect(
                batch, run.agent, scene, key, self.t_max, self.precision, self.bootstrap_truncated
            )
            return after, (scene.memory, rollout)

        keys = jax.random.split(key, self.settings.windows)
        scene, (memory, rollout) = jax.lax.scan(window, run.scene, keys)
        return scene, memory, rollout

    def learn_from(
        self,
        run: Run,
        scene: Scene,
        memory: PyTree,
        rollout: Rollout,
        hyper: Hyper,
        lkey: PRNGKeyArray,
        key: PRNGKeyArray,
    ) -> tuple[Run, Totals]:
        """The run after the updates of a round that was played. A run whose loss or gradient is not
        finite stays as it was before the round, and is marked as diverged."""
        windows = self.prepare(run.agent, scene, memory, rollout, hyper)
        learned, figures = self.learn(run, windows, lkey, hyper)
        seen = windows.rollout.observation, windows.rollout.valid
        measured = learned.agent.after_round(*jax.tree.map(_merge, seen))
        totals = totals_of(windows.rollout, figures)
        agent, optimizer, scene, steps, totals = keep_if(
            ~learned.diverged,
            (measured, learned.optimizer, scene, run.steps + totals.steps, totals),
            (run.agent, run.optimizer, run.scene, run.steps, Totals.zeros()),
        )
        return Run(agent, optimizer, scene, key, steps, learned.diverged), totals

    def prepare(
        self, agent: Learner, scene: Scene, memory: PyTree, rollout: Rollout, hyper: Hyper
    ) -> Minibatch:
        """All windows of a round side by side, with their advantages and targets."""
        settings = self.settings
        summarise_all = summariser(agent, scene.observation, self.precision)
        summary = summarise_all(scene.observation, scene.memory)
        _, ahead = losses.decide_all(agent, summary.vector)
        reward = hyper.reward_scale * rollout.reward
        if rollout.value_beyond is not None:
            reward = reward + hyper.discount * rollout.value_beyond
        told = (rollout.value, reward, rollout.done)
        value, reward, done = map(_merge, told)
        advantage = advantages(value, reward, done, ahead, hyper.discount, settings.trace)
        advantage = advantage.reshape(rollout.value.shape)
        rollout, advantage = jax.tree.map(_side_by_side, (rollout, advantage))
        target = advantage + rollout.value
        if settings.normalise:
            valid = rollout.valid
            mean, deviation = advantage.mean(where=valid), advantage.std(where=valid)
            advantage = (advantage - mean) / (deviation + 1e-8)
        return Minibatch(jax.tree.map(_merge, memory), rollout, advantage, target)

    def learn(
        self, run: Run, windows: Minibatch, key: PRNGKeyArray, hyper: Hyper
    ) -> tuple[Run, tuple]:
        """The run after all updates of a round, and the means of their loss terms and norms."""

        def one_update(run: Run, chosen: Int[Array, " some"]) -> tuple[Run, tuple]:
            some = windows.take(chosen)
            slope = jax.value_and_grad(self.loss, has_aux=True)
            (total, terms), gradient = by_capacity(
                run.agent,
                some.rollout.observation,
                self.precision,
                lambda share: slope(run.agent, some, hyper, share),
            )
            agent, optimizer, norm, finite = update(run, gradient, total, hyper)
            diverged = run.diverged | ~finite
            after = Run(agent, optimizer, run.scene, run.key, run.steps, diverged)
            return after, (*terms, norm)

        settings = self.settings
        keys = jax.random.split(key, settings.passes)
        orders = jax.vmap(lambda key: jax.random.permutation(key, settings.all_windows))(keys)
        run, figures = jax.lax.scan(one_update, run, orders.reshape(settings.updates, -1))
        return run, tuple(x.mean() for x in figures)

    def loss(
        self, agent: Learner, windows: Minibatch, hyper: Hyper, share: float = 1.0
    ) -> tuple[Float[Array, ""], Terms]:
        """The loss of some windows, and its terms."""
        logits, value = replay(agent, windows, self.precision, share)
        played = windows.rollout
        terms = clipped_terms(
            logits,
            value,
            played.action,
            played.log_probability,
            windows.advantage,
            windows.target,
            self.settings.clip,
            played.value if self.settings.clip_value else None,
            played.valid,
        )
        return losses.weigh(terms, hyper), terms


def renew(agent: Agent, done: Bool[Array, " envs"], memory: PyTree) -> PyTree:
    """The memories, with the initial one where an episode has ended."""
    first = agent.initial_memory()
    return jax.vmap(lambda done, memory: keep_if(done, first, memory))(done, memory)


def by_capacity(
    agent: Learner, observation: Observation, precision: str, do: Callable[[float], Outcome]
) -> Outcome:
    """`do(share)`, where `share` of all Factors is room enough for these observations:
    FACTOR_CAPACITY if the agent has a faster form for it and they fit, else 1."""
    if agent.specialise(observation, precision, FACTOR_CAPACITY) is agent:
        return do(1.0)
    there = [factor.present for factor in observation.factors.values()]
    count = sum(present.sum((-2, -1)) for present in there)
    enough = FACTOR_CAPACITY * sum(present.shape[-2] * present.shape[-1] for present in there)
    return jax.lax.cond(jnp.all(count <= enough), lambda: do(FACTOR_CAPACITY), lambda: do(1.0))


def collect(
    batch: Batch,
    agent: Learner,
    scene: Scene,
    key: PRNGKeyArray,
    time: int,
    precision: Precision = "float32",
    bootstrap_truncated: bool = False,
) -> tuple[Scene, Rollout]:
    """Let every environment take `time` steps."""
    summarise_all = summariser(agent, scene.observation, precision)

    def step(scene: Scene, key: PRNGKeyArray) -> tuple[Scene, Rollout]:
        nkey, skey = jax.random.split(key)
        summary = summarise_all(scene.observation, scene.memory)
        logits, value = losses.decide_all(agent, summary.vector)
        action = jax.vmap(sample)(logits, jax.random.gumbel(nkey, logits.shape))
        state, observation, made = batch.step(scene.state, action, skey)
        done, beyond = made.terminated | made.truncated, None
        if bootstrap_truncated:
            cut = made.truncated & ~made.terminated
            beyond = value_beyond(agent, summarise_all, cut, made.observation, summary.memory)
        memory = renew(agent, done, summary.memory)
        rollout = Rollout(
            observation=scene.observation,
            action=action,
            log_probability=losses.log_probability(logits, action),
            value=value,
            reward=made.reward,
            done=done,
            success=made.success,
            total=made.total,
            value_beyond=beyond,
        )
        return Scene(state, observation, memory), rollout

    return jax.lax.scan(step, scene, jax.random.split(key, time))


def value_beyond(
    agent: Learner,
    summarise_all: Callable[[Observation, PyTree], Summary],
    cut: Bool[Array, " envs"],
    last: Observation,
    memory: PyTree,
) -> Float[Array, " envs"]:
    """The value of the last observation where an episode was cut off, else 0."""

    def values() -> Float[Array, " envs"]:
        found = losses.decide_all(agent, summarise_all(last, memory).vector)[1]
        return jnp.where(cut, found, 0.0)

    return jax.lax.cond(cut.any(), values, lambda: jnp.zeros(cut.shape))


def summariser(
    agent: Learner, like: Observation, precision: str
) -> Callable[[Observation, PyTree], Summary]:
    """The agent's `summarise_all`, specialised for observations like these."""
    forms = {
        share: in_precision(agent.specialise(like, precision, share), precision)
        for share in (FACTOR_CAPACITY, 1.0)
    }

    def summarise_all(observation: Observation, memory: PyTree) -> Summary:
        return by_capacity(
            agent, observation, precision, lambda share: forms[share](observation, memory)
        )

    return summarise_all


def replay(
    agent: Learner, windows: Minibatch, precision: str, share: float = 1.0
) -> tuple[Float[Array, "time windows actions"], Float[Array, "time windows"]]:
    """Logits and values of all steps of some windows, by the agent as it is now."""
    ready = agent.specialise(windows.rollout.observation, precision, share)

    def step(memory: PyTree, now: tuple[Observation, Array]) -> tuple[PyTree, Array]:
        observation, done = now
        # Cast in every step, so that gradients are summed over time in float32.
        summary = in_precision(ready, precision)(observation, memory)
        return renew(agent, done, summary.memory), summary.vector

    steps = (windows.rollout.observation, windows.rollout.done)
    return losses.decide_all(agent, jax.lax.scan(step, windows.memory, steps)[1])


def advantages(
    value: Float[Array, "time envs"],
    reward: Float[Array, "time envs"],
    done: Bool[Array, "time envs"],
    bootstrap: Float[Array, " envs"],
    discount: Float[Array, ""] | float,
    trace: float,
) -> Float[Array, "time envs"]:
    """Generalised advantages (GAE). With a `trace` of 1 they are n-step returns minus values."""

    def back(after: tuple[Array, Array], now: tuple) -> tuple[tuple[Array, Array], Array]:
        next_value, next_advantage = after
        value, reward, done = now
        goes_on = jnp.where(done, 0.0, discount)
        surprise = reward + goes_on * next_value - value
        advantage = surprise + goes_on * trace * next_advantage
        return (value, advantage), advantage

    start = (bootstrap, jnp.zeros_like(bootstrap))
    return jax.lax.scan(back, start, (value, reward, done), reverse=True)[1]


def clipped_terms(
    logits: Float[Array, "time windows actions"],
    value: Float[Array, "time windows"],
    action: Int[Array, "time windows"],
    old_log_probability: Float[Array, "time windows"],
    advantage: Float[Array, "time windows"],
    target: Float[Array, "time windows"],
    clip: float,
    old_value: Float[Array, "time windows"] | None = None,
    valid: Bool[Array, "time windows"] | None = None,
) -> Terms:
    """The terms of PPO for some windows: means over windows of sums over their `valid` steps. With
    an `old_value` the value's change is clipped, too, and the greater error counts."""
    ratio = jnp.exp(losses.log_probability(logits, action) - old_log_probability)
    clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
    gain = jnp.minimum(ratio * advantage, clipped * advantage)
    error = jnp.square(target - value)
    if old_value is not None:
        near = old_value + jnp.clip(value - old_value, -clip, clip)
        error = jnp.maximum(error, jnp.square(target - near))
    policy_loss, value_loss, entropy = (
        x.sum(0, where=valid).mean() for x in (-gain, error, losses.entropies(logits))
    )
    return policy_loss, value_loss, entropy


def _merge(x: Array) -> Array:
    """With the first two axes as one."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])  # not -1: a memory may be empty


def _side_by_side(x: Shaped[Array, "windows time envs ..."]) -> Shaped[Array, "time all ..."]:
    return jax.vmap(_merge)(jnp.swapaxes(x, 0, 1))


def totals_of(rollout: Rollout, figures: tuple) -> Totals:
    """A round's share of a report; `figures` are means of loss terms per window and of norms."""
    policy_loss, value_loss, entropy, norm = figures
    (time, windows), done = rollout.done.shape, rollout.done
    steps = jnp.int32(time * windows)
    if rollout.valid is not None:
        steps, done = rollout.valid.sum(dtype=jnp.int32), done & rollout.valid
    reward = rollout.reward.sum()
    returns = reward if rollout.total is None else jnp.sum(rollout.total, where=done)
    return Totals(
        steps=steps,
        windows=jnp.int32(1),
        episodes=done.sum(dtype=jnp.int32),
        successes=(done & rollout.success).sum(dtype=jnp.int32),
        reward=reward,
        policy_loss=policy_loss,
        value_loss=value_loss,
        entropy=entropy * windows,
        gradient_norm=norm,
        returns=returns,
    )
