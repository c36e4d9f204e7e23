"""Synchronous A3C: one agent, many environments at once, for speed on an accelerator.

A *round* has two halves. First every environment takes `t_max` steps, or several windows of so
many; where an episode ends, the next one begins. Then the agent learns from all those steps
together: the gradient is the mean over windows of what `a3c` would sum over one, so
hyperparameters keep their meaning. The steps may be learned from more than once, since a round of
many environments stands for a single update where the paper makes hundreds; ratios of
probabilities are then clipped, as PPO does, so that the policy cannot run away from the one that
acted.

Returns look to the end of the round. Gradients reach past Memos within a window only, and a
window's first memory is a constant, as in a3c.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from wmg.agents.precision import in_precision
from wmg.config import Batched, Hyper, Precision
from wmg.envs.batch import Batch
from wmg.learn import a3c
from wmg.learn.a3c import Run, Scene, Totals
from wmg.types import Agent, Env, Learner, Observation, Summary

Result = TypeVar("Result")

FEW = 0.6
"""The share of Factors up to which observations have few. Sokoban's levels have 0.54 times as many
cells as the largest, in the mean: 256 of them hardly ever have more than this."""


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


class Lesson(eqx.Module):
    """What some windows have to teach, side by side: their steps, and what came of them."""

    memory: PyTree[Any]
    """At the start of each."""
    rollout: Rollout
    advantage: Float[Array, "time envs"]
    target: Float[Array, "time envs"]
    """What the value should have been."""

    def take(self, lanes: Int[Array, " some"]) -> "Lesson":
        """The lesson of some of the windows."""
        memory = jax.tree.map(lambda x: x[lanes], self.memory)
        rest = (self.rollout, self.advantage, self.target)
        return Lesson(memory, *jax.tree.map(lambda x: x[:, lanes], rest))


def start_run(env: Env, agent: Agent, key: PRNGKeyArray, envs: int) -> Run:
    """A run that has not taken a step, in so many environments."""
    skey, key = jax.random.split(key)
    run = a3c.start_run(env, agent, key)
    start = lambda key: a3c.start_scene(env, agent, key)  # noqa: E731
    scene = jax.vmap(start)(jax.random.split(skey, envs))
    return eqx.tree_at(lambda run: run.scene, run, scene)


def renew(agent: Agent, done: Bool[Array, " envs"], memory: PyTree) -> PyTree:
    """The memories, those of ended episodes as at a beginning."""
    one = lambda done, memory: a3c.keep_if(done, agent.initial_memory(), memory)  # noqa: E731
    return jax.vmap(one)(done, memory)


def by_share(
    agent: Learner, observation: Observation, precision: str, do: Callable[[float], Result]
) -> Result:
    """What `do` makes of the share of Factors that the agent has to serve: all of them, or, where
    observations have few and it has a faster form for that, few."""
    if agent.for_many(observation, precision, FEW) is agent:
        return do(1.0)
    there = [factor.present for factor in observation.factors.values()]
    count = sum(present.sum((-2, -1)) for present in there)
    enough = FEW * sum(present.shape[-2] * present.shape[-1] for present in there)
    return jax.lax.cond(jnp.all(count <= enough), lambda: do(FEW), lambda: do(1.0))


def act(
    env: Env,
    agent: Learner,
    scene: Scene,
    key: PRNGKeyArray,
    time: int,
    settings: Batched,
    precision: Precision = "float32",
) -> tuple[Scene, Rollout]:
    """Let every environment take `time` steps."""
    batch = Batch(env, settings.envs)
    summarise_all = summariser(agent, scene.observation, precision)

    def step(scene: Scene, key: PRNGKeyArray) -> tuple[Scene, Rollout]:
        nkey, skey = jax.random.split(key)
        summary = summarise_all(scene.observation, scene.memory)
        logits, value = agent.decide(summary.vector)
        action = jax.vmap(a3c.sample)(logits, jax.random.gumbel(nkey, logits.shape))
        log_probability = jax.vmap(_log_probability)(logits, action)
        state, observation, made = batch.step(scene.state, action, skey)
        done = made.terminated | made.truncated
        memory = renew(agent, done, summary.memory)
        rollout = Rollout(
            scene.observation, action, log_probability, value, made.reward, done,
            made.success,
        )  # fmt: skip
        return Scene(state, observation, memory), rollout

    return jax.lax.scan(step, scene, jax.random.split(key, time))


def summariser(
    agent: Learner, like: Observation, precision: str
) -> Callable[[Observation, PyTree], Summary]:
    """The agent's `summarise_all`, fastest for observations like these, its weights made ready."""
    forms = {
        share: in_precision(agent.for_many(like, precision, share), precision)
        for share in (FEW, 1.0)
    }

    def summarise_all(observation: Observation, memory: PyTree) -> Summary:
        do = lambda share: forms[share](observation, memory)  # noqa: E731
        return by_share(agent, observation, precision, do)

    return summarise_all


