"""Which program trains the runs: the window kernel or XLA's, a new one or one that was kept."""

import jax
import jax.numpy as jnp
import pytest
import tiny
from jaxtyping import Array, Float
from probes import Probe, core
from tiny import keys_may_be_split_up  # noqa: F401

from wmg.agents.gru.settings import GRUSettings
from wmg.config import Config, Goal, Hyper
from wmg.learn.kernels.nvrtc import NoKernel, Unsuitable
from wmg.runs import hardware, task, train
from wmg.tools.errors import BadInput


def compiled(kernel):
    return train.make_task(tiny.settings(kernel=kernel), None)


def raise_error(error):
    def find_kernel(*given):
        raise error

    return find_kernel


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(hardware, "on_cpu", lambda: False)


def test_on_a_cpu_there_is_no_choice_and_no_kernel():
    made = compiled("auto")
    assert made.find_kernel() is None and made.engine == ""
    with pytest.raises(BadInput, match="kernel = on cannot be: there is no NVIDIA GPU"):
        compiled("on").find_kernel()


def test_a_kernel_that_does_not_fit_is_left_out_in_silence(on_a_gpu, monkeypatch):
    monkeypatch.setattr(task, "find_kernel", raise_error(Unsuitable("another agent")))
    assert compiled("auto").find_kernel() is None  # a warning would be an error here
    with pytest.raises(BadInput, match="kernel = on cannot be: another agent"):
        compiled("on").find_kernel()


def test_a_kernel_that_fails_is_one_warning_unless_it_was_asked_for(on_a_gpu, monkeypatch):
    monkeypatch.setattr(task, "find_kernel", raise_error(NoKernel("no launch")))
    with pytest.warns(UserWarning, match="the window kernel failed, XLA trains instead: no launch"):
        assert compiled("auto").find_kernel() is None
    with pytest.raises(BadInput, match="kernel = on cannot be: no launch"):
        compiled("on").find_kernel()


def test_a_kernel_that_is_switched_off_is_not_looked_for(on_a_gpu, monkeypatch):
    monkeypatch.setattr(task, "find_kernel", raise_error(AssertionError()))
    assert compiled("off").find_kernel() is None


class Pays(Probe):
    """Pays the same for everything."""

    reward: Float[Array, ""] | float = 0.0

    def observe(self, state):
        return core(0, 1)

    def pay(self, state, action):
        return self.reward


@pytest.mark.parametrize(("goal", "scores"), [(None, (100, -300)), (Goal(0.9, 20), (100, 0))])
def test_the_same_agent_is_trained_by_the_same_program_in_another_environment(goal, scores, caplog):
    agent = GRUSettings(embedding=2, size=2, actor_critic=4)
    found, numbers = [], [(1.0, 0, Hyper()), (-3.0, 5, Hyper(learning_rate=1e-3))]
    for reward, seed, hyper in numbers:
        settings = Config(None, agent, hyper, steps=24, report_every=12, seed=seed, goal=goal)
        with jax.log_compiles():
            caplog.clear()
            result = train.train(settings, env=Pays(1, 1, jnp.float32(reward)))
        found.append(result.scores[0, 0])
        compiled = [r.getMessage() for r in caplog.records if "ompil" in r.getMessage()]
    assert compiled == [] and found == list(scores)


def test_programs_of_the_last_agents_are_kept():
    def program(size, **changes):
        agent = GRUSettings(embedding=2, size=size, actor_critic=4)
        return train.make_task(tiny.settings(agent=agent, **changes), None).advance().args[0]

    first = program(1)
    assert program(1) is first and program(1, t_max=5) is not first
    for size in range(2, task.KEPT):
        program(size)
    assert program(1) is first
    for size in range(2, task.KEPT + 2):
        program(size)
    assert program(1) is not first
