"""The levels of BabyAI, from the same distributions as minigrid draws them from.

A set of cells is two words of 32 bits, four rows of eight cells each: placing a thing is picking
one bit, and walking through the room is shifting words. So a level is drawn without indexing an
array, and the compiler makes few kernels of any number of levels at once.

How minigrid draws a level, and what is drawn here:

* It draws a cell until one is admissible: here one of the admissible cells is picked.
* It starts again where something cannot be reached (not in GoToObj): so does this, with the
  cells alone, since types, colours and the mission do not depend on them.
* GoToLocal's target is a random thing: here the first, since all things have one distribution.
* PickupLoc draws descriptions until one fits something, or starts again after 101: here a
  fitting description is picked. The limit of 101 is reached once in 10^12 levels, and left out.
* A pick from n options is made with 32 random bits, so it is uniform to n / 2^32.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt

from wmg.envs.babyai import world
from wmg.envs.babyai.vocabulary import COLOURS, GREY, LOCATIONS, OBJECTS, SIZE, TYPES
from wmg.envs.babyai.world import ABSENT, BOX, GO, LYING, NO_COLOUR, NO_LOCATION, PICK, BabyAIState

KEY, BALL = TYPES.index("key"), TYPES.index("ball")
RED = COLOURS.index("red")


def draw(level: str, key: PRNGKeyArray) -> BabyAIState:
    """A fresh level."""
    pkey, kkey, dkey = jax.random.split(key, 3)
    first = jnp.arange(OBJECTS) == 0
    kind = pick(jax.random.bits(kkey, (OBJECTS,)), 3 * len(COLOURS))
    type, colour = KEY + kind // len(COLOURS), kind % len(COLOURS)
    if level.startswith("GoToRedBall"):
        type = jnp.where(first, BALL, BOX if level == "GoToRedBallGreyBoxes" else type)
        colour = jnp.where(first, RED, colour if level == "GoToRedBall" else GREY)
    status = jnp.where(first | (level != "GoToObj"), LYING, ABSENT)
    placement = place(level, pkey)
    agent, position = placement.agent_position, placement.positions
    if level == "PickupLoc":
        seen = world.seen_from(agent, placement.direction, position)
        described = describe(type, colour, *seen, jax.random.bits(dkey))
        verb = PICK
    else:
        described = colour[0], type[0], jnp.int32(NO_LOCATION)
        verb = GO
    return world.begin(
        agent, placement.direction, position, type, colour, status, jnp.int32(verb), *described
    )


def pick(bits: UInt[Array, "*picks"], options: Int[Array, ""] | int) -> Int[Array, "*picks"]:
    """A number from 0 to options - 1: the upper half of the 64-bit product of the two."""
    options = jnp.asarray(options).astype(jnp.uint32)
    product = (bits >> 16) * options + (((bits & 0xFFFF) * options) >> 16)
    return (product >> 16).astype(jnp.int32)


def which(shares: list[Int[Array, ""]], n: Int[Array, ""]) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Which of the shares number n falls into, and its number there."""
    index, start, end = jnp.int32(0), jnp.int32(0), jnp.int32(0)
    for share in shares[:-1]:
        end = end + share
        index = index + (n >= end)
        start = jnp.where(n >= end, end, start)
    return index, n - start


class Cells(eqx.Module):
    """A set of cells: bit x + 8 * y of the 64 that two words have."""

    upper: UInt[Array, ""]
    """Rows 0 to 3."""
    lower: UInt[Array, ""]
    """Rows 4 to 7."""

    def __and__(self, other: "Cells") -> "Cells":
        return Cells(self.upper & other.upper, self.lower & other.lower)

    def __or__(self, other: "Cells") -> "Cells":
        return Cells(self.upper | other.upper, self.lower | other.lower)

    def __invert__(self) -> "Cells":
        return Cells(~self.upper, ~self.lower)

    def moved(self, direction: int) -> "Cells":
        """All cells one step on. What crosses an edge lands in the wall, and means nothing."""
        if direction == 0:
            return Cells(self.upper << 1, self.lower << 1)
        if direction == 2:
            return Cells(self.upper >> 1, self.lower >> 1)
        if direction == 1:
            return Cells(self.upper << 8, self.lower << 8 | self.upper >> 24)
        return Cells(self.upper >> 8 | self.lower << 24, self.lower >> 8)

    def neighbours(self) -> "Cells":
        """Every cell beside one of these."""
        right, down, left, up = (self.moved(direction) for direction in range(4))
        return right | down | left | up

    def count(self) -> Int[Array, ""]:
        """How many they are."""
        return count_bits(self.upper) + count_bits(self.lower)

    def nth(self, n: Int[Array, ""]) -> Int[Array, ""]:
        """The number x + 8 * y of the cell that n others of these precede."""
        above = count_bits(self.upper)
        is_lower = n >= above
        word = jnp.where(is_lower, self.lower, self.upper)
        return nth_bit(word, n - is_lower * above) + 32 * is_lower


