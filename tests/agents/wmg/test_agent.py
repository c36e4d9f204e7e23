"""WMG against a restatement node by node, and its variants against the authors' facts."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from probes import TINY, build, tiny_wmg

from wmg.agents.layers import Linear
from wmg.agents.wmg.settings import WMGSettings
from wmg.types import EnvSpec, Factors, Observation, ObservationSpec, count_parameters

FACTORS = (("doors", 2, 4), ("things", 3, 5))
SPEC = EnvSpec(ObservationSpec(3, FACTORS), actions=3, max_steps=4, metric="reward")
CORE_ONLY = EnvSpec(ObservationSpec(3), actions=3, max_steps=4, metric="reward")
VARIANTS = {
    "paper": {},
    "sokoban": {"shared_heads": True, "start": "empty", "age": "added"},
    "nr": {"memory": "observations"},
    "none": {"memory": "none"},
}

run = eqx.filter_jit(lambda agent, observation, memory: agent(observation, memory))


def array(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def observation(doors=(True, False), things=(True, True, False), seed=0):
    return Observation(
        core=array(seed, 3),
        factors={
            "doors": Factors(array(seed + 1, 2, 4), jnp.array(doors)),
            "things": Factors(array(seed + 2, 3, 5), jnp.array(things)),
        },
    )


def age_vector(age, slots, encoding):
    """Facts 10 and 11 of the authors' code, for the Memo written `age` steps ago."""
    if encoding == "concatenated":
        return [1.0 if index == age % slots else 0.0 for index in range(slots)]
    index = age - 1
    return [1.0 if i == index else 0.0 for i in range(slots + 1)] + [index / slots]


def nodes_restated(agent, observation, remembered, slots, encoding):
    """The Transformer's input: only what is there, each by its own embedding."""
    nodes = [plain.linear(agent.core_embedding, np.asarray(observation.core))]
    for name, factors in observation.factors.items():
        for row, present in zip(factors.values, factors.present, strict=True):
            if present:
                nodes.append(plain.linear(agent.factor_embeddings[name], np.asarray(row)))
    for age, vector in enumerate(remembered, start=1):
        ages, embedding = age_vector(age, slots, encoding), agent.memory_embedding
        if encoding == "concatenated":
            nodes.append(plain.linear(embedding.vectors, np.array([*vector, *ages])))
        else:
            node = plain.linear(embedding.vectors, np.asarray(vector))
            nodes.append(node + plain.linear(embedding.ages, np.array(ages)))
    return nodes


@pytest.mark.parametrize("variant", VARIANTS)
def test_three_steps_equal_the_restatement(variant):
    changes = VARIANTS[variant]
    agent = plain.shaken(tiny_wmg(SPEC, slots=2, **changes), by=0.3)
    kind, start = changes.get("memory", "memos"), changes.get("start", "full")
    size = TINY["memo_size"] if kind == "memos" else 3
    remembered = [np.zeros(size)] * 2 if start == "full" and kind != "none" else []
    memory = agent.initial_memory()
    for time in range(3):
        seen = observation(seed=10 * time)
        output = run(agent, seen, memory)
        encoding = changes.get("age", "concatenated")
        core, _ = plain.transformer(
            agent.transformer, nodes_restated(agent, seen, remembered, 2, encoding)
        )
        logits, value = plain.actor_critic(agent.actor_critic, core)
        np.testing.assert_allclose(output.logits, logits, atol=2e-4)
        np.testing.assert_allclose(output.value, value, atol=2e-4)
        written = plain.linear(agent.new_memo, core) if kind == "memos" else seen.core
        if kind != "none":
            remembered = [np.tanh(written), *remembered][:2]
        memory = output.memory


def test_the_order_of_factors_does_not_change_the_output():
    agent = plain.shaken(tiny_wmg(SPEC))
    seen = observation()
    order = jnp.array([2, 0, 1])
    moved = eqx.tree_at(
        lambda o: o.factors["things"],
        seen,
        jax.tree.map(lambda x: x[order], seen.factors["things"]),
    )
    before = run(agent, seen, agent.initial_memory())
    after = run(agent, moved, agent.initial_memory())
    np.testing.assert_allclose(after.logits, before.logits, atol=2e-5)
    np.testing.assert_allclose(after.memory.vectors, before.memory.vectors, atol=2e-5)


def test_padding_with_more_absent_factors_does_not_change_the_output():
    agent = plain.shaken(tiny_wmg(SPEC))
    seen = observation()
    things = seen.factors["things"]
    padded = Factors(
        jnp.concatenate([things.values, array(9, 4, 5)]),
        jnp.concatenate([things.present, jnp.zeros(4, bool)]),
    )
    more = eqx.tree_at(lambda o: o.factors["things"], seen, padded)
    before = run(agent, seen, agent.initial_memory())
    after = run(agent, more, agent.initial_memory())
    np.testing.assert_allclose(after.logits, before.logits, atol=2e-5)


def test_a_factor_that_is_present_does_change_the_output():
    agent = plain.shaken(tiny_wmg(SPEC))
    before = run(agent, observation(), agent.initial_memory())
    after = run(agent, observation(things=(True, True, True)), agent.initial_memory())
    assert np.abs(after.logits - before.logits).max() > 1e-3


