"""The generators: minigrid's rules, its distributions, and that breaking a rule is noticed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from envs.babyai import level_statistics
from envs.babyai.plain_levels import Again, Generator, Level
from plain import chi_square, chi_square_limit

from wmg.envs.babyai import levels
from wmg.envs.babyai.settings import LEVELS
from wmg.envs.babyai.vocabulary import COLOURS, GREY, TYPES
from wmg.envs.babyai.world import BOX

DRAWN = 40_000
SAME_AS_MINIGRIDS = [level for level in LEVELS if level != "GoToRedBallGreyBoxes"]
PLUS = {(4, 4), (3, 4), (5, 4), (4, 3), (4, 5)}


def draw(level, count=DRAWN):
    keys = jax.random.split(jax.random.key(5), count)
    quickly = {"xla_backend_optimization_level": 0}  # to compile what runs once
    many = jax.jit(jax.vmap(lambda key: levels.draw(level, key)), compiler_options=quickly)
    return level_statistics.from_states(many(keys))


@functools.cache
def drawn(level):
    return draw(level)


def rules_broken(level, sample):
    """Rules that hold in every single level, and did not in one of these."""
    distance = abs(sample["position"] - sample["agent"][:, None]).sum(-1)
    ahead, right, _ = level_statistics.seen_from_agent(sample)
    cells = sample["position"] @ np.array([1, 8])
    inside = (sample["position"] >= 1) & (sample["position"] <= 6)
    in_plus = np.isin(cells, [x + 8 * y for x, y in PLUS])
    rules = {
        "things are in the room": inside.all(),
        "things are in different cells": all(len(set(row)) == len(row) for row in cells.tolist()),
        "something is meant": sample["target"].any(1).all(),
        "everything can be reached": level == "GoToObj" or all_reachable(sample, 500),
    }
    if level == "PickupLoc":
        rules["no thing is in the plus"] = not in_plus.any()
        rules["the agent's cell is empty"] = (distance > 0).all()
        rules["the agent faces no thing"] = not ((ahead == 1) & (right == 0)).any()
    else:
        rules["no thing is beside the agent"] = (distance > 1).all()
    return [rule for rule, holds in rules.items() if not holds]


def all_reachable(sample, count):
    """Whether everything can be reached in the first levels, walked through in plain Python."""
    for agent, position in zip(sample["agent"][:count], sample["position"][:count], strict=True):
        level = Level(agent=tuple(agent), things=[("", "", x, y) for x, y in position])
        try:
            Generator(0).check_reachable(level)
        except Again:
            return False
    return True


def problems(level, sample):
    """The rules and the statistics in which levels are not what they should be."""
    counts = level_statistics.statistics(sample)
    differences = level_statistics.differences(counts, level_statistics.golden(level))
    return rules_broken(level, sample) + list(differences)


@pytest.mark.parametrize("level", LEVELS)
def test_levels_have_the_rules_and_the_distribution_of_the_plain_generator(level):
    assert problems(level, drawn(level)) == []


@pytest.mark.parametrize("level", SAME_AS_MINIGRIDS)
@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(100, 2000), marks=pytest.mark.slow)], ids=len
)
def test_the_plain_generator_draws_minigrids_level_for_every_seed(level, seeds):
    pytest.importorskip("minigrid")
    from envs.babyai import live

    from wmg.envs.babyai import missions
    from wmg.interop.minigrid import copy_level

    env = live.make(level)
    for seed in seeds:
        live.reset(env, seed)
        with live.without_keys():
            want, got = copy_level(env), Generator(seed).level(level)
        said = missions.parse(want.mission)
        assert (got.agent, got.direction) == (want.agent, want.direction)
        assert sorted(got.things) == sorted(want.things)
        described = said.first.type, said.first.colour, said.first.location
        assert (got.verb, got.type, got.colour, got.location) == (said.verb, *described)
        meant = [t for t, target in zip(got.things, got.targets, strict=True) if target]
        assert sorted(meant) == sorted(want.things[i] for i in want.targets)
        assert said.first.article == ("the" if len(meant) == 1 else "a")


@pytest.mark.parametrize("level", LEVELS)
def test_the_stored_counts_are_those_of_the_plain_generator(level):
    fresh = level_statistics.plain(level, range(10**6, 10**6 + 500))
    assert level_statistics.differences(fresh, level_statistics.golden(level)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_the_stored_counts_come_out_again(level):
    again = level_statistics.plain(level, range(level_statistics.GOLDEN_LEVELS))
    for name, counts in level_statistics.golden(level).items():
        np.testing.assert_array_equal(again[name], counts)


def place_beside_agent_too(agent, bits):
    here = levels.single(agent)
    allowed = levels.cells(levels.INSIDE) & ~here

    def place(free, bits):
        thing = free.nth(levels.pick(bits, free.count()))
        return free & ~levels.single(thing), thing

    left, things = jax.lax.scan(place, allowed, bits)
    return things, allowed & ~left


def face_anything(bits):
    things, taken = levels.place_things(jnp.int32(levels.MIDDLE), bits[:8])
    empty = levels.cells(levels.INSIDE) & ~taken
    agent = empty.nth(levels.pick(bits[8], 28))
    return levels.Placement(agent, levels.pick(bits[9], 4), things), taken


MISTAKES = {
    "things may touch the agent": ("GoToLocal", "place_things", place_beside_agent_too),
    "nothing need be reachable": ("GoToLocal", "all_reachable", lambda *_: jnp.array(True)),
    "things are placed first": ("GoToLocal", "place_agent_first", levels.place_things_first),
    "things may be in the middle": ("PickupLoc", "MIDDLE", 0),
    "the agent is placed first": ("PickupLoc", "place_things_first", levels.place_agent_first),
    "the agent may face a thing": ("PickupLoc", "place_things_first", face_anything),
    "a location is as likely as none": ("PickupLoc", "NO_LOCATION", -1),
    "unreachable things are allowed": ("PickupLoc", "all_reachable", lambda *_: jnp.array(True)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_broken_rule_is_noticed(mistake, monkeypatch):
    level, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(levels, name, wrong)
    assert problems(level, draw(level, 10_000)) != []


def test_distances_in_the_smallest_level_are_those_of_enumeration():
    cells = [(x, y) for x in range(1, 7) for y in range(1, 7)]
    expected = np.zeros(11)
    for ax, ay in cells:
        far = [abs(x - ax) + abs(y - ay) for x, y in cells if abs(x - ax) + abs(y - ay) > 1]
        expected += np.bincount(far, minlength=11) / len(far) / len(cells)
    assert expected[2] == pytest.approx(0.17296, abs=1e-5)
    counts = level_statistics.statistics(drawn("GoToObj"))["nearest thing"][2:11]
    assert chi_square(counts, DRAWN * expected[2:]) < chi_square_limit(8)


@pytest.mark.parametrize("level", ["GoToRedBall", "GoToLocal"])
def test_the_target_is_alone_of_its_kind_as_often_as_seven_draws_of_18_miss_it(level):
    alone = (drawn(level)["target"].sum(1) == 1).sum()
    share = (17 / 18) ** 7
    expected = [DRAWN * share, DRAWN * (1 - share)]
    assert chi_square([alone, DRAWN - alone], expected) < chi_square_limit(1)


def test_the_agent_of_pickuploc_is_where_others_have_found_it():
    """100,000 draws of another implementation, as multiples of the uniform probability."""
    expected = [
        *(0.98, 0.91, 0.96, 0.94, 0.93, 0.94),
        *(0.92, 0.87, 0.86, 0.93, 0.88, 0.95),
        *(0.94, 0.84, 1.01, 1.32, 1.03, 0.94),
        *(0.96, 0.96, 1.27, 1.62, 1.30, 1.03),
        *(0.94, 0.86, 1.01, 1.29, 0.99, 0.91),
        *(0.94, 0.95, 0.96, 1.03, 0.92, 0.91),
    ]
    agent = drawn("PickupLoc")["agent"]
    cell = (agent[:, 0] - 1) + 6 * (agent[:, 1] - 1)
    got = 36 * np.bincount(cell, minlength=36) / DRAWN
    np.testing.assert_allclose(got, expected, atol=0.16)  # four standard errors


def test_missions_of_pickuploc_have_the_forms_minigrids_have():
    """Shares in 5,000 levels of minigrid."""
    sample = drawn("PickupLoc")
    one = sample["target"].sum(1) == 1
    forms = 4 * one + 2 * (sample["mission_colour"] < 6) + (sample["location"] < 4)
    got = np.bincount(forms, minlength=8) / DRAWN
    expected = [0.170, 0.065, 0.092, 0.023, 0.035, 0.052, 0.372, 0.191]
    np.testing.assert_allclose(got, expected, atol=4 * 0.5 / 5000**0.5)


def test_the_greys_of_the_paper_are_boxes_and_those_of_today_anything():
    boxes, today = drawn("GoToRedBallGreyBoxes"), drawn("GoToRedBallGrey")
    for sample in (boxes, today):
        assert (sample["type"][:, 0] == TYPES.index("ball")).all()
        assert (sample["colour"][:, 0] == COLOURS.index("red")).all()
        assert (sample["colour"][:, 1:] == GREY).all()
        assert (sample["target"].sum(1) == 1).all() and sample["target"][:, 0].all()
    assert (boxes["type"][:, 1:] == BOX).all()
    counts = np.bincount(today["type"][:, 1:].ravel(), minlength=4)[1:]
    assert chi_square(counts, [7 * DRAWN / 3] * 3) < chi_square_limit(2)


@pytest.mark.parametrize(("place", "share"), [("agent", 0.8475), ("things", 0.8179)])
def test_so_many_placements_are_accepted_as_elsewhere(place, share):
    place = getattr(levels, f"place_{place}_first")

    def accepted(bits):
        placement, taken = place(bits)
        return levels.all_reachable(placement.agent, taken)

    bits = jax.random.bits(jax.random.key(8), (100_000, 10))
    assert abs(jax.jit(jax.vmap(accepted))(bits).mean() - share) < 0.006


def test_a_pick_is_the_upper_half_of_the_product():
    bits = np.random.default_rng(0).integers(0, 2**32, 1000, dtype=np.uint32)
    for options in (1, 2, 18, 31, 36, 168):
        got = levels.pick(jnp.array(bits), options)
        np.testing.assert_array_equal(got, bits.astype(np.uint64) * options >> 32)


def test_the_nth_bit_is_found():
    words = np.random.default_rng(1).integers(1, 2**32, 200, dtype=np.uint32)
    rank = np.array([int(word).bit_count() // 2 for word in words])
    got = jax.vmap(levels.nth_bit)(jnp.array(words), jnp.array(rank))
    places = [[i for i in range(32) if word >> i & 1] for word in words.tolist()]
    want = [found[n] for found, n in zip(places, rank, strict=True)]
    np.testing.assert_array_equal(got, want)


def test_a_share_holds_as_many_numbers_as_it_is_large():
    shares = [jnp.int32(n) for n in (2, 0, 3, 1)]
    found = [tuple(map(int, levels.which(shares, jnp.int32(n)))) for n in range(6)]
    assert found == [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2), (3, 0)]
