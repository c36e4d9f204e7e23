"""The environment against a plain restatement, its levels, its shapes, and what it refuses."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from envs.sokoban.plain_sokoban import REWARDS, Plain, draw_level
from plain import chi_square, chi_square_limit

from wmg import registry
from wmg.envs.batch import Batch
from wmg.envs.sokoban.levels import from_text
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.envs.sokoban.world import RIGHT, STAY
from wmg.tools.errors import BadInput
from wmg.types import ObservationSpec

CORRIDOR = "######\n#@$ .#\n######"


def make(text, bound=10, **settings):
    """An environment of the levels of a text."""
    shapes = registry.make_env(SokobanSettings(bound=bound, **settings), shapes_only=True)
    return dataclasses.replace(shapes, levels=from_text(text, bound))


@pytest.mark.parametrize("observation", ["factored", "planes", "rgb"])
def test_to_stay_first_shows_the_start_again(observation):
    """So to think, as `wmg eval --thinking`, is to stay and not be charged for it."""
    env = make(CORRIDOR, observation=observation)
    state, seen = env.start(jnp.int32(0))
    step = env.step(state, jnp.int32(STAY), jax.random.key(0))
    assert jax.tree.all(jax.tree.map(np.array_equal, seen, step.observation))


def draw_texts(count, seed, bound=10):
    source = np.random.default_rng(seed)
    largest = [min(5, bound), min(6, bound), bound]
    return [draw_level(source, bound, int(source.choice(largest))) for _ in range(count)]


@jax.jit
def play(env, actions):
    """What every level shows at the start, and the steps of its episode and beyond."""

    def step(state, action):
        made = env.step(state, action, jax.random.key(0))
        return made.state, dataclasses.replace(made, state=None)

    def episode(index, actions):
        state, seen = env.start(index)
        return seen, jax.lax.scan(step, state, actions)[1]

    return jax.vmap(episode)(jnp.arange(len(env.levels)), actions)


def compare_random_play(texts, steps, seed, bound=10, rewards=REWARDS):
    """Play levels at random and compare every moment; (steps, solved) in all."""
    env = make("\n\n".join(texts), bound, max_steps=steps, rewards=rewards)
    actions = np.random.default_rng(seed).integers(0, 5, (len(texts), steps))
    first, made = jax.tree.map(np.asarray, play(env, jnp.asarray(actions)))
    played = solved = 0
    for index, text in enumerate(texts):
        plain = Plain(text, rewards, steps)
        compare_seen(jax.tree.map(lambda x: x[index], first), plain, bound)  # noqa: B023
        for time in range(steps):
            plain.step(int(actions[index, time]))
            now = jax.tree.map(lambda x: x[index, time], made)  # noqa: B023
            compare_seen(now.observation, plain, bound)
            assert now.reward == np.float32(plain.reward)
            assert (now.terminated, now.success) == (plain.solved, plain.solved)
            assert now.truncated == (plain.done and not plain.solved)
            played += 1
            if plain.done:
                break
        solved += plain.solved
    return played, solved


def compare_seen(seen, plain, bound):
    cells = seen.factors["cells"]
    np.testing.assert_array_equal(seen.core, plain.core())
    np.testing.assert_array_equal(cells.values[cells.present], plain.factors(bound))
    assert not cells.values[~cells.present].any()


def test_random_play_is_that_of_the_plain_restatement():
    played, solved = compare_random_play(draw_texts(60, 0), 60, seed=1)
    assert played > 3000 and solved > 4


@pytest.mark.parametrize("bound", [5, 14])
def test_it_is_so_for_other_bounds_and_rewards(bound):
    texts = draw_texts(20, bound, bound)
    played, _ = compare_random_play(texts, 30, bound, bound, (-0.25, 2.0, -3.0, 10.0))
    assert played > 200


@pytest.mark.slow
def test_a_hundred_thousand_steps_are_those_of_the_plain_restatement():
    counts = [compare_random_play(draw_texts(100, seed), 120, seed) for seed in range(20)]
    played, solved = np.sum(counts, axis=0)
    print(f"2,000 levels, {played:,} steps, {solved:,} solved")
    assert played >= 100_000 and solved > 100


@jax.jit
def reset(env, keys):
    return jax.vmap(lambda key: env.reset(key))(keys)


@functools.cache
def rooms():
    """Three levels, told apart by where the player is."""
    text = "\n\n".join([CORRIDOR, "######\n# @$.#\n######", "######\n#.$ @#\n######"])
    return make(text, 6, max_steps=3)


def test_every_level_is_as_likely_as_any_other():
    states, _ = reset(rooms(), jax.random.split(jax.random.key(0), 3000))
    counts = np.bincount(states.player[:, 1], minlength=5)[[1, 2, 4]]
    assert counts.sum() == 3000
    assert chi_square(counts, np.full(3, 1000.0)) < chi_square_limit(2)


def test_a_level_can_be_chosen():
    start = jax.jit(lambda env, index: env.start(index)[0].player)
    assert [start(rooms(), jnp.int32(i)).tolist() for i in range(3)] == [[1, 1], [1, 2], [1, 4]]


def test_levels_are_an_argument_and_not_compiled_in():
    one, other = make(CORRIDOR), make("######\n# @$.#\n######")
    start = jax.jit(lambda env: env.start(jnp.int32(0))[0].player)
    assert (start(one).tolist(), start(other).tolist()) == ([1, 1], [1, 2])
    assert start._cache_size() == 1


def ends(*actions):
    env = rooms()
    _, made = play(env, jnp.array([actions] * 3, jnp.int32))
    made = jax.tree.map(lambda x: np.asarray(x[0]), made)
    pairs = zip(made.terminated, made.truncated, made.success, strict=True)
    return [tuple(map(bool, pair)) for pair in pairs]


def test_the_end_of_time_truncates_and_a_solution_terminates():
    on = (False, False, False)
    assert ends(STAY, STAY, STAY) == [on, on, (False, True, False)]
    assert ends(STAY, RIGHT, RIGHT) == [on, on, (True, False, True)]


def test_a_batch_starts_new_levels_by_itself():
    batch = Batch(rooms(), 8)
    state, _ = jax.jit(lambda batch, key: batch.reset(key))(batch, jax.random.key(0))
    step = jax.jit(lambda batch, *given: batch.step(*given))
    times = []
    for time in range(7):
        actions = jnp.full(8, STAY, jnp.int32)
        state, seen, made = step(batch, state, actions, jax.random.key(time))
        times.append(int(state.time[0]))
        assert (made.truncated == (times[-1] == 0)).all()
        assert seen.factors["cells"].present.sum(axis=1).tolist() == [3] * 8
    assert times == [1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ObservationSpec(11, (("cells", 64, 39),))),
        ({"cells": 57}, ObservationSpec(11, (("cells", 57, 39),))),
        ({"bound": 14}, ObservationSpec(11, (("cells", 144, 55),))),
        ({"observation": "planes"}, ObservationSpec(6, image=(10, 10, 4))),
        ({"observation": "rgb", "bound": 7}, ObservationSpec(6, image=(7, 7, 3))),
    ],
)
def test_the_spec_needs_no_levels(settings, expected):
    env = registry.make_env(SokobanSettings("no such bank", **settings), shapes_only=True)
    assert env.spec.observation == expected
    assert (env.spec.actions, env.spec.max_steps, env.spec.metric) == (5, 120, "success")
    with pytest.raises(ValueError, match="without levels has no episodes"):
        env.reset(jax.random.key(0))


@pytest.mark.parametrize("settings", [{}, {"cells": 20}, {"observation": "planes"}])
def test_the_spec_is_what_is_shown(settings):
    env = make(CORRIDOR, 7, **settings)
    _, seen = jax.eval_shape(lambda key: env.reset(key), jax.random.key(0))
    factors = tuple((name, *rows.values.shape) for name, rows in seen.factors.items())
    image = None if seen.image is None else seen.image.shape
    assert env.spec.observation == ObservationSpec(seen.core.shape[0], factors, image)


def test_levels_with_more_cells_than_there_is_room_for_are_refused():
    assert make(CORRIDOR, cells=4).cells == 4
    with pytest.raises(ValueError, match="cells must be at least 4 for these levels, got 3"):
        make(CORRIDOR, cells=3)


def test_levels_of_another_bound_are_refused():
    env = make(CORRIDOR, 7)
    with pytest.raises(ValueError, match="bound must be that of the levels, 7, got 8"):
        dataclasses.replace(env, bound=8)


def test_a_text_file_is_played_and_a_missing_one_refused_in_one_sentence(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(CORRIDOR)
    env = registry.make_env(SokobanSettings(str(path)))
    assert len(env.levels) == 1
    with pytest.raises(BadInput, match=r"levels must be a text file or one of .*, got 'nowhere'"):
        registry.make_env(SokobanSettings("nowhere"))
