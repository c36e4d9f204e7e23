"""Mistakes of environments from outside: each is one sentence, from commands and from Python."""

import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import wmg
from wmg.play.vectorised import Vectorised

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402
from gymnasium.envs.registration import EnvSpec  # noqa: E402
from gymnasium.vector import SyncVectorEnv  # noqa: E402

from wmg.interop import outside  # noqa: E402


class Right(gymnasium.Env):
    """Three numbers, and two things behind a mask. Each class below makes one mistake in it."""

    observation_space = spaces.Dict(
        {
            "x": spaces.Box(-1, 1, (3,)),
            "things": spaces.Box(0, 1, (2, 2)),
            "things_mask": spaces.MultiBinary(2),
        }
    )
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.see(), {}

    def step(self, action):
        self.time += 1
        return self.see(), 0.0, self.time >= 5, False, {}

    def see(self):
        things, mask = np.zeros((2, 2), np.float32), np.ones(2, np.int8)
        return {"x": np.zeros(3, np.float32), "things": things, "things_mask": mask}


class Graphs(Right):
    observation_space = spaces.Sequence(spaces.Graph(spaces.Box(0, 1, (2,)), None))


class Continuous(Right):
    action_space = spaces.Box(-1, 1, (2,))


class Grows(Right):
    def see(self):
        return {**super().see(), "x": np.zeros(3 + (self.time > 2), np.float32)}


class Raises(Right):
    def step(self, action):
        if self.time > 2:
            raise KeyError("my own mistake")
        return super().step(action)


class NeverBegins(Right):
    def reset(self, *, seed=None, options=None):
        raise KeyError("my own mistake")


class ShortMask(Right):
    def see(self):
        return {**super().see(), "things_mask": np.ones(1, np.int8)}


class NotFinite(Right):
    def see(self):
        return {**super().see(), "x": np.array([0, np.nan if self.time > 2 else 0, 0])}


class TooLong(Right):
    spec = EnvSpec("TooLong-v0", max_episode_steps=3)


class NoText(Right):
    observation_space = spaces.Dict({"x": spaces.Text(5)})


MISTAKES = {
    "Graphs": "the observation space is Sequence(Graph(",
    "Continuous": "the action space must be Discrete or MultiDiscrete, got Box(",
    "Grows": "the part 'x' of the observation has shape (4,), but its space says (3,)",
    "Raises": "Raises.step raises KeyError in line ",
    "NeverBegins": "NeverBegins.reset raises KeyError in line ",
    "ShortMask": "'things_mask' of the observation has shape (1,), but its space says (2,)",
    "NotFinite": "the part 'x' of the observation has NaN or infinity in it",
    "TooLong": "an episode goes on after 3 steps, the most that its EnvSpec promises",
    "NoText": "the part 'x' of the observation must be a text, got a ndarray",
    "Missing": "env needs Missing, which the module",
}
SHOWN = ("Raises", "NeverBegins")
"""Their own errors are shown with a traceback."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_of_the_command(name, capsys, tmp_path):
    args = ["train", "--env", f"{__name__}:{name}", "--out", tmp_path / "run"]
    code, out, err = tiny.command(capsys, *args)
    *before, last = err.splitlines()
    assert (code, out) == (2, "") and last.startswith("wmg: ") and MISTAKES[name] in last
    assert bool(before) == (name in SHOWN)
    if before:
        assert before[0] == "Traceback (most recent call last):"
        assert 'raise KeyError("my own mistake")' in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("call", [wmg.check_env, lambda env: wmg.train(env=env)])
def test_a_mistake_is_bad_input_in_python(name, call):
    env = globals().get(name, f"{__name__}:{name}")
    with pytest.raises(wmg.BadInput) as caught:
        call(env)
    assert MISTAKES[name] in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError) == (name in SHOWN)


def test_a_vector_environment_names_the_line_that_raised():
    source = outside.from_gymnasium(Right, "it")
    envs = Vectorised(SyncVectorEnv([Raises] * 2), source.mapping, source.spec)
    envs.reset([0, 1])
    with pytest.raises(
        wmg.BadInput, match=r"SyncVectorEnv.step raises KeyError in line \d+ of test_"
    ):
        for _ in range(4):
            envs.step(np.zeros(2, int))


class Unwell(wmg.Env):
    """In JAX, where a number cannot be looked at while it is trained on."""

    @property
    def spec(self):
        return wmg.EnvSpec(wmg.ObservationSpec(1), actions=2, max_steps=4, metric="return")

    def reset(self, key):
        return jnp.int32(0), wmg.Observation(jnp.zeros(1))

    def step(self, state, action, key):
        seen, no = wmg.Observation(jnp.full(1, jnp.nan)), jnp.bool_(False)
        return wmg.Step(state + 1, seen, jnp.float32(0), state >= 3, no, no)


def test_runs_that_all_diverged_say_how_to_check_the_environment(capsys, tmp_path):
    path = f"{__name__}:Unwell"
    args = [*tiny.FLAGS[:-2], "--steps=96", "--report-every=48", "--t-max=4"]
    code, out, _ = tiny.command(capsys, "train", "--env", path, *args, "--out", tmp_path / "run")
    assert code == 1 and f"wmg.check_env('{path}') says so" in out
    with pytest.raises(wmg.BadInput, match="is NaN or infinite"):
        wmg.check_env(path)
