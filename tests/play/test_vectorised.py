"""Vector environments of Gymnasium, in every autoreset mode, against single ones."""

import types

import numpy as np
import pytest
import toy

from wmg.play.host import Host, Lockstep
from wmg.play.vectorised import Vectorised
from wmg.tools.errors import BadInput
from wmg.types import EnvSpec, ObservationSpec


def played_by(envs, steps):
    """What each environment played, with an action that its number of steps decides."""
    told = [[] for _ in range(envs.count)]
    seen = envs.reset([10 + index for index in range(envs.count)]).core
    while min(map(len, told)) < steps:
        actions = np.array([(7 * len(one) + 3 * i) % 8 % 3 for i, one in enumerate(told)])
        made = envs.step(actions)
        for i in np.flatnonzero(made.played):
            ends = made.terminated[i], made.truncated[i], made.success[i]
            numbers = made.reward[i], made.total[i], *ends
            told[i].append([*seen[i], *made.final.core[i], *map(float, numbers)])
        seen = made.observation.core
    return np.array([one[:steps] for one in told])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", toy.VECTORS)
def test_vector_environments_play_like_single_ones(kind, count):
    alone = played_by(toy.single(count), 60)
    assert alone[..., -3].any() and alone[..., -2].any() and alone[..., -1].any()
    # Seeds go to each environment alone, or the first one to all of them, counting up.
    np.testing.assert_array_equal(played_by(toy.vector(*toy.VECTORS[kind], count), 60), alone)


def test_arrays_that_a_vector_environment_writes_again_are_copied():
    envs = toy.vector(toy.SyncVectorEnv, "SameStep", 2, copy=False)
    np.testing.assert_array_equal(played_by(envs, 30), played_by(toy.single(2), 30))


def test_only_an_unknown_environment_takes_steps_in_which_nothing_is_played():
    idle = {}
    for kind, how in toy.VECTORS.items():
        envs = toy.vector(*how, 2)
        envs.reset([1, 2])
        idle[kind] = sum((~envs.step(np.zeros(2, int)).played).sum() for _ in range(30))
    assert idle.pop("unknown, next step") == 20  # an episode takes two steps, and a third one
    assert not any(idle.values())


def test_an_asynchronous_environment_with_spawned_workers_plays():
    import gymnasium

    spec = EnvSpec(ObservationSpec(4), 2, 500, "return")
    vector = gymnasium.make_vec(
        "CartPole-v1", 2, vectorization_mode="async", vector_kwargs={"context": "spawn"}
    )
    lone = [gymnasium.make("CartPole-v1", disable_env_checker=True) for _ in range(2)]
    hosts = [Host(one, toy.Plain().observe, spec) for one in lone]
    both = Vectorised(vector, toy.Plain(), spec), Lockstep(hosts)
    try:
        for envs in both:
            envs.reset([5, 6])
        for time in range(40):
            ours, others = (envs.step(np.array([time % 2, 1])) for envs in both)
            np.testing.assert_array_equal(ours.final.core, others.final.core)
            np.testing.assert_array_equal(ours.observation.core, others.observation.core)
            np.testing.assert_array_equal(ours.done, others.done)
    finally:
        vector.close()


def test_forked_workers_are_refused():
    env = toy.SyncVectorEnv([toy.Toy])
    env.processes = [types.SimpleNamespace(_start_method="fork")]
    with pytest.raises(BadInput, match="context='spawn'"):
        Vectorised(env, toy.Plain(), toy.SPEC)


def test_a_vector_environment_must_say_how_it_begins_episodes():
    env = toy.SyncVectorEnv([toy.Toy])
    env.metadata = {}
    with pytest.raises(BadInput, match="must name its autoreset mode"):
        Vectorised(env, toy.Plain(), toy.SPEC)
