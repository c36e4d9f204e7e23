"""Synchronous A3C: one agent, many environments at once, for speed on an accelerator.

A *round* has two halves. First every environment takes `t_max` steps; where an episode ends, the
next one begins. Then the agent learns from all those steps together: the gradient is the mean over
environments of what `a3c` would sum over one environment's window, so hyperparameters keep their
meaning. The steps may be learned from more than once, since a round of many environments stands
for a single update where the paper makes hundreds; ratios of probabilities are then clipped, as PPO
does, so that the policy cannot run away from the one that acted.

Gradients reach past Memos within a round only, and a round's first memory is a constant, as in a3c.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from wmg import a3c
from wmg.a3c import Run, Scene, Totals
from wmg.agents.precision import in_precision
from wmg.config import Batched, Hyper
from wmg.envs.batch import Batch
from wmg.types import Agent, Env, Learner, Observation


class Rollout(eqx.Module):
    """What acting leaves for learning: one step of every environment, or all steps of a round."""

    observation: Observation
    action: Int[Array, "*time envs"]
    log_probability: Float[Array, "*time envs"]
    """Of the action, by the policy that acted."""
    value: Float[Array, "*time envs"]
    reward: Float[Array, "*time envs"]
    done: Bool[Array, "*time envs"]
    success: Bool[Array, "*time envs"]


class Lesson(eqx.Module):
    """What some environments have to teach: their steps, and what came of them."""

    memory: PyTree[Any]
    """At the round's start."""
    rollout: Rollout
    advantage: Float[Array, "time envs"]
    target: Float[Array, "time envs"]
    """What the value should have been."""

    def take(self, lanes: Int[Array, " some"]) -> "Lesson":
        """The lesson of some of the environments."""
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


def act(
    env: Env, agent: Learner, scene: Scene, key: PRNGKeyArray, time: int, settings: Batched
) -> tuple[Scene, Rollout]:
    """Let every environment take `time` steps."""
    batch = Batch(env, settings.envs)
    ready = agent.for_many(scene.observation, settings.precision)
    summarise_all = in_precision(ready, settings.precision)

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
    agent: Learner, lesson: Lesson, precision: str
) -> tuple[Float[Array, "time envs actions"], Float[Array, "time envs"]]:
    """Logits and values of all steps of a round, by the agent as it is now."""
    ready = agent.for_many(lesson.rollout.observation, precision)

    def step(memory: PyTree, now: tuple[Observation, Array]) -> tuple[PyTree, Array]:
        observation, done = now
        # Lowered in every step: so gradients are added up over time in full precision.
        summary = in_precision(ready, precision)(observation, memory)
        return renew(agent, done, summary.memory), summary.vector

    steps = (lesson.rollout.observation, lesson.rollout.done)
    return a3c.decide_all(agent, jax.lax.scan(step, lesson.memory, steps)[1])


def loss(
    agent: Learner, lesson: Lesson, hyper: Hyper, settings: Batched
) -> tuple[Float[Array, ""], tuple]:
    """Means over environments of sums over time, and policy loss, value loss and entropy."""
    logits, value = replay(agent, lesson, settings.precision)
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
    run: Run, lesson: Lesson, key: PRNGKeyArray, hyper: Hyper, settings: Batched
) -> tuple[Run, tuple]:
    """The run after all updates of a round, and the means of their loss terms and norms."""

    def update(run: Run, lanes: Int[Array, " some"]) -> tuple[Run, tuple]:
        slope = jax.value_and_grad(loss, has_aux=True)
        (total, terms), gradient = slope(run.agent, lesson.take(lanes), hyper, settings)
        agent, optimizer, norm, finite = a3c.update(run, gradient, total, hyper)
        diverged = run.diverged | ~finite
        after = Run(agent, optimizer, run.scene, run.key, run.steps, diverged)
        return after, (*terms, norm)

    keys = jax.random.split(key, settings.passes)
    orders = jax.vmap(lambda key: jax.random.permutation(key, settings.envs))(keys)
    run, figures = jax.lax.scan(update, run, orders.reshape(settings.updates, -1))
    return run, tuple(x.mean() for x in figures)


def one_round(
    env: Env, hyper: Hyper, run: Run, t_max: int, settings: Batched
) -> tuple[Run, Totals]:
    """Act for `t_max` steps in every environment, then learn. A run whose loss or gradient is
    not finite stays as it was before the round, and is marked as diverged."""
    akey, lkey, key = jax.random.split(run.key, 3)
    scene, rollout = act(env, run.agent, run.scene, akey, t_max, settings)
    ready = run.agent.for_many(scene.observation, settings.precision)
    ahead = in_precision(ready, settings.precision)(scene.observation, scene.memory).vector
    advantage = advantages(rollout, run.agent.decide(ahead)[1], hyper, settings.trace)
    target = advantage + rollout.value
    if settings.normalise:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    lesson = Lesson(run.scene.memory, rollout, advantage, target)
    learned, figures = learn(run, lesson, lkey, hyper, settings)
    totals = count(rollout, figures)
    agent, optimizer, scene, steps, totals = a3c.keep_if(
        ~learned.diverged,
        (learned.agent, learned.optimizer, scene, run.steps + totals.steps, totals),
        (run.agent, run.optimizer, run.scene, run.steps, Totals.zeros()),
    )
    return Run(agent, optimizer, scene, key, steps, learned.diverged), totals


def count(rollout: Rollout, figures: tuple) -> Totals:
    """A round's share of a report; `figures` are loss terms per environment and window."""
    policy_loss, value_loss, entropy, norm = figures
    time, envs = rollout.done.shape
    number = lambda of: of.sum(dtype=jnp.int32)  # noqa: E731
    return Totals(
        steps=jnp.int32(time * envs),
        windows=jnp.int32(1),
        episodes=number(rollout.done),
        successes=number(rollout.done & rollout.success),
        reward=rollout.reward.sum(),
        policy_loss=policy_loss,
        value_loss=value_loss,
        entropy=entropy * envs,
        gradient_norm=norm,
    )


def train_until(
    env: Env, hyper: Hyper, run: Run, steps: Int[Array, ""], t_max: int, settings: Batched
) -> tuple[Run, Totals]:
    """Rounds until the first that ends at or after `steps`, and their sums."""

    def unfinished(carry: tuple[Run, Totals]) -> Bool[Array, ""]:
        return (carry[0].steps < steps) & ~carry[0].diverged

    def one_more(carry: tuple[Run, Totals]) -> tuple[Run, Totals]:
        run, totals = carry
        run, more = one_round(env, hyper, run, t_max, settings)
        return run, jax.tree.map(jnp.add, totals, more)

    return jax.lax.while_loop(unfinished, one_more, (run, Totals.zeros()))
