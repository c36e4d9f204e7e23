"""Pathfinding against Algorithm 1 in plain Python, and its distributions."""

import collections
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain import chi_square, chi_square_limit, path_length

from wmg.envs.pathfinding.env import Pathfinding


@functools.cache
def episodes(nodes, count, pattern=2):
    """The scripts of many episodes."""
    keys = jax.random.split(jax.random.key(1), count)
    env = Pathfinding(nodes, pattern)
    state = eqx.filter_jit(jax.vmap(env.reset))(keys)[0]
    return jax.tree.map(np.asarray, state)


@functools.cache
def played(nodes, count, pattern, flip_links=False):
    """Scripts, actions, and what the environment said in every step of random play."""
    env = Pathfinding(nodes, pattern)
    steps = 2 * (nodes - 1)

    @jax.jit
    def play(key):
        rkey, akey, skey = jax.random.split(key, 3)
        script, first = env.reset(rkey)
        actions = jax.random.randint(akey, (steps,), 0, 2)
        if flip_links:
            actions = jnp.where(jnp.arange(steps) % 2 == 0, 1 - actions, actions)

        def one(carry, inputs):
            state, observation = carry
            step = env.step(state, *inputs)
            said = (
                observation.core,
                step.reward,
                step.terminated,
                step.truncated,
                step.success,
            )
            return (step.state, step.observation), said

        inputs = actions, jax.random.split(skey, steps)
        return script, actions, jax.lax.scan(one, (script, first), inputs)[1]

    keys = jax.random.split(jax.random.key(2), count)
    return jax.tree.map(np.asarray, jax.vmap(play)(keys))


def links_and_quizzes(state, episode):
    """[(link, quiz pair, answer)] of one episode."""
    pairs = list(zip(state.source[episode].tolist(), state.target[episode].tolist(), strict=True))
    return list(zip(pairs[0::2], pairs[1::2], state.answers[episode][1::2].tolist(), strict=True))


NODES = pytest.mark.parametrize("nodes", [2, 7, 13])


@NODES
def test_every_link_joins_the_next_new_node_to_an_earlier_one(nodes):
    state = episodes(nodes, 200)
    for episode in range(200):
        for i, ((a, b), _, _) in enumerate(links_and_quizzes(state, episode)):
            assert max(a, b) == i + 1 and 0 <= min(a, b) <= i


@NODES
def test_a_quiz_is_answered_yes_where_a_directed_path_exists(nodes):
    state = episodes(nodes, 200)
    for episode in range(200):
        links = []
        for link, (a, b), answer in links_and_quizzes(state, episode):
            links.append(link)
            assert answer == (path_length(links, a, b) > 0)


@NODES
def test_a_quiz_asks_about_two_different_nodes_shown_before(nodes):
    state = episodes(nodes, 200)
    for episode in range(200):
        for i, (_, (a, b), _) in enumerate(links_and_quizzes(state, episode)):
            assert a != b and min(a, b) >= 0 and max(a, b) <= i + 1


def test_an_observation_is_two_patterns_and_a_quiz_flag():
    script, _, (cores, *_) = played(5, 50, 3)
    for episode in range(50):
        for time in range(8):
            a, b = script.source[episode, time], script.target[episode, time]
            patterns = script.patterns[episode]
            want = [*patterns[a], *patterns[b], time % 2]
            np.testing.assert_array_equal(cores[episode, time], want)


def test_only_right_answers_to_quizzes_are_rewarded():
    script, actions, (_, rewards, *_) = played(5, 50, 3)
    for episode in range(50):
        for time in range(8):
            right = time % 2 == 1 and actions[episode, time] == script.answers[episode, time]
            assert rewards[episode, time] == float(right)


def test_actions_on_link_steps_change_nothing():
    _, actions, said = played(5, 50, 3)
    _, flipped, said_when_flipped = played(5, 50, 3, flip_links=True)
    assert (actions[:, 0::2] != flipped[:, 0::2]).all()
    jax.tree.map(np.testing.assert_array_equal, said, said_when_flipped)


def test_an_episode_terminates_after_the_quiz_of_the_last_link():
    *_, (_, _, terminated, truncated, _) = played(5, 50, 3)
    np.testing.assert_array_equal(terminated, np.tile([False] * 7 + [True], (50, 1)))
    assert not truncated.any()


