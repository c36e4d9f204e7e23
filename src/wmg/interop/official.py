"""The authors' models: their names for every weight, in both directions.

"V1" is the network behind Pathfinding and BabyAI, "V2" the one behind Sokoban. A linear
layer's weight is (out, in) on both sides, and ages are in the authors' order.
"""

import functools
import os
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from wmg import config, registry
from wmg.agents.gru.agent import GRU
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.layers import LayerNorm, Linear
from wmg.agents.wmg.agent import WMG
from wmg.agents.wmg.settings import WMGSettings
from wmg.interop.official_settings import (
    config_from_settings,
    is_second_variant,
    read_settings,
)
from wmg.interop.torch_file import read_pth
from wmg.play.check_spec import check_spec
from wmg.settings import AgentSettings
from wmg.tools.errors import BadInput
from wmg.types import Agent, EnvSpec, ObservationSpec

Trained = TypeVar("Trained", WMG, GRU)
Weights = Mapping[str, np.ndarray]
Named = list[tuple[tuple[str, ...], Any]]
"""Each array of an agent behind the names of the tensors that are stacked in it."""

CORE = "core_embedding_layer.layer"
FACTOR = "factor_embedding_layer.layer"
EMBEDDING = "embedding_layers.{}.layer"
STATE = "state_embedding_layer.layer"
AGE = "age_embedding_layer.layer"
MEMO = "memo_creation_layer.layer"
OBSERVATION = "obs_emb.layer"
HEAD = "actor_critic_layers"
LAYER = "tfm.layers.{}"
RELEASED_HEADS = 6
"""Attention heads of the authors' released Pathfinding models, which come without settings."""


def load(
    path: str | os.PathLike[str],
    settings: str | os.PathLike[str] | None = None,
    heads: int | None = None,
) -> tuple[config.Config, WMG | GRU]:
    """The agent in a `.pth` file of the authors, and the experiment it comes from.

    Without a settings file only the agent's part of the experiment is the file's; the
    number of attention heads is then needed, too.
    """
    weights = read_pth(path)
    given = None if settings is None else config_from_settings(read_settings(settings))
    try:
        if given is None:
            agent = infer_agent(weights, heads)
            return config.Config(agent=agent), build_agent(agent, weights)
        env = registry.make_env(given.env, shapes_only=True)
        return given, build_agent(given.agent, weights, env.spec)
    except (BadInput, ValueError) as error:  # an agent refuses observations by a ValueError
        raise BadInput(f"{path}: {error}") from None


def build_agent(
    settings: AgentSettings, weights: Weights, spec: EnvSpec | None = None
) -> WMG | GRU:
    """An agent with these weights, for an environment or, without one, for observations of the
    shape they were trained on."""
    if spec is None:
        spec = EnvSpec(observation_spec(weights), action_count(weights), 1, "reward")
        check_spec(spec)
    make = functools.partial(registry.make_agent, settings, spec, jax.random.key(0))
    # Shapes alone, so that a file cannot have more allocated than it holds.
    return import_weights(eqx.filter_eval_shape(make), weights)


