"""Held-out episodes: how well an agent plays, without learning."""

import functools
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from wmg.play.streams import Chance, chance_of, episode_keys, test_key
from wmg.tools import stats
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env, EnvSpec, Observation, Output, Step, keep_if, sample


class Episodes(eqx.Module):
    """The outcome of one episode, or of each of a number of them."""

    reward: Float[Array, "*episodes"]
    length: Int[Array, "*episodes"]
    success: Bool[Array, "*episodes"]


class Lanes(eqx.Module):
    """Episodes in progress: each lane plays one, then the next nobody has begun."""

    state: PyTree[Any]
    observation: Observation
    memory: PyTree[Any]
    time: Int[Array, " lanes"]
    episode: Int[Array, " lanes"]
    """Which episode each lane plays; one beyond the last means none."""
    begun: Int[Array, ""]
    failed: Int[Array, ""]
    played: Episodes
    """Episodes so far; length 0 means not started."""


def act(
    agent: Agent, observation: Observation, memory: PyTree, noise: Float[Array, " actions"]
) -> tuple[Int[Array, ""], Output]:
    """The agent's action, and all that it makes of the observation."""
    output = agent(observation, memory)
    return sample(output.logits, noise), output


Begin = Callable[[Int[Array, ""]], tuple[Any, Observation]]
"""Starts the episode of an index."""
Draw = Callable[[Int[Array, ""], Int[Array, ""]], Chance]
"""What is random in the step at a time of the episode of an index."""


def play(
    env: Env,
    agent: Agent,
    begin: Begin,
    chance: Draw,
    episodes: int,
    lanes: int,
    *,
    greedy: bool = False,
    thinking: int = 0,
    allowed: Int[Array, " episodes_and_none"] | None = None,
    now: Lanes | None = None,
    steps: Int[Array, ""] | int | None = None,
) -> Lanes:
    """Play episodes 0, 1, 2, ..., sampling from the policy or, if `greedy`, by its best action.

    `begin(episode)` starts an episode; `chance(episode, time)` is what is random in its steps.

    The agent first sees the first observation `thinking` more times and updates its memory. The
    environment takes no step then: they do not count, and use no random numbers.

    `allowed[n]` is the number of failures among the first n episodes with which play goes on. Once
    there are more, no episode is begun and those in progress are played to their end. So the
    first episodes are played, whatever their length. Idle lanes cost as much as others.

    Play goes on from `now`, and stops after `steps` steps if they are given.
    """

    def one(state: Any, observation: Observation, memory: Any, time: Any, episode: Any) -> tuple:
        noise, key = chance(episode, time - thinking)  # not used while the agent thinks
        action, output = act(agent, observation, memory, jnp.zeros_like(noise) if greedy else noise)
        after = env.step(state, action, key)
        if thinking:
            after = _step_if(time >= thinking, after, state, observation)
        return after, output.memory

    def step(now: Lanes) -> Lanes:
        lane = now.state, now.observation, now.memory, now.time, now.episode
        after, memory = jax.vmap(one)(*lane)
        time, idle = now.time + 1, now.episode >= episodes
        late = time == env.spec.max_steps + thinking
        ended = ~idle & (after.terminated | after.truncated | late)
        played = Episodes(
            now.played.reward.at[now.episode].add(after.reward, mode="drop"),
            now.played.length.at[now.episode].add(now.time >= thinking, mode="drop"),
            now.played.success.at[now.episode].set(after.success, mode="drop"),
        )
        failed = now.failed + (ended & ~after.success).sum(dtype=jnp.int32)
        episode = jnp.where(ended, episodes, now.episode)
        lane = after.state, after.observation, memory, time, episode
        now = Lanes(*lane, now.begun, failed, played)
        if lanes == episodes:  # every one of them has been begun
            return now
        more = True if allowed is None else failed <= allowed[now.begun]
        wanted = (episode == episodes).any() & (now.begun < episodes) & more
        fresh = jax.vmap(functools.partial(begin_lane, agent, begin))
        return jax.lax.cond(wanted, lambda: _refill(now, fresh), lambda: now)

    return repeat(step, start(agent, begin, episodes, lanes) if now is None else now, steps)


