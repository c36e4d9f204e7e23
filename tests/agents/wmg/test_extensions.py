"""Extensions are off by default, and an agent without them is the paper's."""

import dataclasses
import types

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import tiny_wmg

from wmg.agents.wmg.agent import WMG
from wmg.agents.wmg.make import make
from wmg.agents.wmg.settings import EXTENSIONS, WMGSettings
from wmg.types import EnvSpec, ObservationSpec, count_parameters

SPEC = EnvSpec(ObservationSpec(3, (("things", 3, 5),)), actions=3, max_steps=4, metric="reward")
SMALL = {"slots": 3, "memo_size": 6, "layers": 2, "heads": 2, "head_size": 4, "actor_critic": 8}
ON = {
    "lifetimes": {"lifetimes": "attention"},
    "edges": {"edges": "both"},
    "store": {"store": 4, "store_size": 3, "reads": 2},
}


def fields(**changes):
    return dataclasses.asdict(WMGSettings(**{**SMALL, **changes}))


@pytest.mark.parametrize("init", ["pytorch", "he"])
def test_without_extensions_it_is_the_papers_agent_with_the_same_weights(init):
    given = fields(init=init)
    made = make(SPEC.observation, 3, key=jax.random.key(5), **given)
    paper = {name: value for name, value in given.items() if name not in EXTENSIONS}
    assert eqx.tree_equal(made, WMG(SPEC.observation, 3, key=jax.random.key(5), **paper))
    assert made.extensions == ()


@pytest.mark.parametrize("name", ON)
def test_an_extension_leaves_the_weights_of_all_other_parts_as_they_are(name):
    paper = make(SPEC.observation, 3, key=jax.random.key(5), **fields())
    made = make(SPEC.observation, 3, key=jax.random.key(5), **fields(**ON[name]))
    assert made.extensions == (name,)
    same = ["core_embedding", "factor_embeddings", "new_memo", "actor_critic"]
    same += ["memory_embedding"] if name != "lifetimes" else []
    for part in same:
        assert eqx.tree_equal(getattr(made, part), getattr(paper, part)), part
    layers = made.transformer.layers
    plain = tuple(layer.nodes for layer in layers) if name == "edges" else layers
    assert eqx.tree_equal(plain, paper.transformer.layers)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("lifetimes", 8),  # a column of the embedding: whether a Memo is older than the slots
        # A map of Factors of 5 to 4 numbers; in each of 2 layers, from and to 2 heads of 12.
        ("edges", (5 + 1) * 4 + 2 * ((8 + 1) * 24 + (24 + 1) * 8)),
        # What is asked by 2 reads, their sharpness, their embedding, and key and value.
        ("store", (16 + 1) * 6 + 2 + (3 + 1) * 8 + (8 + 1) * 6),
    ],
)
def test_an_extension_has_as_many_parameters_as_its_equations_say(name, more):
    paper, made = (
        make(SPEC.observation, 3, key=jax.random.key(5), **fields(**changes))
        for changes in ({}, ON[name])
    )
    assert count_parameters(made) - count_parameters(paper) == more


@pytest.mark.parametrize("name", [*ON, "all"])
def test_weights_of_he_are_larger_in_extensions_too(name):
    changes = ON[name] if name in ON else {k: v for on in ON.values() for k, v in on.items()}
    small, he = (tiny_wmg(SPEC, init=init, **changes) for init in ("pytorch", "he"))
    for part in ("memory_embedding", "transformer", "edge_content", "memory_vectors"):
        pairs = zip(*(jax.tree.leaves(getattr(a, part)) for a in (small, he)), strict=True)
        for a, b in pairs:
            if a.ndim == 2:
                np.testing.assert_allclose(b, 6**0.5 * a, rtol=1e-6)


@pytest.mark.parametrize("name", [*ON, "all"])
def test_many_at_once_are_as_one_by_one(name):
    changes = ON[name] if name in ON else {k: v for on in ON.values() for k, v in on.items()}
    agent = tiny_wmg(SPEC, **changes)
    draw = np.random.default_rng(0)
    seen = jax.tree.map(
        lambda x: jnp.asarray(draw.normal(size=(3, *x.shape)) > 0, x.dtype),
        SPEC.observation.zeros(),
    )
    one = agent.initial_memory()
    memory = jax.tree.map(lambda x: jnp.stack([x] * 3), one)
    for _ in range(5):
        together = jax.jit(lambda a, s, m: a.summarise_all(s, m))(agent, seen, memory)
        for i in range(3):
            mine = jax.tree.map(lambda x, i=i: x[i], (seen, memory, together))
            alone = agent.summarise(*mine[:2])
            for a, b in zip(*map(jax.tree.leaves, (alone, mine[2])), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-5)
        memory = together.memory


@pytest.mark.parametrize("name", ON)
def test_the_kernels_for_gpus_are_for_the_papers_agent_alone(name, monkeypatch):
    """They neither see edges nor tell what is attended to."""
    fits = {"head_size": 16, "hidden": 8}
    paper, extended = tiny_wmg(SPEC, **fits), tiny_wmg(SPEC, **fits, **ON[name])
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    device = types.SimpleNamespace(compute_capability="9.0")
    monkeypatch.setattr(jax, "devices", lambda: [device])
    seen = SPEC.observation.zeros()
    assert paper.specialise(seen, "bfloat16") is not paper
    assert extended.specialise(seen, "bfloat16") is extended
