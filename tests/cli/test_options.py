"""Options of the command line, read from dataclasses."""

import dataclasses
import pathlib
from typing import Literal

import pytest

from wmg import config, paper
from wmg.cli.options import UNPREFIXED, parse, texts_of, whole
from wmg.cli.train import TrainOptions


@dataclasses.dataclass(frozen=True)
class Inner:
    """The inner settings."""

    low: int = 1
    high: int = 2
    """At least 100% of `low`."""

    def __post_init__(self):
        if self.low > self.high:
            raise config.BadInput("low must be at most high")


@dataclasses.dataclass(frozen=True)
class Other:
    """Settings that a test may have in place of `Inner`."""

    wide: float = 0.5


@dataclasses.dataclass(frozen=True)
class Example:
    """What a command may ask for."""

    inner: Inner | Other
    flat: Inner = dataclasses.field(metadata=UNPREFIXED)
    needed: str
    some_words: tuple[str, ...] = ("a",)
    pair: tuple[float, float] = (0.0, 1.0)
    """Two
    numbers."""
    from_: pathlib.Path | None = None
    limit: int | None = 3
    groups: tuple[int, ...] | None = None
    either: Literal["this one", "that"] | None = None
    fast: bool = True


def read(*args, inner=Inner()):
    return parse(Example, [*args, "--needed=x"], "wmg example", inner=inner, flat=Inner(0, 9))


START = Example(Inner(), Inner(0, 9), "x")


@pytest.mark.parametrize(
    "args, changed",
    [
        ([], {}),
        (["--some-words"], {"some_words": ()}),
        (["--some_words", "b", "c"], {"some_words": ("b", "c")}),
        (["--some-words=a_b"], {"some_words": ("a_b",)}),
        (["--pair", "-1", "-.5"], {"pair": (-1.0, -0.5)}),
        (["--pair", "-1e-05", "-2E3"], {"pair": (-1e-05, -2000.0)}),
        (["--from", "a/b"], {"from_": pathlib.Path("a/b")}),
        (["--from=--x=y"], {"from_": pathlib.Path("--x=y")}),
        (["--limit", "-1"], {"limit": -1}),
        (["--limit", "None"], {"limit": None}),
        (["--groups", "1", "2"], {"groups": (1, 2)}),
        (["--groups=None"], {"groups": None}),
        (["--either", "this one"], {"either": "this one"}),
        (["--no-fast"], {"fast": False}),
        (["--fast"], {"fast": True}),
        (["--low=3"], {"flat": Inner(3, 9)}),
        (["--inner.low=3", "--inner.high=4"], {"inner": Inner(3, 4)}),
        (["--inner.high=4", "--low=1"], {"inner": Inner(1, 4), "flat": Inner(1, 9)}),
    ],
    ids=str,
)
def test_options_change_the_fields_they_name_and_no_others(args, changed):
    assert read(*args) == dataclasses.replace(START, **changed)


@pytest.mark.parametrize(
    "args, sentence",
    [
        (["--inner.low=3"], "low must be at most high"),
        (["--inner.wide=1"], "there is no option --inner.wide; did you mean --inner.low?"),
        (["--inner", "1"], "there is no option --inner; did you mean --inner.low?"),
        (["--lim=1"], "there is no option --lim; did you mean --limit?"),
        (["--pair", "1"], "--pair needs 2 values"),
        (["--pair", "1", "2", "3"], "'3' belongs to no option; --help lists them all"),
        (["--pair", "1", "x"], "--pair must be 2 numbers, got 'x'"),
        (["--groups", "1", "x"], "--groups must be a whole number, got 'x'"),
        (["--either", "other"], "--either must be one of 'this one', 'that', got 'other'"),
        (["--limit="], "--limit must be a whole number, got ''"),
        (["--limit=a\nb"], r"--limit must be a whole number, got 'a\nb'"),
        (["--limit=1", "--limit=1"], "--limit is given twice"),
        (["--fast=yes"], "--fast takes no value"),
        (["-x"], "there is no option -x; --help lists them all"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_sentence(args, sentence):
    with pytest.raises(config.BadInput) as error:
        read(*args)
    assert str(error.value) == sentence


def test_a_field_has_the_options_of_the_dataclass_that_it_holds():
    assert read("--inner.wide=1", inner=Other()).inner == Other(1.0)
    with pytest.raises(config.BadInput, match=r"there is no option --inner\.low"):
        read("--inner.low=1", inner=Other())


def test_an_option_without_default_must_be_given():
    with pytest.raises(config.BadInput, match="--needed is missing; --help describes it"):
        parse(Example, [], "wmg example", inner=Inner(), flat=Inner())


HELP = """\
usage: wmg example [OPTIONS]

What a command may ask for.

options:
  -h, --help                show this help message and exit
  --low INT                 (default: 0)
  --high INT                At least 100% of `low`. (default: 9)
  --needed STR              (required)
  --some-words [STR ...]    (default: a)
  --pair FLOAT FLOAT        Two numbers. (default: 0.0 1.0)
  --from PATH
  --limit INT               (default: 3)
  --groups [INT ...]
  --either {this one,that}
  --fast, --no-fast         (default: True)

inner options:
  The inner settings.

  --inner.low INT           (default: 1)
  --inner.high INT          At least 100% of `low`. (default: 2)
"""


def test_help_shows_every_option_with_its_text_and_default(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as end:
        read("--help")
    assert not end.value.code and capsys.readouterr().out == HELP


@dataclasses.dataclass(frozen=True)
class Higher(Inner):
    """Inner settings with another default."""

    low: int = 2
    """The least."""


def test_help_has_the_texts_of_fields_that_are_inherited():
    assert texts_of(Higher) == {"low": "The least.", "high": "At least 100% of `low`."}


def as_args(settings, prefix="--"):
    for field in dataclasses.fields(settings):
        value, flag = getattr(settings, field.name), prefix + field.name.replace("_", "-")
        if dataclasses.is_dataclass(value):
            yield from as_args(value, f"{flag}.")
        elif isinstance(value, bool):
            yield flag if value else f"{prefix}no-{field.name.replace('_', '-')}"
        else:
            yield from [flag, *map(str, value if isinstance(value, tuple) else [value])]


@pytest.mark.parametrize("preset", paper.PRESETS)
def test_a_preset_written_as_options_is_read_back(preset):
    wanted = paper.find_preset(preset)
    wanted = dataclasses.replace(wanted, goal=wanted.goal or config.Goal())
    blank = config.Config(type(wanted.env)(), type(wanted.agent)(), goal=config.Goal())
    assert parse(TrainOptions, list(as_args(wanted)), "wmg train", config=blank) == TrainOptions(
        wanted
    )


@pytest.mark.parametrize(("word", "number"), [("1e6", 1_000_000), ("25e3", 25_000), ("7", 7)])
def test_whole_numbers_may_be_written_with_an_exponent(word, number):
    assert whole(word) == number


@pytest.mark.parametrize("word", ["1.5e1", "1e-3", "e6", "1e", "1e400"])
def test_other_words_are_no_whole_numbers(word):
    with pytest.raises(ValueError):
        whole(word)