def _log_probability(logits: Float[Array, " actions"], action: Int[Array, ""]) -> Array:
    return jax.nn.log_softmax(logits)[action]


def advantages(
    rollout: Rollout, bootstrap: Float[Array, " envs"], hyper: Hyper, trace: float
) -> Float[Array, "time envs"]:
    """How much better than its value each step turned out to be: generalised advantages. With
    a `trace` of 1 that is the n-step return less the value, as in a3c."""

    def back(after: tuple[Array, Array], now: tuple) -> tuple[tuple[Array, Array], Array]:
        next_value, next_advantage = after
        value, reward, done = now
        goes_on = jnp.where(done, 0.0, hyper.discount)
        surprise = hyper.reward_scale * reward + goes_on * next_value - value
        advantage = surprise + goes_on * trace * next_advantage
        return (value, advantage), advantage

    start = (bootstrap, jnp.zeros_like(bootstrap))
    steps = (rollout.value, rollout.reward, rollout.done)
    return jax.lax.scan(back, start, steps, reverse=True)[1]


def replay(
    agent: Learner, lesson: Lesson, precision: str, share: float = 1.0
) -> tuple[Float[Array, "time envs actions"], Float[Array, "time envs"]]:
    """Logits and values of all steps of a lesson, by the agent as it is now."""
    ready = agent.for_many(lesson.rollout.observation, precision, share)

    def step(memory: PyTree, now: tuple[Observation, Array]) -> tuple[PyTree, Array]:
        observation, done = now
        # Lowered in every step: so gradients are added up over time in full precision.
        summary = in_precision(ready, precision)(observation, memory)
        return renew(agent, done, summary.memory), summary.vector

    steps = (lesson.rollout.observation, lesson.rollout.done)
    return a3c.decide_all(agent, jax.lax.scan(step, lesson.memory, steps)[1])


def loss(
    agent: Learner,
    lesson: Lesson,
    hyper: Hyper,
    settings: Batched,
    precision: Precision = "float32",
    share: float = 1.0,
) -> tuple[Float[Array, ""], tuple]:
    """Means over windows of sums over time, and policy loss, value loss and entropy."""
    logits, value = replay(agent, lesson, precision, share)
    log_policy = jax.nn.log_softmax(logits)
    taken = jnp.take_along_axis(log_policy, lesson.rollout.action[..., None], axis=-1)[..., 0]
    ratio = jnp.exp(taken - lesson.rollout.log_probability)
    clipped = jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip)
    gain = jnp.minimum(ratio * lesson.advantage, clipped * lesson.advantage)
    entropy = -(jnp.exp(log_policy) * log_policy).sum(-1)
    error = jnp.square(lesson.target - value)
    policy_loss, value_loss, entropy = (x.sum(0).mean() for x in (-gain, error, entropy))
    total = policy_loss + 0.5 * value_loss - hyper.entropy * entropy
    return total, (policy_loss, value_loss, entropy)


def learn(
    run: Run,
    lesson: Lesson,
    key: PRNGKeyArray,
    hyper: Hyper,
    settings: Batched,
    precision: Precision = "float32",
) -> tuple[Run, tuple]:
    """The run after all updates of a round, and the means of their loss terms and norms."""

    def update(run: Run, lanes: Int[Array, " some"]) -> tuple[Run, tuple]:
        some = lesson.take(lanes)
        slope = jax.value_and_grad(loss, has_aux=True)
        (total, terms), gradient = by_share(
            run.agent, some.rollout.observation, precision,
            lambda share: slope(run.agent, some, hyper, settings, precision, share),
        )  # fmt: skip
        agent, optimizer, norm, finite = a3c.update(run, gradient, total, hyper)
        diverged = run.diverged | ~finite
        after = Run(agent, optimizer, run.scene, run.key, run.steps, diverged)
        return after, (*terms, norm)

    keys = jax.random.split(key, settings.passes)
    orders = jax.vmap(lambda key: jax.random.permutation(key, settings.lanes))(keys)
    run, figures = jax.lax.scan(update, run, orders.reshape(settings.updates, -1))
    return run, tuple(x.mean() for x in figures)


