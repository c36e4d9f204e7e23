"""The interfaces."""

import jax.numpy as jnp
import numpy as np
import pytest
from probes import core

from wmg.types import Env, Observation, Step, count_parameters


@pytest.mark.parametrize("terminated", [False, True])
@pytest.mark.parametrize("truncated", [False, True])
def test_an_episode_is_done_when_it_terminated_or_was_truncated(terminated, truncated):
    ends = jnp.array(terminated), jnp.array(truncated)
    step = Step(None, core(0), jnp.zeros(()), *ends, jnp.array(False))
    assert step.done == (terminated or truncated)


def test_only_inexact_arrays_count_as_parameters():
    model = {"w": np.zeros((2, 3)), "b": jnp.ones(4), "n": jnp.arange(5)}
    assert count_parameters(model) == 10


def test_an_observation_has_no_factors_unless_told():
    one, other = Observation(jnp.zeros(1)), Observation(jnp.zeros(1))
    assert one.factors == {} and one.factors is not other.factors


def test_an_environment_without_its_functions_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Env()  # type: ignore[abstract]
