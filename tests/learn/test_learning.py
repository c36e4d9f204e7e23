"""Learning, on environments that are solved in seconds or not at all."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import (
    AsksLater,
    AsksLaterAboutAPicture,
    AsksWhichThing,
    Constant,
    PaysActionOne,
    PaysAtTheEnd,
    PaysTheCue,
    PaysTheFittingAction,
    core,
    picture,
    things,
    tiny_drc,
    tiny_gru,
    tiny_gtrxl,
    tiny_lstm,
    tiny_wmg,
)

from wmg.config import Hyper
from wmg.learn.a3c import A3C

HYPER = Hyper(
    learning_rate=3e-3,
    discount=0.5,
    entropy=0.01,
    adam_eps=1e-6,
    grad_clip=1.0,
    reward_scale=1.0,
)


@functools.partial(jax.jit, static_argnums=4)
def train(env, hyper, run, until, t_max):
    return A3C(t_max).advance(env, hyper, run, until)


wmg = functools.partial(tiny_wmg, layers=1)
nr_wmg = functools.partial(wmg, memory="observations")
AGENTS = pytest.mark.parametrize("kind", [wmg, tiny_gru])


def learned(env, kind, steps, t_max, seed=0):
    """The agent after that many steps, as a function of a list of observations."""
    run = A3C(t_max).start(env, kind(env.spec, seed), jax.random.key(seed))
    agent = train(env, HYPER, run, jnp.array(steps), t_max)[0].agent

    @jax.jit
    def last_output(observations):
        memory = agent.initial_memory()
        for observation in observations:
            output = agent(observation, memory)
            memory = output.memory
        return jax.nn.softmax(output.logits), output.value

    return last_output


@AGENTS
def test_the_value_of_a_constant_reward_is_that_reward(kind):
    see = learned(Constant(), kind, steps=500, t_max=1)
    np.testing.assert_allclose(see([core(0, 1)])[1], 1, atol=0.05)


@AGENTS
def test_the_value_predicts_a_reward_that_is_shown(kind):
    see = learned(PaysTheCue(), kind, steps=1000, t_max=1)
    values = [see([core(cue, 1)])[1] for cue in (-1, 1)]
    np.testing.assert_allclose(values, [-1, 1], atol=0.1)


@pytest.mark.parametrize("t_max", [1, 2])
def test_the_value_of_a_later_reward_is_discounted(t_max):
    see = learned(PaysAtTheEnd(length=2), wmg, steps=3000, t_max=t_max)
    shown = [core(0, 1), core(1, 1)]
    values = [see(shown[:1])[1], see(shown)[1]]
    np.testing.assert_allclose(values, [0.5, 1], atol=0.1)


@AGENTS
def test_the_better_action_is_chosen(kind):
    see = learned(PaysActionOne(actions=2), kind, steps=1000, t_max=1)
    assert see([core(0, 1)])[0][1] > 0.9


@AGENTS
def test_the_action_fits_what_is_shown(kind):
    see = learned(PaysTheFittingAction(actions=2), kind, steps=2000, t_max=1)
    assert see([core(-1, 1)])[0][0] > 0.9 and see([core(1, 1)])[0][1] > 0.9


WITH_MEMORY = pytest.mark.parametrize("kind", [wmg, tiny_gru, nr_wmg, tiny_lstm, tiny_gtrxl])


def right_answers(see, length, show=core):
    """Probability of the right answer to either cue, seen `length` steps before."""
    rest = [show(0, time == length - 1) for time in range(1, length)]
    return [see([show(cue, 0), *rest])[0][action] for cue, action in ((-1, 0), (1, 1))]


@WITH_MEMORY
def test_a_cue_is_remembered_within_a_window(kind):
    see = learned(AsksLater(length=3, actions=2), kind, steps=6000, t_max=3)
    assert min(right_answers(see, 3)) > 0.9


@WITH_MEMORY
def test_a_cue_is_remembered_across_windows(kind):
    # No gradient reaches the Memo that holds the cue; random weights write one that differs
    # with the cue, and the later window learns to read it.
    see = learned(AsksLater(length=2, actions=2), kind, steps=6000, t_max=1)
    assert min(right_answers(see, 2)) > 0.9


@pytest.mark.parametrize(("length", "t_max", "steps"), [(3, 3, 10_000), (2, 1, 8000)])
def test_drc_remembers_a_cue_in_a_picture_within_a_window_and_across(length, t_max, steps):
    env = AsksLaterAboutAPicture(length=length, actions=2)
    see = learned(env, tiny_drc, steps=steps, t_max=t_max)
    assert min(right_answers(see, length, picture)) > 0.9


def test_without_memory_a_cue_that_is_gone_cannot_be_answered():
    none = functools.partial(wmg, memory="none")
    see = learned(AsksLater(length=2, actions=2), none, steps=1000, t_max=2)
    np.testing.assert_allclose(sum(right_answers(see, 2)), 1, atol=1e-5)


def test_a_store_remembers_a_cue_for_longer_than_it_has_entries():
    kind = functools.partial(wmg, memory="none", store=3, store_size=4, init="he")
    see = learned(AsksLater(length=6, actions=2), kind, steps=12_000, t_max=6)
    assert min(right_answers(see, 6)) > 0.9


@functools.cache
def reader_of_things():
    return learned(AsksWhichThing(actions=2), tiny_wmg, steps=2000, t_max=1)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
@pytest.mark.parametrize("padding", [0, 3])
def test_the_action_fits_the_factor_that_is_present_wherever_it_stands(order, padding):
    see = reader_of_things()
    for cue, action in ((-1, 0), (1, 1)):
        policy = see([things(jnp.float32(cue), order, padding)])[0]
        assert policy[action] > 0.9
        usual = see([things(jnp.float32(cue))])[0]
        np.testing.assert_allclose(policy, usual, atol=1e-4)
