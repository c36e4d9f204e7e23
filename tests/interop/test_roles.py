"""The notation of roles."""

import json

import pytest

from wmg.interop import roles
from wmg.interop.roles import Role
from wmg.tools.errors import BadInput


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("core", Role("core")),
        ("core numbers=yes", Role("core", numbers=True)),
        ("factors presence=0 most=15", Role("factors", presence=0, most=15)),
        (" factors,order=no,  edges=ignore ", Role("factors", order=False, edges="ignore")),
        (
            "grid values=11/6/4 empty=0/1 terrain= most=49",
            Role("grid", values=(11, 6, 4), empty=(0, 1), terrain=(), most=49),
        ),
        ("ignore", Role("ignore")),
    ],
)
def test_a_role_is_a_word_and_options(text, role):
    assert roles.read_role(text, "x") == role


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vector", "role of 'x' must be one of core, factors, grid, image, ignore, got 'vector'"),
        ("", "must be one of"),
        (3, "must be one of"),
        ("core most=3", "unknown option 'most': core has numbers"),
        ("image most=3", "unknown option 'most': image has none"),
        ("factors most=0", "most in the role of 'x' must be a whole number above 0, got '0'"),
        ("factors presence=-1", "must be the number of a column, from 0 on, got '-1'"),
        ("factors order=maybe", "order in the role of 'x' must be yes or no, got 'maybe'"),
        ("factors edges=keep", "must be ignore, got 'keep'"),
        ("grid values=1,2", "unknown option '2'"),
        ("grid values=a", "for example 11/6/4, got 'a'"),
        ("factors most=3 most=4", "has the option most twice"),
    ],
)
def test_a_role_that_cannot_be_read_is_refused_in_one_sentence(text, said):
    with pytest.raises(BadInput) as error:
        roles.read_role(text, "x")
    assert said in str(error.value)


def test_roles_are_a_dictionary():
    with pytest.raises(BadInput, match="roles must be a dictionary"):
        roles.read_roles(["core"])
    assert roles.read_roles(None) == {}


def test_roles_on_the_command_line_are_those_in_json():
    words = ["vehicles=factors,presence=0", "a/b=grid values=2/3", "mission=ignore"]
    given = json.loads(
        '{"vehicles": "factors presence=0", "a/b": "grid values=2/3", "mission": "ignore"}'
    )
    assert roles.read_roles(roles.parse_roles(words)) == roles.read_roles(given)


def test_a_role_without_a_key_is_of_the_whole_observation():
    assert roles.parse_roles(["factors presence=0"]) == {"": "factors presence=0"}
    assert roles.parse_roles(["factors,presence=0"]) == {"": "factors,presence=0"}
    assert roles.parse_roles(["=core"]) == {"": "core"}


@pytest.mark.parametrize("words", [["a=core", "a=image"], ["a=frob"], ["frob"]])
def test_words_that_are_no_roles_are_refused(words):
    with pytest.raises(BadInput, match=r"twice|must be one of"):
        roles.parse_roles(words)