def cells(bits: int) -> Cells:
    """A constant set of cells."""
    return Cells(jnp.uint32(bits & 0xFFFFFFFF), jnp.uint32(bits >> 32))


def single(cell: Int[Array, ""]) -> Cells:
    """The set of one cell."""
    bit = jnp.uint32(1) << (cell & 31).astype(jnp.uint32)
    none = jnp.uint32(0)
    return Cells(jnp.where(cell < 32, bit, none), jnp.where(cell < 32, none, bit))


def count_bits(word: UInt[Array, ""]) -> Int[Array, ""]:
    """How many bits are set."""
    return jax.lax.population_count(word).astype(jnp.int32)


def nth_bit(word: UInt[Array, ""], n: Int[Array, ""]) -> Int[Array, ""]:
    """The place of the set bit that n other set bits precede, by bisection."""
    place = jnp.zeros_like(n)
    for half in (16, 8, 4, 2, 1):
        below = count_bits(word & ((1 << half) - 1))
        beyond = n >= below
        n = n - beyond * below
        word = jnp.where(beyond, word >> half, word)
        place = place + beyond * half
    return place


INSIDE = sum(1 << (x + SIZE * y) for x in range(1, SIZE - 1) for y in range(1, SIZE - 1))
MIDDLE = 4 + SIZE * 4
"""Where minigrid thinks the agent is before it has been placed."""