def _step_if(acts: Bool[Array, ""], after: Step, state: Any, observation: Observation) -> Step:
    """The step if `acts`; otherwise state and observation stay and nothing is rewarded."""
    return Step(
        state=keep_if(acts, after.state, state),
        observation=keep_if(acts, after.observation, observation),
        reward=jnp.where(acts, after.reward, 0.0),
        terminated=after.terminated & acts,
        truncated=after.truncated & acts,
        success=after.success & acts,
    )


def repeat(step: Callable[[Lanes], Lanes], now: Lanes, steps: Int[Array, ""] | int | None) -> Lanes:
    """What follows by steps until nothing is left to play, or as many as are given."""
    if steps is None:
        return jax.lax.while_loop(unfinished, step, now)
    return jax.lax.while_loop(
        lambda state: unfinished(state[0]) & (state[1] < steps),
        lambda state: (step(state[0]), state[1] + 1),
        (now, jnp.int32(0)),
    )[0]


def begin_lane(agent: Agent, begin: Begin, index: Int[Array, ""]) -> tuple:
    """State, observation, memory and time at the start of an episode."""
    return *begin(index), agent.initial_memory(), jnp.int32(0)


def start(agent: Agent, begin: Begin, episodes: int, lanes: int) -> Lanes:
    """The first episodes, one in each lane."""
    first, none = jnp.arange(lanes), jnp.zeros(episodes, jnp.int32)
    nothing = Episodes(none.astype(jnp.float32), none, none.astype(bool))
    fresh = jax.vmap(lambda index: begin_lane(agent, begin, index))
    state, observation, memory, time = fresh(first)
    begun, failed = jnp.int32(lanes), jnp.int32(0)
    return Lanes(state, observation, memory, time, first, begun, failed, nothing)


def unfinished(now: Lanes) -> Bool[Array, ""]:
    """Whether any lane still plays."""
    return (now.episode < len(now.played.length)).any()


def _refill(now: Lanes, fresh: Callable[[Int[Array, " lanes"]], tuple]) -> Lanes:
    """Lanes that are idle take the next episodes."""
    episodes = len(now.played.length)
    idle = now.episode == episodes
    offered = now.begun + jnp.cumsum(idle) - 1
    starts = idle & (offered < episodes)
    lane = now.state, now.observation, now.memory, now.time, now.episode
    state, observation, memory, time, episode = jax.vmap(keep_if)(
        starts, (*fresh(offered), offered), lane
    )
    begun = now.begun + starts.sum(dtype=jnp.int32)
    return Lanes(state, observation, memory, time, episode, begun, now.failed, now.played)


def lanes_for(episodes: int) -> int:
    """How many episodes are best played at once: on a CPU few, so that at the end few are idle."""
    return min(episodes, 64 if jax.default_backend() == "cpu" else 10_000)


Streams = Callable[[Any, Any], tuple[Begin, Draw]]
"""Takes an environment and what its random numbers come from (a key; for levels, a key and their
indices), and returns the functions that begin an episode and draw its chance."""
Show = Callable[[str, int, int], None]
"""Shows how much is done: of what, how much, and of how much."""
PART_SECONDS = 0.5
"""How long a part is played before progress is shown."""


@functools.partial(jax.jit, static_argnums=(3, 4, 5, 6, 7))
def _play(
    env: Env,
    agent: Agent,
    key: PyTree[Any],
    streams: Streams,
    episodes: int,
    lanes: int,
    greedy: bool,
    thinking: int,
    now: Lanes | None = None,
    steps: Int[Array, ""] | int | None = None,
) -> Lanes:
    how = {"greedy": greedy, "thinking": thinking, "now": now, "steps": steps}
    return play(env, agent, *streams(env, key), episodes, lanes, **how)


@functools.partial(jax.jit, static_argnums=(3, 4, 5))
def _start(
    env: Env, agent: Agent, key: PyTree[Any], streams: Streams, episodes: int, lanes: int
) -> Lanes:
    return start(agent, streams(env, key)[0], episodes, lanes)


