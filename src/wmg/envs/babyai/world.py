"""A room, what happens in it, and levels of one's own making."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from wmg.envs.babyai import missions
from wmg.envs.babyai.vocabulary import (
    ARTICLES,
    COLOURS,
    DROP,
    FORWARD,
    LEFT,
    LOCATIONS,
    OBJECTS,
    PICKUP,
    RIGHT,
    SIZE,
    TOGGLE,
    TYPES,
    VERBS,
)

LYING, CARRIED, ABSENT = range(3)
"""Where a thing is: in a cell, with the agent, or nowhere."""

GO, PICK = VERBS.index("go"), VERBS.index("pick")
BOX = TYPES.index("box")
ANY_TYPE, NO_COLOUR, NO_LOCATION = len(TYPES), len(COLOURS), len(LOCATIONS)
BEHIND, FRONT, AT_LEFT, AT_RIGHT = range(4)
"""Indices into LOCATIONS."""


class BabyAIState(eqx.Module):
    """One episode: where everything is, and the mission. Numbers are places in `vocabulary`."""

    agent: Int[Array, "2"]
    """x, y."""
    direction: Int[Array, ""]
    position: Int[Array, "8 2"]
    type: Int[Array, " 8"]
    colour: Int[Array, " 8"]
    status: Int[Array, " 8"]
    target: Bool[Array, " 8"]
    """What the mission means. It is fixed at the start: "the ball on your left" stays the same
    ball when the agent turns."""
    verb: Int[Array, ""]
    article: Int[Array, ""]
    mission_colour: Int[Array, ""]
    """NO_COLOUR if the mission names none."""
    mission_type: Int[Array, ""]
    """ANY_TYPE if the mission says "object"."""
    location: Int[Array, ""]
    """NO_LOCATION if the mission names none."""
    last_action: Int[Array, ""]
    """-1 at the start."""
    time: Int[Array, ""]


def ahead_of(direction: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The step in x and in y that leads forward."""
    is_direction = [(direction == d).astype(jnp.int32) for d in range(4)]
    return is_direction[0] - is_direction[2], is_direction[1] - is_direction[3]


def seen_from(
    agent: Int[Array, "2"], direction: Int[Array, ""], position: Int[Array, "things 2"]
) -> tuple[Int[Array, " things"], Int[Array, " things"]]:
    """How far ahead of the agent and how far to its right each position is."""
    dx, dy = ahead_of(direction)
    x, y = position[:, 0] - agent[0], position[:, 1] - agent[1]
    return x * dx + y * dy, y * dx - x * dy


def matches_location(
    ahead: Int[Array, " things"], right: Int[Array, " things"], location: Int[Array, ""]
) -> Bool[Array, " things"]:
    """Whether each thing is where a description says. Straight ahead is neither left nor right."""
    return (
        (location == NO_LOCATION)
        | ((location == BEHIND) & (ahead < 0))
        | ((location == FRONT) & (ahead > 0))
        | ((location == AT_LEFT) & (right < 0))
        | ((location == AT_RIGHT) & (right > 0))
    )


def begin(
    agent: Int[Array, "2"],
    direction: Int[Array, ""],
    position: Int[Array, "8 2"],
    type: Int[Array, " 8"],
    colour: Int[Array, " 8"],
    status: Int[Array, " 8"],
    verb: Int[Array, ""],
    mission_colour: Int[Array, ""],
    mission_type: Int[Array, ""],
    location: Int[Array, ""],
) -> BabyAIState:
    """A level at its start: the targets are what the mission describes, and its article says
    whether there is one of them or more."""
    ahead, right = seen_from(agent, direction, position)
    target = (
        (status == LYING)
        & ((type == mission_type) | (mission_type == ANY_TYPE))
        & ((colour == mission_colour) | (mission_colour == NO_COLOUR))
        & matches_location(ahead, right, location)
    )
    state = BabyAIState(
        agent=agent,
        direction=direction,
        position=position,
        type=type,
        colour=colour,
        status=status,
        target=target,
        verb=verb,
        article=(target.sum() > 1).astype(jnp.int32),
        mission_colour=mission_colour,
        mission_type=mission_type,
        location=location,
        last_action=jnp.full((), -1),
        time=jnp.zeros((), jnp.int32),
    )
    # A number that came from a constant alone would make a loop over states compile twice.
    return jax.tree.map(lambda leaf: leaf.astype(leaf.dtype), state)