class Placement(eqx.Module):
    """Where the agent and the things are, each cell as x + 8 * y."""

    agent: Int[Array, ""]
    direction: Int[Array, ""]
    things: Int[Array, " 8"]

    @property
    def agent_position(self) -> Int[Array, "2"]:
        return jnp.stack([self.agent % SIZE, self.agent // SIZE])

    @property
    def positions(self) -> Int[Array, "8 2"]:
        return jnp.stack([self.things % SIZE, self.things // SIZE], axis=-1)


def place(level: str, key: PRNGKeyArray) -> Placement:
    """Where everything is in a fresh level."""
    if level == "GoToObj":
        return place_agent_first(jax.random.bits(key, (OBJECTS + 2,)))[0]
    attempt = place_things_first if level == "PickupLoc" else place_agent_first
    return until_reachable(attempt, key)


def place_agent_first(bits: UInt[Array, "10"]) -> tuple[Placement, Cells]:
    """The agent anywhere, the things anywhere but beside it; and the cells they take."""
    agent = cells(INSIDE).nth(pick(bits[OBJECTS], 36))
    direction = pick(bits[OBJECTS + 1], 4)
    things, taken = place_things(agent, bits[:OBJECTS])
    return Placement(agent, direction, things), taken


def place_things_first(bits: UInt[Array, "10"]) -> tuple[Placement, Cells]:
    """The things anywhere but on or beside the middle of the room, then the agent in any empty
    cell, in any direction that does not face a thing; and the cells the things take."""
    things, taken = place_things(jnp.int32(MIDDLE), bits[:OBJECTS])
    empty = cells(INSIDE) & ~taken
    allowed = [empty & ~taken.moved((direction + 2) % 4) for direction in range(4)]
    shares = [one.count() for one in allowed]
    direction, n = which(shares, pick(bits[OBJECTS], sum(shares, jnp.int32(0))))
    facing = jax.tree.map(lambda *words: jax.lax.select_n(direction, *words), *allowed)
    return Placement(facing.nth(n), direction, things), taken


def place_things(agent: Int[Array, ""], bits: UInt[Array, "8"]) -> tuple[Int[Array, " 8"], Cells]:
    """Different cells for all things, none within a step of the agent; and their set."""
    here = single(agent)
    allowed = cells(INSIDE) & ~(here | here.neighbours())

    def place(free: Cells, bits: UInt[Array, ""]) -> tuple[Cells, Int[Array, ""]]:
        thing = free.nth(pick(bits, free.count()))
        return free & ~single(thing), thing

    # A loop: written out, the compiler would compute the first cells over and over.
    left, things = jax.lax.scan(place, allowed, bits)
    return things, allowed & ~left


class Attempt(eqx.Module):
    """A placement, and whether everything in it can be reached."""

    key: PRNGKeyArray
    placement: Placement
    reachable: Bool[Array, ""]


AT_ONCE = 4
"""Placements tried at once. Once in two thousand times none of them is admissible."""


def until_reachable(
    place: Callable[[UInt[Array, "10"]], tuple[Placement, Cells]], key: PRNGKeyArray
) -> Placement:
    """The first placement, of as many as it takes, in which everything can be reached."""

    def attempt(last: Attempt) -> Attempt:
        key, bkey = jax.random.split(last.key)
        tried, taken = jax.vmap(place)(jax.random.bits(bkey, (AT_ONCE, OBJECTS + 2)))
        reachable = jax.vmap(all_reachable)(tried.agent, taken)
        first = jnp.argmax(reachable)
        return Attempt(key, jax.tree.map(lambda leaf: leaf[first], tried), reachable.any())

    zero = jnp.int32(0)
    nothing = Placement(zero, zero, jnp.zeros(OBJECTS, jnp.int32))
    start = Attempt(key, nothing, jnp.zeros((), bool))
    return jax.lax.while_loop(lambda last: ~last.reachable, attempt, start).placement


def all_reachable(agent: Int[Array, ""], taken: Cells) -> Bool[Array, ""]:
    """Whether the agent can come beside every thing without moving another."""
    free = cells(INSIDE) & ~taken
    reached = single(agent)
    for _ in range(LONGEST_WALK):
        reached = (reached | reached.neighbours()) & free
    out_of_reach = taken & ~reached.neighbours()
    return (out_of_reach.upper | out_of_reach.lower) == 0


LONGEST_WALK = 36 - OBJECTS - 1
"""No shortest way leads through a free cell twice."""


def describe(
    type: Int[Array, " 8"],
    colour: Int[Array, " 8"],
    ahead: Int[Array, " 8"],
    right: Int[Array, " 8"],
    bits: UInt[Array, ""],
) -> tuple[Int[Array, ""], Int[Array, ""], Int[Array, ""]]:
    """Colour, type and location of a description that fits something.

    Before it is known what fits, every type is equally likely, so is every colour and none, and
    no location is as likely as all four together. A set of pairs of colour and type is a word
    of 21 bits; each location has the set of pairs that fit a thing there.
    """
    colours = len(COLOURS) + 1
    one = jnp.uint32(1)
    row = (type - KEY) * colours
    fitting = one << (row + colour).astype(jnp.uint32) | one << (row + NO_COLOUR).astype(jnp.uint32)

    def among(there: Bool[Array, " 8"]) -> UInt[Array, ""]:
        return jax.lax.reduce_or(jnp.where(there, fitting, 0), axes=(0,))

    places = range(len(LOCATIONS) + 1)
    sets = [among(world.matches_location(ahead, right, jnp.int32(place))) for place in places]
    weights = [len(LOCATIONS) if place == NO_LOCATION else 1 for place in places]
    shares = [weight * count_bits(one) for weight, one in zip(weights, sets, strict=True)]
    location, n = which(shares, pick(bits, sum(shares, jnp.int32(0))))
    weight = jnp.where(location == NO_LOCATION, len(LOCATIONS), 1)
    pair = nth_bit(jax.lax.select_n(location, *sets), n // weight)
    return pair % colours, KEY + pair // colours, location
