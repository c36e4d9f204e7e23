"""The format of recordings: what is packed comes back, and the page is told how."""

import json
import pathlib
import re

import jax
import numpy as np
import pytest

from wmg.viewer import recording
from wmg.viewer.recording import Episode, RecordedStep, Thought

PAGE = pathlib.Path(recording.__file__).parent / "page"
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "viewer.md"


def some_attention(layers=3, heads=2, nodes=50):
    logits = 3 * jax.random.normal(jax.random.key(0), (layers, heads, nodes))
    return np.asarray(jax.nn.softmax(logits, axis=-1))


def some_file(precision="float32"):
    present = np.arange(50) < 40
    thought = Thought(np.array([0.25, 0.75]), 1.5, 1, some_attention(), present, (3,))
    steps = [
        RecordedStep({"says": "<b>"}, thought, 1, True, 1.0),
        RecordedStep({}, None, end="solved"),
    ]
    return recording.to_json({"title": "t"}, [Episode(7, "seed 7", [steps])], precision)


def test_exact_attention_comes_back_bit_for_bit():
    attention = some_attention()
    text = recording.pack(attention, "float32")
    assert (recording.unpack(text, attention.shape, "float32") == attention).all()


def test_attention_in_8_bits_is_off_by_half_a_255th_of_the_squares_side():
    attention = some_attention()
    text = recording.pack(attention, "sqrt8")
    assert len(text) == attention.size
    back = recording.unpack(text, attention.shape, "sqrt8")
    assert np.abs(np.sqrt(back) - np.sqrt(attention)).max() <= 0.5 / 255 + 1e-6


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_none_and_all_of_the_attention_are_exact_in_8_bits(value):
    attention = np.full((1, 1, 1), value, np.float32)
    assert recording.unpack(recording.pack(attention, "sqrt8"), (1, 1, 1), "sqrt8") == value


def test_shares_are_those_the_paper_draws():
    """Summed over all heads and all layers above the lowest, of 4 rows that sum to 1."""
    attention = some_attention()
    plain = [sum(attention[la, h, n] for la in (1, 2) for h in (0, 1)) for n in range(50)]
    np.testing.assert_allclose(4 * recording.shares(attention), plain, rtol=1e-5)
    assert np.isclose(recording.shares(attention).sum(), 1)


def test_a_single_layer_is_counted_though_it_is_the_lowest():
    attention = some_attention(layers=1)
    np.testing.assert_allclose(recording.shares(attention), attention[0].mean(0), rtol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "sqrt8"])
def test_a_file_is_json_and_says_its_format(precision):
    file = json.loads(json.dumps(some_file(precision)))
    assert (file["format"], file["version"]) == (recording.FORMAT, recording.VERSION)
    first, last = file["episodes"][0]["tracks"][0]
    assert first["thought"]["present"] == "1" * 40 + "0" * 10
    assert first["action"] == 1 and first["human"] and last["thought"] is None
    stored = recording.unpack(first["thought"]["attention"], (3, 2, 50), file["attention"])
    assert np.abs(stored - some_attention()).max() < 0.004


def test_the_page_reads_the_format_that_is_written():
    text = (PAGE / "episodes.js").read_text()
    assert f'const FORMAT = "{recording.FORMAT}";' in text
    assert f"const VERSION = {recording.VERSION};" in text
    assert f"const FIRST_CHARACTER = {recording.FIRST_CHARACTER};" in text


def keys_of(data):
    if isinstance(data, dict):
        yield from data
        data = list(data.values())
    for item in data if isinstance(data, list) else ():
        yield from keys_of(item)


def test_the_docs_describe_every_field():
    described = set(re.findall(r"`(\w+)`", DOCS.read_text()))
    assert set(keys_of(some_file())) - described == set()
