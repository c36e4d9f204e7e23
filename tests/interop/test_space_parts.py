"""What parts of Gymnasium's observations become, number by number."""

import numpy as np
import pytest
from gymnasium import spaces

from wmg.interop.spaces import map_spaces
from wmg.tools.errors import BadInput

TWO = spaces.Discrete(2)


def mapped(space, action=TWO, **given):
    return map_spaces(space, action, **given)


@pytest.mark.parametrize(
    ("low", "high", "value", "shown"),
    [
        (0, 255, 51, 0.2),
        (-4, 2, 1, 0.25),
        (-0.07, 0.07, 0.035, 0.5),
        (990, 1010, 1005, 0.5),
        (-np.inf, np.inf, 37, 37),
        (0, np.inf, 37, 37),
        (-3e38, 3e38, 37, 37),
        (5, 5, 5, 0),
        (0, 0, 0, 0),
    ],
)
def test_numbers_are_scaled_by_their_bounds(low, high, value, shown):
    space = spaces.Box(np.array([low], np.float32), np.array([high], np.float32))
    assert mapped(space).observe(np.array([value], np.float32)).core == pytest.approx([shown])


def test_pictures_are_images_of_fractions_with_channels_last():
    rng = np.random.default_rng(0)
    for shape, size in [
        ((56, 48, 3), (56, 48, 3)),
        ((4, 84, 84), (84, 84, 4)),
        ((84, 80), (84, 80, 1)),
    ]:
        space = spaces.Box(0, 255, shape, np.uint8)
        mapping, seen = mapped(space), rng.integers(0, 256, shape, dtype=np.uint8)
        got = mapping.observe(seen).image
        assert mapping.observation.image == size == got.shape and got.dtype == np.float32
        moved = np.moveaxis(seen, 0, -1) if shape[0] == 4 else seen
        np.testing.assert_allclose(np.asarray(got), moved.reshape(size) / 255, rtol=1e-6)
        assert mapping.observe_all(seen[None]).image.shape == (1, *size)


def test_texts_are_encoded_by_the_users_encoder():
    space = spaces.Dict({"a": TWO, "text": spaces.Text(20)})
    mapping = mapped(space, text=lambda text: np.array([len(text), text.count("e")]))
    assert mapping.observe({"a": 0, "text": "here we"}).core.tolist() == [1, 0, 7, 3]
    uneven = mapped(space, text=lambda text: np.zeros(len(text)))
    with pytest.raises(BadInput, match="must always return 2 numbers"):
        uneven.observe({"a": 0, "text": "long"})


def test_texts_without_an_encoder_differ_by_words_and_their_order():
    mapping = mapped(spaces.Text(50))
    said = {
        text: mapping.observe(text).core
        for text in ("put the red ball by the box", "put the box by the red ball", "a key", "")
    }
    assert len({vector.tobytes() for vector in said.values()}) == 4
    again = mapped(spaces.Text(50)).observe("put the red ball by the box").core
    np.testing.assert_array_equal(again, said["put the red ball by the box"])
    assert all(np.abs(vector).max() <= 4 for vector in said.values())
