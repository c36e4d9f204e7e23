"""Actor and critic."""

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest

from wmg.agents.heads import ActorCritic


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
