"""Pathfinding: remember the links of a growing graph, answer questions about its paths.

Description: a directed graph grows by one node at a time, each a random pattern linked to
    an earlier node in a random direction, so that it is always a polytree. After each link
    comes a quiz: does a directed path lead from one given node to the other? Yes and no are
    equally likely, and the pair is uniform among those with that answer.
Actions: 0 no, 1 yes. Ignored on link steps.
Observation: Core of 2 * pattern + 1 numbers: two patterns and whether this is a quiz.
Rewards: 1 for the right answer to a quiz.
Termination: after the quiz that follows the last link: 2 * (nodes - 1) steps.
Source: section 4.1 and Algorithm 1. The whole episode is drawn at reset, which is the same
    distribution, since nothing in it depends on the actions.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from wmg.envs.pathfinding.state import PathfindingState
from wmg.envs.scenery import Scenery
from wmg.hooks import Bounds
from wmg.tools.draw import Frame
from wmg.types import Env, EnvSpec, Observation, ObservationSpec, Step

NO, YES = range(2)


class Pathfinding(Env[PathfindingState]):
    """See the module's docstring."""

    nodes: int = eqx.field(static=True)
    pattern: int = eqx.field(static=True)

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            observation=ObservationSpec(core=2 * self.pattern + 1),
            actions=2,
            max_steps=2 * (self.nodes - 1),
            metric="reward",
            reward_per_step=0.5,
        )

    def reset(self, key: PRNGKeyArray) -> tuple[PathfindingState, Observation]:
        pkey, ckey = jax.random.split(key)
        patterns = jax.random.uniform(pkey, (self.nodes, self.pattern), minval=-1.0)
        chance = jax.random.uniform(ckey, (4, self.nodes - 1))
        source, target, reach = grow(chance[0], chance[1])
        from_node, to_node, answers = jax.vmap(draw_quiz)(reach, chance[2], chance[3])

        def alternate(link: Array, quiz: Array) -> Array:
            return jnp.stack([link, quiz], axis=1).reshape(-1)

        state = PathfindingState(
            patterns=patterns,
            source=alternate(source, from_node),
            target=alternate(target, to_node),
            answers=alternate(jnp.zeros_like(answers), answers),
            time=jnp.zeros((), jnp.int32),
            right=jnp.zeros((), jnp.int32),
        )
        return state, observe(state)

    def step(
        self, state: PathfindingState, action: Int[Array, ""], key: PRNGKeyArray
    ) -> Step[PathfindingState]:
        del key  # the script was drawn at reset
        quiz = state.time % 2 == 1
        right = quiz & ((action == YES) == state.answers[state.time])
        after = eqx.tree_at(
            lambda s: (s.time, s.right), state, (state.time + 1, state.right + right)
        )
        terminated = after.time == self.spec.max_steps
        return Step(
            state=after,
            observation=observe(after),
            reward=right.astype(jnp.float32),
            terminated=terminated,
            truncated=jnp.zeros((), bool),
            success=after.right == self.nodes - 1,
        )

    def picture(self, state: PathfindingState) -> Frame:
        from wmg.envs.pathfinding import picture

        return picture.rgb(state)

    def text(self, state: PathfindingState) -> str:
        from wmg.envs.pathfinding import picture

        return picture.ansi(state)

    def scene(self) -> Scenery:
        from wmg.envs.pathfinding.scene import SCENERY

        return SCENERY

    def bounds(self) -> Bounds:
        return Bounds(numbers=(-1.0, 1.0))


def grow(
    neighbour: Float[Array, " links"], direction: Float[Array, " links"]
) -> tuple[Int[Array, " links"], Int[Array, " links"], Bool[Array, "links nodes nodes"]]:
    """Where each link starts and ends, and which node reaches which after it was added.

    Link i adds node i + 1; two numbers in [0, 1) choose its neighbour and its direction. A
    new node is a leaf, so it reaches, or is reached by, exactly what its neighbour is, and
    the neighbour itself.
    """
    links = neighbour.shape[0]
    new = jnp.arange(1, links + 1)
    old = jnp.floor(neighbour * new).astype(jnp.int32)
    outward = direction < 0.5
    reach, grown = jnp.zeros((links + 1, links + 1), bool), []
    for link in range(links):
        is_old, is_new = (jnp.arange(links + 1) == node[link] for node in (old, new))
        into = (reach[:, old[link]] | is_old)[:, None] & is_new
        out_of = is_new[:, None] & (reach[old[link]] | is_old)
        reach = reach | jnp.where(outward[link], into, out_of)
        grown.append(reach)
    source = jnp.where(outward, old, new)
    target = jnp.where(outward, new, old)
    return source, target, jnp.stack(grown)


def draw_quiz(
    reach: Bool[Array, "nodes nodes"], coin: Float[Array, ""], choice: Float[Array, ""]
) -> tuple[Int[Array, ""], Int[Array, ""], Bool[Array, ""]]:
    """A fair answer, and a pair drawn uniformly from the ordered pairs that have it.

    Two numbers in [0, 1) make the choice. Both answers always have a pair: a path from A to B
    means that none leads from B to A.
    """
    nodes = reach.shape[0]
    answer = coin < 0.5
    linked = (reach | reach.T).any(axis=0)  # the nodes added so far
    distinct = linked[:, None] & linked & ~jnp.eye(nodes, dtype=bool)
    rank = jnp.cumsum((distinct & (reach == answer)).reshape(-1))
    pair = jnp.argmax(rank > jnp.floor(choice * rank[-1])).astype(jnp.int32)
    return pair // nodes, pair % nodes, answer


def observe(state: PathfindingState) -> Observation:
    """What step `time` of the script shows. After the end: the last quiz again."""
    time = jnp.minimum(state.time, state.source.shape[0] - 1)
    quiz = (time % 2).astype(jnp.float32)[None]
    shown = state.patterns[state.source[time]], state.patterns[state.target[time]], quiz
    return Observation(jnp.concatenate(shown))