def act(state: BabyAIState, action: Int[Array, ""]) -> tuple[BabyAIState, Bool[Array, ""]]:
    """What `action` leads to, and whether the mission is then fulfilled."""
    front = state.agent + jnp.stack(ahead_of(state.direction))
    lying = state.status == LYING
    carried = state.status == CARRIED
    faced = lying & is_at(state.position, front)
    blocked = faced.any() | is_wall(front)

    picked = (action == PICKUP) & faced & ~carried.any()
    dropped = (action == DROP) & carried & ~blocked
    opened = (action == TOGGLE) & faced & (state.type == BOX)  # a box is empty, and then gone
    turn = (action == RIGHT).astype(jnp.int32) - (action == LEFT)

    agent = jnp.where((action == FORWARD) & ~blocked, front, state.agent)
    direction = (state.direction + turn) % 4
    status = jnp.where(picked, CARRIED, state.status)
    status = jnp.where(dropped, LYING, jnp.where(opened, ABSENT, status))
    after = dataclasses.replace(
        state,
        agent=agent,
        direction=direction,
        position=jnp.where(dropped[:, None], front, state.position),
        status=status,
        last_action=action.astype(jnp.int32),
        time=state.time + 1,
    )
    # The target's cell before the action counts: a target that the agent faces and picks up or
    # opens in the same step was reached, as in minigrid.
    now_front = agent + jnp.stack(ahead_of(direction))
    reached = (state.target & lying & is_at(state.position, now_front)).any()
    return after, jnp.where(state.verb == GO, reached, (state.target & picked).any())


def is_at(position: Int[Array, "things 2"], cell: Int[Array, "2"]) -> Bool[Array, " things"]:
    """Which positions are that cell."""
    return (position[:, 0] == cell[0]) & (position[:, 1] == cell[1])


def is_wall(cell: Int[Array, "2"]) -> Bool[Array, ""]:
    """Whether a cell is part of the wall around the room."""
    x, y = cell[0], cell[1]
    return (x == 0) | (x == SIZE - 1) | (y == 0) | (y == SIZE - 1)


@dataclasses.dataclass(frozen=True)
class Layout:
    """A level of one's own: a mission, and where everything is at the start."""

    agent: tuple[int, int]
    """x, y; the room is 1 to 6 either way."""
    direction: int
    """0 right, 1 down, 2 left, 3 up."""
    things: tuple[tuple[str, str, int, int], ...]
    """(type, colour, x, y) of each."""
    mission: str | missions.Mission
    """For instance "go to the red ball"."""
    targets: tuple[int, ...] | None = None
    """Indices of the target things (default: all that the mission describes)."""

    def __post_init__(self):
        if self.direction not in range(4):
            raise ValueError(f"a direction is 0, 1, 2 or 3, got {self.direction!r}")
        if len(self.things) > OBJECTS:
            raise ValueError(f"a room has at most {OBJECTS} things, got {len(self.things)}")
        _check_inside(self.agent, "the agent")
        taken = {tuple(self.agent): "the agent"}
        for type, colour, x, y in self.things:
            if type not in TYPES[1:] or colour not in COLOURS:
                raise ValueError(
                    f"a thing is a key, ball or box in one of {', '.join(COLOURS)}, "
                    f"got {colour!r} {type!r}"
                )
            name = f"the {colour} {type}"
            _check_inside((x, y), name)
            if (x, y) in taken:
                raise ValueError(f"{name} and {taken[x, y]} are both in cell ({x}, {y})")
            taken[x, y] = name
        if self.targets is not None and not set(self.targets) <= set(range(len(self.things))):
            raise ValueError(f"targets are places in the list of things, got {self.targets!r}")
        if not self.state().target.any():
            raise ValueError(f"nothing in the room is what {str(self.mission)!r} means")

    def state(self) -> BabyAIState:
        """The start of an episode."""
        mission = self.mission
        mission = missions.parse(mission) if isinstance(mission, str) else mission
        if mission.verb not in ("go", "pick") or mission.second is not None:
            raise ValueError(
                f"a mission here is to go to a thing or to pick it up, got '{mission}'"
            )
        missing = OBJECTS - len(self.things)
        things = [*self.things, *[(TYPES[0], COLOURS[0], 0, 0)] * missing]
        what = mission.first
        colour = NO_COLOUR if what.colour is None else COLOURS.index(what.colour)
        place = NO_LOCATION if what.location is None else LOCATIONS.index(what.location)
        state = begin(
            agent=jnp.array(self.agent, jnp.int32),
            direction=jnp.int32(self.direction),
            position=jnp.array([(x, y) for _, _, x, y in things], jnp.int32),
            type=jnp.array([TYPES.index(type) for type, *_ in things], jnp.int32),
            colour=jnp.array([COLOURS.index(colour) for _, colour, *_ in things], jnp.int32),
            status=jnp.array([LYING] * len(self.things) + [ABSENT] * missing, jnp.int32),
            verb=jnp.int32(VERBS.index(mission.verb)),
            mission_colour=jnp.int32(colour),
            mission_type=jnp.int32((*TYPES, missions.ANY).index(what.type)),
            location=jnp.int32(place),
        )
        target = state.target
        if self.targets is not None:
            target = jnp.array([i in self.targets for i in range(OBJECTS)])
        article = jnp.int32(ARTICLES.index(what.article))
        return dataclasses.replace(state, target=target, article=article)


def _check_inside(cell: tuple[int, int], name: str) -> None:
    inside = range(1, SIZE - 1)
    if len(cell) != 2 or not all(type(c) is int and c in inside for c in cell):
        raise ValueError(f"{name} must be in a cell from (1, 1) to (6, 6), got {tuple(cell)}")