def test_success_means_that_every_quiz_was_answered_right():
    *_, (_, rewards, _, _, success) = played(3, 100, 3)
    np.testing.assert_array_equal(success[:, -1], rewards.sum(1) == 2)
    assert success[:, -1].any() and not success[:, -1].all()


def test_the_spec_matches_what_is_observed():
    spec = Pathfinding(5, 3).spec
    _, actions, (cores, rewards, *_) = played(5, 50, 3)
    assert (spec.observation.core, spec.max_steps) == (cores.shape[2], cores.shape[1])
    assert spec.actions == actions.max() + 1
    assert spec.reward_per_step == 0.5  # one reward in two steps
    assert rewards.mean() <= spec.reward_per_step


def test_patterns_are_uniform_between_minus_one_and_one():
    patterns = episodes(7, 5000).patterns.ravel()
    counts, _ = np.histogram(patterns, bins=20, range=(-1, 1))
    assert counts.sum() == patterns.size
    assert chi_square(counts, np.full(20, patterns.size / 20)) < chi_square_limit(19)


def test_a_new_node_is_linked_to_each_earlier_node_equally_often():
    state = episodes(7, 5000)
    for link in range(1, 6):
        older = np.minimum(state.source[:, 2 * link], state.target[:, 2 * link])
        counts = np.bincount(older, minlength=link + 1)
        assert chi_square(counts, np.full(link + 1, 5000 / (link + 1))) < chi_square_limit(link)


@pytest.mark.parametrize("what", ["direction", "answer"])
def test_coins_are_fair_in_every_step(what):
    state = episodes(7, 5000)
    outward = (state.source < state.target)[:, 0::2]
    heads = outward if what == "direction" else state.answers[:, 1::2]
    for count in heads.sum(0):
        assert chi_square([count, 5000 - count], [2500, 2500]) < chi_square_limit(1)


def test_directions_and_answers_are_independent():
    state = episodes(7, 5000)
    outward = (state.source < state.target)[:, 0::2].ravel()
    answers = state.answers[:, 1::2].ravel()
    counts = np.bincount(2 * outward + answers, minlength=4)
    assert chi_square(counts, np.full(4, 30_000 / 4)) < chi_square_limit(3)


def test_a_pair_is_uniform_among_those_that_have_the_answer():
    state = episodes(4, 20_000)
    asked = collections.defaultdict(collections.Counter)
    for episode in range(20_000):
        script = links_and_quizzes(state, episode)
        graph = tuple(link for link, _, _ in script)
        _, pair, answer = script[-1]
        asked[graph, answer][pair] += 1
    total, freedom = 0.0, 0
    for (graph, answer), counts in asked.items():
        pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
        fitting = [p for p in pairs if (path_length(graph, *p) > 0) == answer]
        assert set(counts) <= set(fitting)
        expected = np.full(len(fitting), counts.total() / len(fitting))
        total += chi_square([counts[pair] for pair in fitting], expected)
        freedom += len(fitting) - 1
    assert len(asked) == 2 * 6 * 8  # answers, neighbours, directions
    assert total < chi_square_limit(freedom)


@pytest.mark.parametrize(
    ("nodes", "shares"),
    [(7, [0.739, 0.215, 0.041, 0.005]), (13, [0.619, 0.265, 0.089, 0.023, 0.004])],
)
def test_path_lengths_of_positive_quizzes_are_those_of_the_authors_code(nodes, shares):
    state = episodes(nodes, 4000)
    lengths = collections.Counter()
    for episode in range(4000):
        links = []
        for link, pair, answer in links_and_quizzes(state, episode):
            links.append(link)
            if answer:
                lengths[path_length(links, *pair)] += 1
    got = [lengths[length] / lengths.total() for length in range(1, len(shares) + 1)]
    # Quizzes of one episode are not independent: allow more than chi-square would.
    np.testing.assert_allclose(got, shares, atol=0.012)


def test_two_resets_with_different_keys_differ():
    state = episodes(7, 2)
    assert (state.patterns[0] != state.patterns[1]).any()
