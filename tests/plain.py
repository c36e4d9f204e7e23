"""Slow, obvious restatements that the tests compare with: numpy and loops, no jax.

Weights are read from the code's modules; everything that is done with them is written anew.
"""

import math
from collections.abc import Iterable

import equinox as eqx
import jax
import numpy as np


def shaken(model, seed=0, by=0.5):
    """`model` with noise on every parameter, so that none is zero or one by chance."""
    draw = np.random.default_rng(seed)
    moving, fixed = eqx.partition(model, eqx.is_inexact_array)
    noisy = jax.tree.map(lambda x: x + by * draw.normal(size=x.shape).astype(x.dtype), moving)
    return eqx.combine(noisy, fixed)


def linear(layer, x):
    weight, bias = map(np.asarray, (layer.weight, layer.bias))
    return np.array([np.dot(row, x) for row in weight]) + bias


def layer_norm(norm, x):
    mean = sum(x) / len(x)
    variance = sum((x - mean) ** 2) / len(x)
    gain, bias = map(np.asarray, (norm.gain, norm.bias))
    return (x - mean) / math.sqrt(variance + 1e-12) * gain + bias


def softmax(scores):
    powers = [math.exp(score - max(scores)) for score in scores]
    return np.array(powers) / sum(powers)


def transformer_layer(layer, vectors):
    """New vectors of all nodes, and the weights [head][from node][to node]."""
    size = len(vectors[0])
    width = size // layer.heads
    q, k, v = (
        [linear(layer.qkv, x)[part * size : (part + 1) * size] for x in vectors]
        for part in range(3)
    )
    weights, out = np.zeros((layer.heads, len(vectors), len(vectors))), []
    for i, x in enumerate(vectors):
        mixed = np.zeros(size)
        for head in range(layer.heads):
            own = slice(head * width, (head + 1) * width)
            scores = [np.dot(q[i][own], key[own]) / math.sqrt(width) for key in k]
            weights[head, i] = softmax(scores)
            mixed[own] = sum(w * value[own] for w, value in zip(weights[head, i], v, strict=True))
        x = layer_norm(layer.attention_norm, x + linear(layer.mix, mixed))
        hidden = np.maximum(linear(layer.widen, x), 0)
        out.append(layer_norm(layer.feedforward_norm, x + linear(layer.narrow, hidden)))
    return out, weights


def transformer(model, vectors):
    """The Core's output and its attention [layer][head][node]; all nodes in all layers."""
    attention = []
    for layer in model.layers:
        vectors, weights = transformer_layer(layer, vectors)
        attention.append(weights[:, 0])
    return vectors[0], np.array(attention)


def actor_critic(heads, x):
    actor = np.maximum(linear(heads.actor_hidden, x), 0)
    critic = np.maximum(linear(heads.critic_hidden or heads.actor_hidden, x), 0)
    return linear(heads.policy, actor), linear(heads.value, critic)[0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru_cell(cell, x, h):
    """The equations in PyTorch's documentation of GRUCell."""
    w_ir, w_iz, w_in = np.split(np.asarray(cell.inputs.weight), 3)
    b_ir, b_iz, b_in = np.split(np.asarray(cell.inputs.bias), 3)
    w_hr, w_hz, w_hn = np.split(np.asarray(cell.hidden.weight), 3)
    b_hr, b_hz, b_hn = np.split(np.asarray(cell.hidden.bias), 3)
    r = sigmoid(w_ir @ x + b_ir + w_hr @ h + b_hr)
    z = sigmoid(w_iz @ x + b_iz + w_hz @ h + b_hz)
    n = np.tanh(w_in @ x + b_in + r * (w_hn @ h + b_hn))
    return (1 - z) * n + z * h


def lstm_cell(cell, x, h, c):
    """The equations in PyTorch's documentation of LSTMCell."""
    w_ii, w_if, w_ig, w_io = np.split(np.asarray(cell.inputs.weight), 4)
    b_ii, b_if, b_ig, b_io = np.split(np.asarray(cell.inputs.bias), 4)
    w_hi, w_hf, w_hg, w_ho = np.split(np.asarray(cell.hidden.weight), 4)
    b_hi, b_hf, b_hg, b_ho = np.split(np.asarray(cell.hidden.bias), 4)
    i = sigmoid(w_ii @ x + b_ii + w_hi @ h + b_hi)
    f = sigmoid(w_if @ x + b_if + w_hf @ h + b_hf)
    g = np.tanh(w_ig @ x + b_ig + w_hg @ h + b_hg)
    o = sigmoid(w_io @ x + b_io + w_ho @ h + b_ho)
    c = f * c + i * g
    return o * np.tanh(c), c


def path_length(links: Iterable[tuple[int, int]], start: int, end: int) -> int:
    """Links on the way from start to end, breadth first; 0 where there is no way."""
    links, seen, border, length = list(links), {start}, {start}, 0
    while border:
        length += 1
        border = {b for a, b in links if a in border} - seen
        if end in border:
            return length
        seen |= border
    return 0


def chi_square(counts, expected) -> float:
    return sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True))


def chi_square_limit(freedom: int) -> float:
    """What chi-square exceeds once in 30,000 draws (Wilson and Hilferty, z = 4)."""
    part = 2 / (9 * freedom)
    return freedom * (1 - part + 4 * math.sqrt(part)) ** 3
