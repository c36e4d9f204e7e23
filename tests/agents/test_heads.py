"""Actor and critic, and what is said of an observation that an agent cannot take."""

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest

from wmg.agents.heads import ActorCritic, require_parts
from wmg.types import ObservationSpec


def heads(shared):
    return ActorCritic.create(4, 6, 3, shared, key=jax.random.key(0))


SHARED = pytest.mark.parametrize("shared", [False, True])


@SHARED
def test_policy_and_value_equal_the_restatement(shared):
    model = plain.shaken(heads(shared))
    x = jnp.asarray(np.random.default_rng(0).normal(size=4), jnp.float32)
    logits, value = model(x)
    want_logits, want_value = plain.actor_critic(model, x)
    np.testing.assert_allclose(logits, want_logits, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(value, want_value, rtol=1e-5, atol=1e-5)


@SHARED
def test_the_first_policy_is_uniform_and_the_first_value_is_not_zero(shared):
    logits, value = heads(shared)(jnp.ones(4))
    assert (logits == 0).all() and value != 0


def test_only_separate_heads_have_two_hidden_layers():
    assert heads(True).critic_hidden is None
    separate = heads(False)
    assert (separate.critic_hidden.weight != separate.actor_hidden.weight).any()


CORE = ObservationSpec(2)
FACTORED = ObservationSpec(2, (("balls", 3, 3), ("walls", 1, 2)))
IMAGE = ObservationSpec(2, image=(7, 7, 3))
BOTH = ObservationSpec(2, (("balls", 3, 3),), (7, 7, 3))


@pytest.mark.parametrize(
    ("observation", "takes"),
    [
        (CORE, {}),
        (CORE, {"factors": True}),
        (FACTORED, {"factors": True}),
        (IMAGE, {"image": True}),
        (BOTH, {"factors": True, "image": True}),
    ],
)
def test_what_an_agent_takes_is_accepted(observation, takes):
    require_parts("tiny", observation, **takes)


WAY_OUT = "; some environments can show them flattened in the Core"


@pytest.mark.parametrize(
    ("observation", "takes", "message"),
    [
        (FACTORED, {}, f"takes no Factors, but the observation has balls, walls{WAY_OUT}"),
        (IMAGE, {}, "takes no image, but the observation has one"),
        (IMAGE, {"factors": True}, "takes no image, but the observation has one"),
        (BOTH, {"image": True}, f"takes no Factors, but the observation has balls{WAY_OUT}"),
        (CORE, {"image": True}, "needs an image, but the observation has none"),
    ],
)
def test_parts_that_would_be_ignored_or_are_missing_are_named(observation, takes, message):
    with pytest.raises(ValueError) as refusal:
        require_parts("tiny", observation, **takes)
    assert str(refusal.value) == f"the tiny agent {message}"
