"""The actor-critic loss of the paper, with n-step returns; PPO shares its parts."""

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
