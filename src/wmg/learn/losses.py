"""The losses: n-step actor-critic for A3C, clipped ratios with generalised advantages for PPO."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from wmg.config import Hyper
from wmg.tools.errors import BadInput
from wmg.types import Learner

Terms = tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]
"""Policy loss, value loss and entropy."""


def weigh(terms: Terms, hyper: Hyper) -> Float[Array, ""]:
    """The loss, from its terms."""
    policy_loss, value_loss, entropy = terms
    return policy_loss + 0.5 * value_loss - hyper.entropy * entropy


def decide_all(
    agent: Learner, summaries: Float[Array, "*steps size"]
) -> tuple[Float[Array, "*steps actions"], Float[Array, "*steps"]]:
    """Logits and values of many steps: `agent.decide` of each summary, vectorised."""
    decide = agent.decide
    for _ in summaries.shape[:-1]:
        decide = jax.vmap(decide)
    logits, value = decide(summaries)
    if not logits.shape[:-1] == value.shape == summaries.shape[:-1]:
        steps = summaries.ndim - 1
        raise BadInput(
            f"decide of {type(agent).__name__} must return a vector of logits and one value: "
            f"their shapes are {logits.shape[steps:]} and {value.shape[steps:]}"
        )
    return logits, value


def log_probability(
    logits: Float[Array, "*steps actions"], action: Int[Array, "*steps"]
) -> Float[Array, "*steps"]:
    """The logarithm of the probability of each action that was taken."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], axis=-1)[..., 0]


def entropies(logits: Float[Array, "*steps actions"]) -> Float[Array, "*steps"]:
    """The entropy of each policy."""
    log_policy = jax.nn.log_softmax(logits)
    return -(jnp.exp(log_policy) * log_policy).sum(-1)


def returns(
    rewards: Float[Array, " time"],
    valid: Bool[Array, " time"],
    bootstrap: Float[Array, ""],
    discount: Float[Array, ""] | float,
) -> Float[Array, " time"]:
    """Discounted n-step returns, counting back from `bootstrap` = V(next observation).

    Steps that are not `valid` pass the return through unchanged, so a window cut short by
    the end of an episode needs only `bootstrap = 0`.
    """

    def back(after: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, valid = step
        here = jnp.where(valid, reward + discount * after, after)
        return here, here

    return jax.lax.scan(back, bootstrap, (rewards, valid), reverse=True, unroll=True)[1]


def actor_critic_terms(
    logits: Float[Array, "time actions"],
    value: Float[Array, " time"],
    action: Int[Array, " time"],
    target: Float[Array, " time"],
    valid: Bool[Array, " time"],
) -> Terms:
    """The terms of A3C for a window: sums over its valid steps, not means."""
    advantage = jax.lax.stop_gradient(target - value)
    error = jax.lax.stop_gradient(target) - value
    policy_loss = -jnp.sum(log_probability(logits, action) * advantage, where=valid)
    value_loss = jnp.sum(jnp.square(error), where=valid)
    return policy_loss, value_loss, jnp.sum(entropies(logits), where=valid)


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
) -> Terms:
    """The terms of PPO for some windows: means over windows of sums over time."""
    ratio = jnp.exp(log_probability(logits, action) - old_log_probability)
    clipped = jnp.clip(ratio, 1 - clip, 1 + clip)
    gain = jnp.minimum(ratio * advantage, clipped * advantage)
    error = jnp.square(target - value)
    policy_loss, value_loss, entropy = (x.sum(0).mean() for x in (-gain, error, entropies(logits)))
    return policy_loss, value_loss, entropy
