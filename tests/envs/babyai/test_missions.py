"""The sentences of BabyAI, to and fro."""

import itertools

import numpy as np
import pytest

from wmg.envs.babyai import missions
from wmg.envs.babyai.missions import Compound, Description, Mission, parse
from wmg.envs.babyai.vocabulary import COLOURS

PLACES = ("on your left", "on your right", "in front of you", "behind you")
MOVABLE = ("key", "ball", "box")

GO_TO_LOCAL = [
    f"go to {article} {colour} {type}"
    for article, colour, type in itertools.product(("the", "a"), COLOURS, MOVABLE)
]
PICKUP_LOC = [
    " ".join(f"pick up {article} {colour} {type} {place}".split())
    for article, colour, type, place in itertools.product(
        ("the", "a"), ("", *COLOURS), MOVABLE, ("", *PLACES)
    )
]
PUT_NEXT = [
    f"put {one} {moved} next to {other} {fixed}"
    for one, other, moved, fixed in itertools.product(
        ("the", "a"),
        ("the grey", "a", "the purple"),
        ("red ball", "box", "key behind you", "blue object"),
        ("door", "box on your left", "key", "object"),
    )
]
OPEN = ["open the door", "open a grey door", "open the red door on your right"]
OTHERS = ["go to the object", "pick up a red object", "go to a door in front of you"]
FAMILIES = {
    "GoToLocal": (GO_TO_LOCAL, 36),
    "PickupLoc": (PICKUP_LOC, 210),
    "PutNext": (PUT_NEXT, 96),
    "the others": (OPEN + OTHERS, 6),
}
EACH_FAMILY = pytest.mark.parametrize("name", FAMILIES)


@EACH_FAMILY
def test_a_sentence_is_read_and_said_again(name):
    texts, count = FAMILIES[name]
    assert len(set(texts)) == count
    assert [str(parse(text)) for text in texts] == texts


@EACH_FAMILY
def test_numbers_tell_the_mission(name):
    texts, count = FAMILIES[name]
    vectors = [missions.encode(parse(text)) for text in texts]
    assert len({vector.tobytes() for vector in vectors}) == count
    assert [str(missions.decode(vector)) for vector in vectors] == texts


def test_each_number_has_its_place():
    vector = missions.encode(parse("put a yellow ball next to the key on your left"))
    assert vector.shape == (36,) and vector.dtype == np.float32
    # Verb 4, then twice: article 2, colour 6, type 4, location 4.
    assert np.flatnonzero(vector).tolist() == [2, 4 + 1, 4 + 2 + 4, 4 + 8 + 2, 20, 20 + 8 + 1, 34]


def test_a_thing_of_any_type_has_no_type_among_its_numbers():
    assert missions.encode(parse("go to the object")).sum() == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "go to the pink ball",
        "go to red ball",
        "Go to the red ball",
        "go to the red ball ",
        "go  to the red ball",
        "go to the ball red",
        "go to the wall",
        "go to the ball on your back",
        "fetch the red ball",
        "go to the red ball next to the key",
        "put the red ball",
        "put the door next to the key",
        "pick up the door",
        "open the box",
        "open the object",
        "go to the red ball and go to the key",
        "open the door, then open the red door",
    ],
)
def test_a_sentence_that_is_not_one_clause_of_the_grammar_is_refused_in_one_sentence(text):
    with pytest.raises(ValueError) as error:
        parse(text)
    assert repr(text) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({0: 1, 1: 1}, "verb of a mission must be a one-hot"),
        ({0: 0}, "verb of a mission must be one of"),
        ({0: 0.5}, "verb of a mission must be a one-hot"),
        ({4: 0}, "article of a mission must be one of"),
        ({6: 1, 7: 1}, "colour of a mission must be a one-hot"),
        ({20: 1}, "second thing"),
        ({4: 0, 6: 0, 14: 0}, "must name a thing"),
    ],
)
def test_numbers_that_are_no_mission_are_refused(change, reason):
    vector = missions.encode(parse("go to the red ball"))
    for place, value in change.items():
        vector[place] = value
    with pytest.raises(ValueError, match=reason):
        missions.decode(vector)


def test_numbers_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"36 numbers, got shape \(35,\)"):
        missions.decode(np.zeros(35, np.float32))


@pytest.mark.parametrize(
    ("word", "changed"),
    [
        ("type", {"type": "wall"}),
        ("article", {"article": "an"}),
        ("colour", {"colour": "pink"}),
        ("location", {"location": "on your left"}),
    ],
)
def test_words_that_do_not_exist_are_refused(word, changed):
    with pytest.raises(ValueError, match=f"the {word} of a mission must be one of"):
        Description(**{"type": "ball", "article": "the", **changed})
    with pytest.raises(ValueError, match="the verb of a mission must be one of"):
        Mission("fly", Description("ball", "the"))


A, B, C, D = (parse(f"go to the {colour} ball") for colour in ("red", "green", "blue", "grey"))
COMPOUNDS = [
    ("go to the red ball", Compound((A,))),
    ("go to the red ball and go to the green ball", Compound((A, B))),
    ("go to the red ball, then go to the green ball", Compound((A,), (B,))),
    ("go to the green ball after you go to the red ball", Compound((A,), (B,))),
    (
        f"{C} and {D} after you {A} and {B}",
        Compound((A, B), (C, D)),
    ),
    (f"{A} and {B}, then {C}", Compound((A, B), (C,))),
]


@pytest.mark.parametrize(("text", "meaning"), COMPOUNDS)
def test_a_compound_mission_is_its_clauses_in_the_order_they_must_be_done(text, meaning):
    assert missions.parse_compound(text) == meaning
    assert missions.parse_compound(str(meaning)) == meaning


@pytest.mark.parametrize("meaning", [meaning for _, meaning in COMPOUNDS])
def test_rows_tell_the_compound_mission(meaning):
    rows, present = missions.encode_compound(meaning)
    assert missions.decode_compound(rows, present) == meaning
    assert present.sum() == len(meaning.clauses) and not rows[~present].any()


def test_a_row_is_a_clause_and_its_stage():
    rows, present = missions.encode_compound(Compound((A, B), (C,)))
    assert rows.shape == (4, 38) and present.tolist() == [True, True, True, False]
    for row, clause in zip(rows, (A, B, C), strict=False):
        assert (row[:36] == missions.encode(clause)).all()
    assert rows[:, 36:].tolist() == [[1, 0], [1, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize(
    "text",
    [
        f"{A} and {B} and {C}",
        f"{A}, then {B}, then {C}",
        f"{A} after you {B} after you {C}",
        f"{A}, then {B} after you {C}",
        f"{A}, then go to the pink ball",
        f"{A} and ",
        f"{A} then {B}",
    ],
)
def test_a_sentence_that_joins_clauses_in_another_way_is_refused_in_one_sentence(text):
    with pytest.raises(ValueError) as error:
        missions.parse_compound(text)
    assert repr(text) in str(error.value) and "\n" not in str(error.value)