def import_weights(agent: Trained, weights: Weights) -> Trained:
    """The agent with the weights of a state dict, which must name all and no others."""
    named = _named(agent)
    expected = {
        name: (leaf.shape[0] // len(names), *leaf.shape[1:])
        for names, leaf in named
        for name in names
    }
    for name, shape in expected.items():
        if name not in weights:
            raise BadInput(f"the state dict has no {name}, expected of shape {shape}")
        if weights[name].shape != shape:
            raise BadInput(f"{name} has shape {weights[name].shape}, expected {shape}")
        if weights[name].dtype.kind != "f":
            raise BadInput(f"{name} must hold real numbers, got {weights[name].dtype}")
    extra = sorted(set(weights) - set(expected))
    if extra:
        raise BadInput(f"the state dict has {extra[0]}, which the agent has no place for")
    arrays = [
        jnp.asarray(np.concatenate([weights[name] for name in names]), jnp.float32)
        for names, _ in named
    ]
    return eqx.tree_at(lambda a: [leaf for _, leaf in _named(a)], agent, arrays)


def export_weights(agent: Agent) -> dict[str, np.ndarray]:
    """The agent's weights under the authors' names."""
    if isinstance(agent, WMG):
        _require_exportable(agent)
    elif not isinstance(agent, GRU):
        raise BadInput(f"the authors' code has no agent like {type(agent).__name__}")
    return {
        name: part
        for names, leaf in _named(agent)
        for name, part in zip(names, np.split(np.asarray(leaf), len(names)), strict=True)
    }


def _require_exportable(agent: WMG) -> None:
    """Refuse what the authors' code cannot load, or would run differently."""
    if agent.extensions:
        raise BadInput(f"the authors' code has no WMG with {' and '.join(agent.extensions)}")
    embedding = agent.memory_embedding
    if embedding is None:
        raise BadInput("the authors' code has no WMG without a memory")
    second = is_second_variant(
        WMGSettings(
            shared_heads=agent.actor_critic.critic_hidden is None,
            start="full" if embedding.floor else "empty",
            age="concatenated" if embedding.ages is None else "added",
        )
    )
    if embedding.shown_ages != tuple(range(1, embedding.oldest + 1)):
        raise BadInput("the authors' code cannot run an agent with an enlarged memory")
    if len(agent.factor_embeddings) > 1 and not second:
        names = ", ".join(agent.factor_embeddings)
        raise BadInput(f"the authors' first network has one Factor type, got {names}")


def _named(agent: WMG | GRU) -> Named:
    """Every array of the agent behind its official names."""
    if isinstance(agent, GRU):
        return [
            *_linear(OBSERVATION, agent.embedding),
            (("rnn.weight_ih",), agent.cell.inputs.weight),
            (("rnn.weight_hh",), agent.cell.hidden.weight),
            (("rnn.bias_ih",), agent.cell.inputs.bias),
            (("rnn.bias_hh",), agent.cell.hidden.bias),
            *_head(agent),
        ]
    named = _embeddings(agent)
    for i, layer in enumerate(agent.transformer.layers):
        at = LAYER.format(i)
        attention = [f"{at}.attention.{part}.layer" for part in ("query", "key", "value")]
        named += [
            (tuple(f"{part}.weight" for part in attention), layer.qkv.weight),
            (tuple(f"{part}.bias" for part in attention), layer.qkv.bias),
            *_linear(f"{at}.attention_residual.linear_layer.layer", layer.mix),
            *_norm(f"{at}.attention_layer_norm", layer.attention_norm),
            *_linear(f"{at}.feedforward.layer", layer.widen),
            *_linear(f"{at}.feedforward_residual.linear_layer.layer", layer.narrow),
            *_norm(f"{at}.feedforward_layer_norm", layer.feedforward_norm),
        ]
    named += _head(agent)
    return named if agent.new_memo is None else named + _linear(MEMO, agent.new_memo)


def _embeddings(agent: WMG) -> Named:
    second = agent.actor_critic.critic_hidden is None
    named = _linear(EMBEDDING.format(0) if second else CORE, agent.core_embedding)
    for i, name in enumerate(sorted(agent.factor_embeddings), start=1):
        at = EMBEDDING.format(i) if second else FACTOR
        named += _linear(at, agent.factor_embeddings[name])
    if agent.memory_embedding is not None:
        named += _linear(STATE, agent.memory_embedding.vectors)
        if agent.memory_embedding.ages is not None:
            named += _linear(AGE, agent.memory_embedding.ages)
    return named


def _head(agent: WMG | GRU) -> Named:
    head = agent.actor_critic
    last = [
        *_linear(f"{HEAD}.critic_linear_2.layer", head.value),
        *_linear(f"{HEAD}.actor_linear_2.layer", head.policy),
    ]
    if head.critic_hidden is None:
        return _linear(f"{HEAD}.linear_1.layer", head.actor_hidden) + last
    return [
        *_linear(f"{HEAD}.critic_linear_1.layer", head.critic_hidden),
        *_linear(f"{HEAD}.actor_linear_1.layer", head.actor_hidden),
        *last,
    ]


def _linear(name: str, layer: Linear) -> Named:
    return [((f"{name}.weight",), layer.weight), ((f"{name}.bias",), layer.bias)]


def _norm(name: str, layer: LayerNorm) -> Named:
    return [((f"{name}.gamma",), layer.gain), ((f"{name}.beta",), layer.bias)]


def infer_agent(weights: Weights, heads: int | None = None) -> WMGSettings | GRUSettings:
    """The agent's settings, from the shapes and the number of attention heads."""
    if f"{OBSERVATION}.weight" in weights:
        return GRUSettings(
            embedding=_shape(weights, OBSERVATION)[0],
            size=_shape(weights, "rnn", "weight_hh")[1],
            actor_critic=_shape(weights, f"{HEAD}.actor_linear_1.layer")[0],
        )
    second = _is_second(weights)
    size, core = _shape(weights, EMBEDDING.format(0) if second else CORE)
    if heads is None:
        raise BadInput("weights do not tell the number of attention heads: give heads")
    if heads < 1 or size % heads:
        raise BadInput(f"heads must divide the vector size {size}, got {heads}")
    memos = f"{MEMO}.weight" in weights
    first = "linear_1" if second else "actor_linear_1"
    vector = _shape(weights, MEMO)[0] if memos else core
    ages = _shape(weights, AGE)[1] - 2 if second else _shape(weights, STATE)[1] - vector
    return WMGSettings(
        memory="memos" if memos else "observations",
        slots=ages,
        memo_size=vector if memos else 0,
        layers=_count(weights, LAYER + ".feedforward.layer"),
        heads=heads,
        head_size=size // heads,
        hidden=_shape(weights, LAYER.format(0) + ".feedforward.layer")[0],
        actor_critic=_shape(weights, f"{HEAD}.{first}.layer")[0],
        shared_heads=second,
        start="empty" if second else "full",
        age="added" if second else "concatenated",
    )


def observation_spec(weights: Weights) -> ObservationSpec:
    """The observations weights were trained on; they do not tell the number of Factors."""
    if f"{OBSERVATION}.weight" in weights:
        return ObservationSpec(_shape(weights, OBSERVATION)[1])
    if not _is_second(weights):
        core = _shape(weights, CORE)[1]
        has_factors = f"{FACTOR}.weight" in weights
        sizes = [_shape(weights, FACTOR)[1]] if has_factors else []
    else:
        types = range(_count(weights, EMBEDDING))
        core, *sizes = (_shape(weights, EMBEDDING.format(i))[1] for i in types)
    # Named so that sorting by name keeps their order.
    names = ["factor"] if len(sizes) == 1 else [f"factor{i:03d}" for i in range(len(sizes))]
    factors = zip(names, [1] * len(sizes), sizes, strict=True)
    return ObservationSpec(core, tuple(factors))


def action_count(weights: Weights) -> int:
    """How many actions the policy that weights describe can choose from."""
    return _shape(weights, f"{HEAD}.actor_linear_2.layer")[0]


def _is_second(weights: Weights) -> bool:
    return EMBEDDING.format(0) + ".weight" in weights


def _count(weights: Weights, name: str) -> int:
    """How many layers of a numbered name there are, from 0 without a gap."""
    count = 0
    while f"{name.format(count)}.weight" in weights:
        count += 1
    return count


def _shape(weights: Weights, layer: str, part: str = "weight") -> tuple[int, int]:
    name = f"{layer}.{part}"
    if name not in weights:
        raise BadInput(f"the state dict has no {name}: it is not a model of the authors")
    if weights[name].ndim != 2:
        raise BadInput(f"{name} must be a matrix, got shape {weights[name].shape}")
    rows, columns = weights[name].shape
    return rows, columns