def test_attention_has_a_column_for_core_factors_and_slots_in_that_order():
    agent = plain.shaken(tiny_wmg(SPEC, start="empty"))
    memory = run(agent, observation(), agent.initial_memory()).memory
    attention = np.asarray(run(agent, observation(), memory).attention)
    shown = [True, True, False, True, True, False, True, False, False]
    assert attention.shape == (2, 2, len(shown))
    np.testing.assert_array_equal(attention > 0, np.broadcast_to(shown, attention.shape))
    np.testing.assert_allclose(attention.sum(-1), 1, rtol=1e-6)


def test_the_first_policy_is_uniform():
    agent = tiny_wmg(SPEC)
    assert (run(agent, observation(), agent.initial_memory()).logits == 0).all()


@pytest.mark.parametrize("encoding", ["concatenated", "added"])
@pytest.mark.parametrize("slots", [1, 3])
def test_ages_are_told_as_in_the_authors_code(encoding, slots):
    table = tiny_wmg(CORE_ONLY, slots=slots, age=encoding).memory_embedding.age_table()
    want = [age_vector(age, slots, encoding) for age in range(1, slots + 1)]
    np.testing.assert_allclose(table, want, rtol=1e-6)


def test_the_oldest_memo_has_the_first_age_column_and_the_newest_the_second():
    table = tiny_wmg(CORE_ONLY, slots=4).memory_embedding.age_table()
    newest, oldest = table[0], table[3]
    assert newest.tolist() == [0, 1, 0, 0] and oldest.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("encoding", ["concatenated", "added"])
def test_a_slot_may_be_shown_at_another_age_or_at_none(encoding):
    embedding = tiny_wmg(CORE_ONLY, slots=3, age=encoding).memory_embedding
    other = dataclasses.replace(embedding, shown_ages=(2, 3, 3, None))
    two, three = (age_vector(age, 3, encoding) for age in (2, 3))
    want = [two, three, three, [0.0] * len(two)]
    np.testing.assert_allclose(other.age_table(), want, rtol=1e-6)


@pytest.mark.parametrize(("start", "shown"), [("full", [1, 1, 1]), ("empty", [0, 0, 0])])
def test_memory_starts_with_zeros_that_are_attended_to_or_not(start, shown):
    memory = tiny_wmg(CORE_ONLY, start=start).initial_memory()
    np.testing.assert_array_equal(memory.present, np.array(shown, bool))
    assert memory.vectors.shape == (3, TINY["memo_size"]) and (memory.vectors == 0).all()


def test_nr_wmg_keeps_the_tanh_of_each_observation():
    agent = tiny_wmg(SPEC, memory="observations")
    first, second = observation(seed=1), observation(seed=5)
    memory = run(agent, first, agent.initial_memory()).memory
    memory = run(agent, second, memory).memory
    want = [np.tanh(second.core), np.tanh(first.core), np.zeros(3)]
    np.testing.assert_allclose(memory.vectors, want, rtol=1e-6)


def test_without_memory_nothing_is_kept():
    agent = tiny_wmg(SPEC, memory="none")
    memory = run(agent, observation(), agent.initial_memory()).memory
    assert agent.memory_embedding is None and agent.new_memo is None
    assert memory.vectors.size == 0 and memory.present.size == 0


def test_a_memo_is_a_tanh_of_the_cores_output():
    agent = plain.shaken(tiny_wmg(SPEC), by=3.0)
    memo = run(agent, observation(), agent.initial_memory()).memory.vectors[0]
    assert np.abs(memo).max() <= 1 and np.abs(memo).max() > 0.5


PATHFINDING = EnvSpec(ObservationSpec(15), actions=2, max_steps=12, metric="reward")
SOKOBAN = EnvSpec(ObservationSpec(11, (("cells", 40, 39),)), 5, 120, "success")
COUNTS = {
    132_507: (PATHFINDING, WMGSettings()),
    204_963: (
        PATHFINDING,
        WMGSettings(memory="observations", slots=11, head_size=16, hidden=32),
    ),
    4_508_182: (
        SOKOBAN,
        WMGSettings(
            slots=1,
            memo_size=2048,
            layers=10,
            heads=8,
            head_size=32,
            hidden=8,
            actor_critic=2880,
            shared_heads=True,
            start="empty",
            age="added",
        ),
    ),
}


@pytest.mark.parametrize("count", COUNTS)
def test_the_papers_networks_have_as_many_parameters_as_it_says(count):
    spec, settings = COUNTS[count]
    shapes = eqx.filter_eval_shape(build, settings, spec)
    empty = jax.tree.map(lambda x: np.broadcast_to(np.float32(0), x.shape), shapes)
    assert count_parameters(empty) == count


def test_weights_of_he_have_their_size_everywhere_but_in_actor_and_critic():
    made = {init: tiny_wmg(SPEC, init=init) for init in ("pytorch", "he")}
    small, he = ([x.weight for x in linear_layers(agent)] for agent in made.values())
    for a, b in zip(small, he, strict=True):
        np.testing.assert_allclose(b, 6**0.5 * a, rtol=1e-6)
    assert max(float(abs(b).max() * b.shape[1] ** 0.5) for b in he) > 6**0.5 * 0.9
    assert eqx.tree_equal(*(agent.actor_critic for agent in made.values()))


def linear_layers(agent):
    """All but those of actor and critic."""
    rest = eqx.tree_at(lambda a: a.actor_critic, agent, None)
    nodes = jax.tree.leaves(rest, is_leaf=lambda x: isinstance(x, Linear))
    return [node for node in nodes if isinstance(node, Linear)]