def collect(
    env: Env,
    hyper: Hyper,
    run: Run,
    key: PRNGKeyArray,
    t_max: int,
    settings: Batched,
    precision: Precision = "float32",
) -> tuple[Scene, Lesson]:
    """Act for a round. The windows of all environments become one lesson, side by side."""

    def window(scene: Scene, key: PRNGKeyArray) -> tuple[Scene, tuple]:
        after, rollout = act(env, run.agent, scene, key, t_max, settings, precision)
        return after, (scene.memory, rollout)

    keys = jax.random.split(key, settings.windows)
    scene, (memory, rollout) = jax.lax.scan(window, run.scene, keys)
    summarise_all = summariser(run.agent, scene.observation, precision)
    ahead = run.agent.decide(summarise_all(scene.observation, scene.memory).vector)[1]
    advantage = advantages(jax.tree.map(_merge, rollout), ahead, hyper, settings.trace)
    advantage = advantage.reshape(rollout.value.shape)
    rollout, advantage = jax.tree.map(_side_by_side, (rollout, advantage))
    target = advantage + rollout.value
    if settings.normalise:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return scene, Lesson(jax.tree.map(_merge, memory), rollout, advantage, target)


def _merge(x: Array) -> Array:
    """With the first two axes as one."""
    return x.reshape(-1, *x.shape[2:])


def _side_by_side(x: Shaped[Array, "windows time envs ..."]) -> Shaped[Array, "time lanes ..."]:
    return jax.vmap(_merge)(jnp.swapaxes(x, 0, 1))


def one_round(
    env: Env,
    hyper: Hyper,
    run: Run,
    t_max: int,
    settings: Batched,
    precision: Precision = "float32",
) -> tuple[Run, Totals]:
    """Act, then learn. A run whose loss or gradient is not finite stays as it was before the
    round, and is marked as diverged."""
    akey, lkey, key = jax.random.split(run.key, 3)
    scene, lesson = collect(env, hyper, run, akey, t_max, settings, precision)
    learned, figures = learn(run, lesson, lkey, hyper, settings, precision)
    totals = count(lesson.rollout, figures)
    agent, optimizer, scene, steps, totals = a3c.keep_if(
        ~learned.diverged,
        (learned.agent, learned.optimizer, scene, run.steps + totals.steps, totals),
        (run.agent, run.optimizer, run.scene, run.steps, Totals.zeros()),
    )
    return Run(agent, optimizer, scene, key, steps, learned.diverged), totals


def count(rollout: Rollout, figures: tuple) -> Totals:
    """A round's share of a report; `figures` are loss terms per window."""
    policy_loss, value_loss, entropy, norm = figures
    time, lanes = rollout.done.shape
    number = lambda of: of.sum(dtype=jnp.int32)  # noqa: E731
    return Totals(
        steps=jnp.int32(time * lanes),
        windows=jnp.int32(1),
        episodes=number(rollout.done),
        successes=number(rollout.done & rollout.success),
        reward=rollout.reward.sum(),
        policy_loss=policy_loss,
        value_loss=value_loss,
        entropy=entropy * lanes,
        gradient_norm=norm,
    )


def train_until(
    env: Env,
    hyper: Hyper,
    run: Run,
    steps: Int[Array, ""],
    t_max: int,
    settings: Batched,
    precision: Precision = "float32",
) -> tuple[Run, Totals]:
    """Rounds until the first that ends at or after `steps`, and their sums."""

    def unfinished(carry: tuple[Run, Totals]) -> Bool[Array, ""]:
        return (carry[0].steps < steps) & ~carry[0].diverged

    def one_more(carry: tuple[Run, Totals]) -> tuple[Run, Totals]:
        run, totals = carry
        run, more = one_round(env, hyper, run, t_max, settings, precision)
        return run, jax.tree.map(jnp.add, totals, more)

    return jax.lax.while_loop(unfinished, one_more, (run, Totals.zeros()))
