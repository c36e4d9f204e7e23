"""`wmg.check_env` takes what `wmg.train` takes; and training checks its environment."""

import equinox as eqx
import jax
import jax.numpy as jnp
import own
import pytest
import tiny

import wmg
from wmg.play import host, host_arrays

keys_may_be_split_up = tiny.keys_may_be_split_up
SMALL = {"agent": tiny.AGENT, "steps": 32, "report_every": 32, "t_max": 4}


class Blind(wmg.Env):
    """Two doors; behind the second one is the reward. There is nothing to see but what was done,
    which is a Factor."""

    wrong: bool = eqx.field(static=True, default=False)

    @property
    def spec(self):
        return wmg.EnvSpec(wmg.ObservationSpec(0, (("done", 1, 2),)), 2, 3, "success")

    def reset(self, key):
        return jnp.int32(0), self.show(0, False)

    def step(self, state, action, key):
        if self.wrong:
            raise KeyError("the user's own mistake")
        won, late = action == 1, state >= 2
        seen = self.show(action, True)
        reward = won.astype(jnp.float32)
        return wmg.Step(state + 1, seen, reward, won, late & ~won, won)

    def show(self, action, present):
        rows = wmg.Factors(jax.nn.one_hot(action, 2)[None], jnp.full(1, present))
        return wmg.Observation(jnp.zeros(0), {"done": rows})


def wrong():
    return Blind(wrong=True)


def mapped():
    gymnasium = pytest.importorskip("gymnasium")
    spec = wmg.EnvSpec(wmg.ObservationSpec(4), 2, 500, "reward")
    return host.Host(gymnasium.make("CartPole-v1"), lambda x: host_arrays.observation(x, {}), spec)


@pytest.mark.parametrize(
    "env", [Blind, Blind(), own.make_bag, f"{__name__}:Blind", "gym:CartPole-v1", mapped]
)
def test_whatever_can_be_trained_can_be_checked(env):
    wmg.check_env(mapped() if env is mapped else env, steps=20)


def test_what_is_no_environment_is_refused():
    with pytest.raises(wmg.BadInput, match="int must be an environment"):
        wmg.check_env(3)
    with pytest.raises(wmg.BadInput, match="steps must be a whole number from 1 on, got 0"):
        wmg.check_env(Blind, steps=0)


BATCHED = wmg.Batched(envs=2, windows=1, passes=1, minibatches=1)


@pytest.mark.parametrize("batched", [wmg.Batched(), BATCHED])
def test_an_environment_without_a_core_is_trained(batched):
    result = wmg.train(env=Blind, batched=batched, **SMALL)
    assert result.finished and result.model.spec.observation.core == 0
    assert result.model.evaluate(4).episodes == 4


def test_training_says_what_is_wrong_with_an_environment_and_shows_the_users_error():
    for call in (wmg.check_env, lambda env: wmg.train(env=env, **SMALL)):
        for env in (wrong, wrong()):
            with pytest.raises(wmg.BadInput, match=r"Blind.step raises KeyError in line") as caught:
                call(env)
            assert isinstance(caught.value.__cause__, KeyError)


def test_the_command_prints_the_traceback_of_the_users_error(capsys, monkeypatch):
    monkeypatch.setattr("wmg.cli.inspect.run", lambda args: wmg.train(env=wrong, **SMALL))
    code, _, error = tiny.command(capsys, "inspect", "it")
    lines = error.splitlines()
    assert code == 2 and lines[0] == "Traceback (most recent call last):"
    assert 'raise KeyError("the user\'s own mistake")' in error
    assert lines[-1].startswith("wmg: Blind.step raises KeyError in line")