def play_all(*test: Any, show: Show | None = None) -> Episodes:
    """The episodes of a test: the arguments of `_play`. With `show`, it is played in parts, and
    progress is shown between them; the outcome is the same."""
    if show is None:
        return jax.device_get(_play(*test).played)
    show("compiling ...", 0, 0)
    now, steps = _start(*test[:6]), 1
    episodes = now.played.length.size
    while unfinished(now):
        began = time.monotonic()
        now = _play(*test, now, jnp.int32(steps))
        done = int(now.begun) - int((now.episode < episodes).sum())
        show("episodes", done, episodes)
        steps *= 2 if time.monotonic() - began < PART_SECONDS else 1
    return jax.device_get(now.played)


def held_out(env: Env, key: PRNGKeyArray) -> tuple[Begin, Draw]:
    """The held-out episodes of an environment that draws them."""

    def begin(index: Int[Array, ""]) -> tuple[Any, Observation]:
        return env.reset(episode_keys(key, index)[0])

    def chance(index: Int[Array, ""], time: Int[Array, ""]) -> Chance:
        _, pkey, ekey = episode_keys(key, index)
        return chance_of(env.spec, pkey, ekey, time)

    return begin, chance


def evaluate(
    env: Env,
    agent: Agent,
    seed: int,
    episodes: int,
    greedy: bool = False,
    show: Show | None = None,
    thinking: int = 0,
) -> Episodes:
    """The episodes of a test seed: the same for every agent, sampled actions aside. For `thinking`
    see `play`."""
    check_thinking(agent, thinking)
    lanes = lanes_for(episodes)
    test = env, agent, test_key(seed), held_out, episodes, lanes, greedy, thinking
    return play_all(*test, show=show)


def check_thinking(agent: Agent, thinking: int) -> None:
    """Refuses steps of thinking that are too many, or that an agent cannot remember."""
    if not 0 <= thinking <= 10_000:
        raise BadInput(f"thinking must be from 0 to 10,000, got {thinking}")
    if thinking and not agent.remembers:
        raise BadInput(f"thinking has no effect on an agent without memory, got {thinking}")


UNPLAYED, FAILED, SOLVED = range(3)


def play_block(
    env: Env,
    agent: Agent,
    key: PRNGKeyArray,
    allowed: Int[Array, " episodes_and_none"],
    lanes: int,
    ahead: bool = False,
) -> Int[Array, " episodes"]:
    """The outcome of each episode of a block: SOLVED, FAILED or, after too many failures, UNPLAYED.

    With `ahead`, the starts of all episodes are drawn at once. Where many agents are one program,
    some lane begins an episode in almost every step, and drawing starts each time costs more.
    """
    episodes = len(allowed) - 1
    ekey, pkey = jax.random.split(key)

    def begin(index: Int[Array, ""]) -> tuple[Any, Observation]:
        return env.reset(jax.random.fold_in(ekey, index))

    starts = jax.vmap(begin)(jnp.arange(episodes)) if ahead else None

    def fetch(index: Int[Array, ""]) -> tuple[Any, Observation]:
        return jax.tree.map(lambda leaf: leaf[index], starts)

    def chance(index: Int[Array, ""], time: Int[Array, ""]) -> Chance:
        nkey, skey = jax.random.split(jax.random.fold_in(jax.random.fold_in(pkey, index), time))
        return jax.random.gumbel(nkey, (env.spec.actions,)), skey

    first = fetch if ahead else begin
    played = play(env, agent, first, chance, episodes, lanes, allowed=allowed).played
    return jnp.where(played.length == 0, UNPLAYED, jnp.where(played.success, SOLVED, FAILED))


def scores(spec: EnvSpec, episodes: Episodes) -> np.ndarray:
    """Each episode's score: its return, or in percent its success or share of possible reward."""
    if spec.metric == "return":
        return np.asarray(episodes.reward, float)
    if spec.metric == "success":
        return 100.0 * np.asarray(episodes.success, float)
    return (
        100.0 * np.asarray(episodes.reward) / (spec.reward_per_step * np.asarray(episodes.length))
    )


def summary(spec: EnvSpec, episodes: Episodes) -> dict[str, float | int | str]:
    """Mean score with its standard error, and what else a table wants to know."""
    each = scores(spec, episodes)
    named = {"metric": spec.metric} if spec.metric == "return" else {}
    return {
        **named,
        "score": float(each.mean()),
        "standard_error": stats.standard_error(each),
        "success": float(np.mean(episodes.success)),
        "episodes": len(each),
        "mean_length": float(np.mean(episodes.length)),
    }
