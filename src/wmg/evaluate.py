"""Held-out episodes: how well an agent plays, without learning."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from wmg.types import Agent, Env, EnvSpec, Observation


class Episodes(eqx.Module):
    """The outcome of one episode, or of each of a number of them."""

    reward: Float[Array, "*episodes"]
    length: Int[Array, "*episodes"]
    success: Bool[Array, "*episodes"]


def play_episode(env: Env, agent: Agent, key: PRNGKeyArray, greedy: bool) -> Episodes:
    """One episode, acting by the policy or, if `greedy`, by its most likely action."""
    rkey, pkey, ekey = jax.random.split(key, 3)
    return play_from(env, agent, *env.reset(rkey), pkey, ekey, greedy)


def play_from(
    env: Env,
    agent: Agent,
    state: Any,
    observation: Observation,
    pkey: PRNGKeyArray,
    ekey: PRNGKeyArray,
    greedy: bool,
    thinking: int = 0,
) -> Episodes:
    """The episode that starts so. In the first `thinking` steps action 0 is taken, whatever the
    agent would do."""
    steps = env.spec.max_steps
    noise = jax.random.gumbel(pkey, (steps, env.spec.actions)) * (0.0 if greedy else 1.0)
    acts = jnp.arange(steps) >= thinking

    def step(carry: tuple, inputs: tuple[Array, Array, Array]) -> tuple[tuple, None]:
        state, observation, memory, over, so_far = carry
        output = agent(observation, memory)
        action = jnp.where(inputs[2], jnp.argmax(output.logits + inputs[0]), 0)
        after = env.step(state, action, inputs[1])
        so_far = Episodes(
            so_far.reward + jnp.where(over, 0.0, after.reward),
            so_far.length + ~over,
            jnp.where(over, so_far.success, after.success),
        )
        return (
            after.state,
            after.observation,
            output.memory,
            over | after.done,
            so_far,
        ), None

    nothing = Episodes(jnp.zeros(()), jnp.zeros((), jnp.int32), jnp.zeros((), bool))
    start = (state, observation, agent.initial_memory(), jnp.zeros((), bool), nothing)
    (*_, result), _ = jax.lax.scan(step, start, (noise, jax.random.split(ekey, steps), acts))
    return result


@functools.partial(jax.jit, static_argnums=(3, 4, 5))
def _play(env: Env, agent: Agent, key: Any, episodes: int, greedy: bool, batch: int) -> Episodes:
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(episodes))
    play = lambda key: play_episode(env, agent, key, greedy)  # noqa: E731
    return jax.lax.map(play, keys, batch_size=batch)


def evaluate(env: Env, agent: Agent, seed: int, episodes: int, greedy: bool = False) -> Episodes:
    """The episodes of a test seed: the same for every agent, sampled actions aside."""
    batch = min(episodes, 250 if jax.default_backend() == "cpu" else 10_000)
    key = jax.random.fold_in(jax.random.key(TEST_STREAM), seed)
    return jax.device_get(_play(env, agent, key, episodes, greedy, batch))


class Lanes(eqx.Module):
    """Episodes of a stretch in progress: each lane plays one, then the next nobody has begun."""

    state: PyTree[Any]
    observation: Observation
    memory: PyTree[Any]
    episode: Int[Array, " lanes"]
    """Which episode each lane plays; one beyond the last means none."""
    begun: Int[Array, ""]
    outcomes: Int[Array, " episodes"]
    """UNPLAYED, FAILED or SOLVED."""
    key: PRNGKeyArray


UNPLAYED, FAILED, SOLVED = range(3)


def play_stretch(
    env: Env,
    agent: Agent,
    key: PRNGKeyArray,
    allowed: Int[Array, " episodes_and_none"],
    lanes: int,
) -> Int[Array, " episodes"]:
    """The outcomes of episodes, by the policy, until too many have failed: `allowed` says how many
    may, of the first 0, 1, 2, ... of them.

    From then on no episode is begun, but those in progress are played to their end: so the
    episodes with an outcome are always the first ones, as if played one after the other,
    whatever their length. Lanes that are idle or between episodes cost as much as others.
    """
    episodes = len(allowed) - 1

    def begin(index: Int[Array, ""]) -> tuple[Any, Observation, Any]:
        return *env.reset(jax.random.fold_in(ekey, index)), agent.initial_memory()

    def step(now: Lanes) -> Lanes:
        key, nkey, skey = jax.random.split(now.key, 3)
        output = jax.vmap(agent)(now.observation, now.memory)
        noise = jax.random.gumbel(nkey, output.logits.shape)
        actions = jnp.argmax(output.logits + noise, axis=1)
        after = jax.vmap(env.step)(now.state, actions, jax.random.split(skey, lanes))
        playing = now.episode < episodes
        ended = playing & (after.terminated | after.truncated)
        won = jnp.where(after.success, SOLVED, FAILED)
        outcomes = now.outcomes.at[jnp.where(ended, now.episode, episodes)].set(won, mode="drop")
        places = (after.state, after.observation, output.memory)
        episode = jnp.where(ended, episodes, now.episode)
        if lanes == episodes:  # every one of them has been begun
            return Lanes(*places, episode, now.begun, outcomes, key)
        more = (outcomes == FAILED).sum() <= allowed[now.begun]
        free = (ended | ~playing) & more
        offered = now.begun + jnp.cumsum(free) - 1
        starts = free & (offered < episodes)
        fresh = jax.vmap(begin)(offered)
        state, observation, memory = jax.vmap(_choose)(starts, fresh, places)
        episode = jnp.where(starts, offered, episode)
        begun = now.begun + starts.sum(dtype=jnp.int32)
        return Lanes(state, observation, memory, episode, begun, outcomes, key)

    ekey, pkey = jax.random.split(key)
    first = jnp.arange(lanes)
    nothing = jnp.full(episodes, UNPLAYED, jnp.int32)
    start = Lanes(*jax.vmap(begin)(first), first, jnp.int32(lanes), nothing, pkey)
    return jax.lax.while_loop(lambda now: (now.episode < episodes).any(), step, start).outcomes


def _choose(condition: Bool[Array, ""], one: PyTree, other: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


TEST_STREAM = 20_200_708
"""Held-out episodes come from a key that no training run starts from."""


def scores(spec: EnvSpec, episodes: Episodes) -> np.ndarray:
    """Each episode's score in percent: its share of possible reward, or success."""
    if spec.metric == "success":
        return 100.0 * np.asarray(episodes.success, float)
    return (
        100.0 * np.asarray(episodes.reward) / (spec.reward_per_step * np.asarray(episodes.length))
    )


def summary(spec: EnvSpec, episodes: Episodes) -> dict[str, float | int]:
    """Mean score with its standard error, and what else a table wants to know."""
    each = scores(spec, episodes)
    return {
        "score": float(each.mean()),
        "standard_error": float(each.std(ddof=1) / len(each) ** 0.5),
        "success": float(np.mean(episodes.success)),
        "episodes": len(each),
        "mean_length": float(np.mean(episodes.length)),
    }
