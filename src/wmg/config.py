"""Every setting and every default, once.

Settings are of two kinds. Those of an environment or an agent, `t_max` and `batched` fix shapes: a
change compiles anew and cannot be made to a saved run. `Hyper` holds numbers: each run of a
batch may have its own. This file imports neither jax nor equinox, so that commands start
quickly.
"""

import dataclasses
import json
import sys
import types
import typing
from typing import Any, ClassVar, Literal, TypeVar

from wmg.tools import files

Settings = TypeVar("Settings")


class BadInput(Exception):
    """Something the user gave cannot be used; the message is one sentence that says why."""


NOT_JSON = (ValueError, RecursionError)
"""What reading JSON raises if it is none, is no text, or is longer or deeper than can be read."""


def _require(condition: bool, setting: str, value: object, wanted: str) -> None:
    if not condition:
        raise BadInput(f"{setting} must be {wanted}, got {value!r}")


def is_finite(value: object) -> bool:
    """Whether it is a number that a float can hold; integers may be too large for one."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _require_counts(settings: object, largest: int = 65_536, **least: int) -> None:
    for name, smallest in least.items():
        value = getattr(settings, name)
        fits = type(value) is int and smallest <= value <= largest
        _require(fits, name, value, f"a whole number from {smallest} to {largest:,}")


def _require_choices(settings: object) -> None:
    for name, kind in typing.get_type_hints(type(settings)).items():
        if typing.get_origin(kind) is Literal:
            options, value = typing.get_args(kind), getattr(settings, name)
            _require(value in options, name, value, f"one of {', '.join(map(repr, options))}")


@dataclasses.dataclass(frozen=True)
class Pathfinding:
    """The Pathfinding environment."""

    name: ClassVar[str] = "pathfinding"

    nodes: int = 7
    """Size of the finished graph; an episode has 2 * (nodes - 1) steps."""
    pattern: int = 7
    """How many numbers make a node's pattern."""

    def __post_init__(self):
        _require_counts(self, largest=256, nodes=2, pattern=1)


@dataclasses.dataclass(frozen=True)
class BabyAI:
    """The five single-room BabyAI levels of the paper."""

    name: ClassVar[str] = "babyai"

    level: Literal[
        "GoToObj",
        "GoToRedBallGreyBoxes",
        "GoToRedBallGrey",
        "GoToRedBall",
        "GoToLocal",
        "PickupLoc",
    ] = "GoToObj"
    """GoToRedBallGreyBoxes is the paper's GoToRedBallGrey: today's has other grey things too."""
    observation: Literal["factored", "flat", "image", "flattened"] = "factored"
    """Core and Factors; one vector of the whole view; the 7x7x3 image and a vector; or the
    Factors padded and appended to the Core."""
    reward: Literal["binary", "minigrid"] = "binary"
    """1 for success, or less the longer it took, as minigrid pays."""

    def __post_init__(self):
        _require_choices(self)


@dataclasses.dataclass(frozen=True)
class Sokoban:
    """Sokoban, on Boxoban's levels, those that come with the package, or your own."""

    name: ClassVar[str] = "sokoban"

    levels: str = "train"
    """train, valid or test (Boxoban's if imported, else those of the package), the name of a bank
    (wmg data list shows them), or a text file."""
    observation: Literal["factored", "planes", "rgb"] = "factored"
    """Core and Factors; or an image of the board, 4 planes or 3 colours, and a vector."""
    bound: int = 10
    """Largest height and width of a board; a model fits the bound it was trained with."""
    cells: int | None = None
    """Room for so many cells that are not walls (default: all of a board but its border). Fewer are
    faster: Boxoban's levels have up to 57."""
    max_steps: int = 120
    rewards: tuple[float, float, float, float] = (0.0, 1.0, -1.0, 2.0)
    """In every step, for a box onto a target, for a box off a target, and when solved."""

    def __post_init__(self):
        _require_choices(self)
        _require(
            isinstance(self.levels, str), "levels", self.levels, "the name of a bank or a file"
        )
        _require_counts(self, largest=64, bound=4)
        _require_counts(self, max_steps=1)
        if self.cells is not None:
            _require_counts(self, largest=(self.bound - 2) ** 2, cells=1)
        finite = [type(x) in (int, float) and is_finite(x) for x in self.rewards]
        _require(finite == [True] * 4, "rewards", self.rewards, "four finite numbers")


@dataclasses.dataclass(frozen=True)
class WMG:
    """The Working Memory Graph agent, and its non-recurrent form (nr-WMG)."""

    name: ClassVar[str] = "wmg"

    memory: Literal["memos", "observations", "none"] = "memos"
    """What is kept: Memos (WMG), past observations (nr-WMG), or nothing."""
    slots: int = 16
    """How many Memos or past observations are kept."""
    memo_size: int = 128
    layers: int = 4
    heads: int = 6
    head_size: int = 12
    hidden: int = 12
    """Width of each Transformer layer's feed-forward block."""
    actor_critic: int = 128
    """Width of the hidden layer of policy and value."""
    shared_heads: bool = False
    """Whether policy and value share that layer, as in the paper's equations (and Sokoban)."""
    start: Literal["full", "empty"] = "full"
    """Whether memory starts full of zeros or (Sokoban) empty."""
    age: Literal["concatenated", "added"] = "concatenated"
    """Whether a one-hot age is part of the memory vector or (Sokoban) embedded apart."""

    def __post_init__(self):
        _require_choices(self)
        _require_counts(self, largest=256, layers=1)
        _require_counts(self, slots=0, memo_size=0, heads=1, head_size=1)
        _require_counts(self, hidden=1, actor_critic=1)
        if self.memory != "none":
            _require(self.slots > 0, "slots", self.slots, f"positive for memory={self.memory}")
        if self.memory == "memos":
            _require(self.memo_size > 0, "memo_size", self.memo_size, "positive for Memos")


@dataclasses.dataclass(frozen=True)
class GRU:
    """The gated recurrent baseline."""

    name: ClassVar[str] = "gru"

    embedding: int = 256
    """Size of the linear embedding of the observation."""
    size: int = 384
    """Size of the recurrent state."""
    actor_critic: int = 512
    """Width of the hidden layers of policy and value."""

    def __post_init__(self):
        _require_counts(self, embedding=1, size=1, actor_critic=1)


@dataclasses.dataclass(frozen=True)
class CNNGRU:
    """The GRU baseline with a convolutional network for the image."""

    name: ClassVar[str] = "cnn-gru"

    channels: tuple[int, int, int] = (16, 40, 192)
    """Channels of the three convolutions."""
    embedding: int = 512
    """Size of the linear embedding of the vector beside the image."""
    size: int = 96
    """Size of the recurrent state."""
    actor_critic: int = 512
    """Width of the hidden layers of policy and value."""

    def __post_init__(self):
        _require_counts(self, embedding=1, size=1, actor_critic=1)
        fit = [type(number) is int and 1 <= number <= 4096 for number in self.channels]
        _require(
            fit == [True] * 3, "channels", self.channels, "three whole numbers from 1 to 4,096"
        )


@dataclasses.dataclass(frozen=True)
class Depth:
    """The hand-coded Pathfinding baseline: perfect memory, paths up to a given length."""

    name: ClassVar[str] = "depth"

    depth: int = 1
    """The longest path it can follow."""
    nodes: int = 7
    """How many nodes it can remember."""

    def __post_init__(self):
        _require_counts(self, largest=256, depth=1, nodes=2)


@dataclasses.dataclass(frozen=True)
class Random:
    """An agent that acts uniformly at random."""

    name: ClassVar[str] = "random"


Env = Pathfinding | BabyAI | Sokoban
Baseline = Depth | Random
"""Agents that do not learn; they play any environment they can."""
Agent = WMG | GRU | CNNGRU | Baseline


@dataclasses.dataclass(frozen=True)
class Hyper:
    """Numbers of the learning rule. Each run may have its own, without compiling anew."""

    learning_rate: float = 1.6e-4
    discount: float = 0.5
    entropy: float = 0.01
    """Strength of the entropy bonus."""
    adam_eps: float = 1e-6
    grad_clip: float = 16.0
    """Largest global norm of the gradient."""
    reward_scale: float = 2.0
    """Rewards are multiplied by this for learning; reported rewards never are."""
    anneal: float = 1.0
    """The learning rate is multiplied by this at every `anneal_every` steps..."""
    anneal_every: float = 100_000.0
    anneal_after: float = 0.0
    """...that lie after this step."""

    def check(self) -> None:
        """Refuse numbers that make no sense. Not in `__post_init__`: arrays live here too."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            fits = is_finite(value) and value >= 0
            _require(fits, field.name, value, "a finite number, not negative")
        _require(self.discount <= 1, "discount", self.discount, "at most 1")
        for name in ("learning_rate", "grad_clip", "anneal_every"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "positive")


@dataclasses.dataclass(frozen=True)
class Goal:
    """The paper's sample-efficiency protocol: each run is tested at every report and stops as
    soon as it solves a share of fresh episodes."""

    success: float = 0.99
    """The share of episodes that must be solved."""
    episodes: int = 10_000
    """Fresh episodes of one test; it ends early once the share is all but out of reach."""
    grids: tuple[int, ...] = ()
    """Coarser test intervals, in steps: a run goes on until it also passes a test on each of these
    grids, so that reports can say what it would have needed with fewer tests."""

    def __post_init__(self):
        fits = type(self.success) in (int, float) and 0 < self.success <= 1
        _require(fits, "success", self.success, "a number above 0 and at most 1")
        _require_counts(self, largest=1_000_000, episodes=1)


@dataclasses.dataclass(frozen=True)
class Batched:
    """One run in many environments at once, which act together and learn together."""

    envs: int = 1
    """How many environments; 1 is the paper's A3C, where each window makes one update."""
    windows: int = 1
    """Windows of t_max steps in a round: returns look to its end, gradients to that of a window."""
    passes: int = 1
    """How often the steps of a round are learned from."""
    minibatches: int = 1
    """In how many updates they are learned from in one pass; each takes that share of memory."""
    clip: float = 0.2
    """By how much one round may change an action's probability, as a ratio (PPO)."""
    trace: float = 1.0
    """How far returns look ahead: 1 to the end of the round, 0 to the next value (GAE)."""
    normalise: bool = False
    """Whether advantages are scaled to mean 0 and variance 1 over a round."""

    @property
    def updates(self) -> int:
        """Updates of one round."""
        return self.passes * self.minibatches

    @property
    def lanes(self) -> int:
        """Windows of all environments in a round, which are learned from side by side."""
        return self.windows * self.envs

    def __post_init__(self):
        _require_choices(self)
        _require_counts(self, largest=1_000_000, envs=1, windows=1, passes=1, minibatches=1)
        even = self.lanes % self.minibatches == 0
        _require(
            even, "minibatches", self.minibatches, f"a divisor of envs x windows = {self.lanes}"
        )
        for name in ("clip", "trace"):
            value = getattr(self, name)
            fits = type(value) in (int, float) and 0 <= value <= 1
            _require(fits, name, value, "a number from 0 to 1")
        unused = [
            field.name
            for field in dataclasses.fields(self)
            if self.envs == 1 and getattr(self, field.name) != field.default
        ]
        _require(not unused, "envs", 1, f"more than 1 where {' and '.join(unused)} are given")


Precision = Literal["float32", "tf32", "bfloat16"]


@dataclasses.dataclass(frozen=True)
class Config:
    """One experiment: what is trained, on what, how, and for how long."""

    env: Env | None = dataclasses.field(default_factory=Pathfinding)
    """None for an environment of your own, which is given in Python."""
    agent: Agent = dataclasses.field(default_factory=WMG)
    hyper: Hyper = dataclasses.field(default_factory=Hyper)
    t_max: int = 16
    """Longest update window: gradients reach this many steps back."""
    batched: Batched = dataclasses.field(default_factory=Batched)
    precision: Precision = "float32"
    """Of matrix products; weights, loss and update are always float32. tf32: TF32 on GPUs that have
    it, else float32. bfloat16: the network uses bfloat16, heads use TF32; for batched.envs > 1."""
    steps: int = 20_000_000
    """Environment steps of each run."""
    report_every: int = 10_000
    """Steps between two points of the learning curve, and between two tests of a goal."""
    goal: Goal | None = None
    """Stop a run once it has learned this; `steps` is then the most it may take."""
    runs: int = 1
    """How many runs are trained at once."""
    seed: int = 0
    """Seed of the first run; run i has seed + i."""
    vary: tuple[str, ...] = ()
    """Numbers that differ between runs, one value per run: learning_rate=1e-4,1.6e-4"""

    def __post_init__(self):
        _require_counts(self, largest=2_000_000_000, steps=1, report_every=1, seed=0)
        _require_counts(self, largest=4096, t_max=1)
        _require_counts(self, largest=100_000, runs=1)
        _require_choices(self)
        for hyper in {self.hyper, *self.hypers()}:
            hyper.check()
        if self.precision == "bfloat16":
            _require(self.batched.envs > 1, "batched.envs", 1, "more than 1 for bfloat16")
        if self.goal is not None and self.goal.grids:
            self._check_grids(self.goal.grids)

    def _check_grids(self, grids: tuple[int, ...]) -> None:
        every = self.report_every
        fit = [type(grid) is int and grid > every and grid % every == 0 for grid in grids]
        _require(all(fit), "goal.grids", grids, f"multiples of report_every = {every:,}")
        _require(self.t_max <= every, "t_max", self.t_max, f"at most report_every = {every:,}")

    def hypers(self) -> list[Hyper]:
        """The numbers of each run."""
        varied = dict(_parse_varied(item, self.runs) for item in self.vary)
        _require(len(varied) == len(self.vary), "vary", self.vary, "different numbers, each once")
        return [
            dataclasses.replace(self.hyper, **{name: values[i] for name, values in varied.items()})
            for i in range(self.runs)
        ]


def _parse_varied(item: str, runs: int) -> tuple[str, list[float]]:
    name, _, text = item.partition("=")
    _require(name in HYPER_NAMES, "vary", item, f"NAME=... with one of {', '.join(HYPER_NAMES)}")
    try:
        values = [float(value) for value in text.split(",")]
    except ValueError:
        raise BadInput(f"vary must be {name}=NUMBER,NUMBER,..., got {item!r}") from None
    _require(len(values) == runs, "vary", item, f"a list of {runs} numbers, one per run")
    return name, values


HYPER_NAMES = tuple(field.name for field in dataclasses.fields(Hyper))


def to_dict(settings: Any) -> dict[str, Any]:
    """Settings as plain JSON data; environments and agents carry their name."""
    data = {f.name: _plain(getattr(settings, f.name)) for f in dataclasses.fields(settings)}
    name = getattr(type(settings), "name", None)
    return data if name is None else {"name": name, **data}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def from_dict(kind: type[Settings], data: Any, where: str = "config") -> Settings:
    """The settings in JSON data. What it does not have is as by default; anything unknown or of a
    wrong type is refused, and so is data without something that has no default."""
    if not isinstance(data, dict):
        raise BadInput(f"{where} must be a JSON object, got {data!r}")
    data = _upgrade(data) if kind is Config else dict(data)
    name = getattr(kind, "name", None)
    given = data.pop("name", name) if name is not None else None
    _require(given == name, f"{where}.name", given, repr(name))
    hints = typing.get_type_hints(kind)
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key in data:
        if key not in known:
            raise BadInput(f"{where} has no setting {key!r}; it has {', '.join(known)}")
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        needed = field.default is field.default_factory is dataclasses.MISSING
        if needed and field.name not in data:
            raise BadInput(f"{where} lacks {field.name}")
    return kind(**{key: _value(hints[key], v, f"{where}.{key}") for key, v in data.items()})


def _upgrade(data: dict[str, Any]) -> dict[str, Any]:
    """A config as this version writes it. Version 0.1 had `batched.precision`, whose float32 meant
    JAX's default: TF32 on GPUs that have it."""
    batched = data.get("batched")
    if not isinstance(batched, dict) or "precision" not in batched:
        return dict(data)
    old = batched["precision"]
    kept = {name: value for name, value in batched.items() if name != "precision"}
    return {"precision": "tf32" if old == "float32" else old, **data, "batched": kept}


def _value(kind: Any, value: Any, where: str) -> Any:
    """`value`, checked and converted to the annotated type `kind`."""
    origin, options = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        _require(value in options, where, value, f"one of {', '.join(map(repr, options))}")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        kinds = [option for option in options if option is not type(None)]
        if len(kinds) == 1:
            return _value(kinds[0], value, where)
        names = {kind.name: kind for kind in kinds}
        given = value.get("name") if isinstance(value, dict) else value
        known = isinstance(given, str) and given in names
        _require(known, where, given, f"one of {', '.join(names)}")
        return from_dict(names[given], value, where)
    if origin is tuple:
        _require(isinstance(value, list | tuple), where, value, "a list")
        if len(options) == 2 and options[1] is ...:
            options = (options[0],) * len(value)
        _require(len(options) == len(value), where, value, f"{len(options)} items")
        return tuple(_value(kind, v, where) for kind, v in zip(options, value, strict=True))
    if dataclasses.is_dataclass(kind):
        return from_dict(typing.cast(type, kind), value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        _require(is_finite(value), where, value, "a finite number")
        return float(value)
    wrong = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    _require(not wrong, where, value, f"of type {kind.__name__}")
    return value


def differences(one: Config, other: Config) -> list[tuple[str, Any, Any]]:
    """Settings that two configs do not share: name, as on the command line, and values."""
    old, new = _flat(to_dict(one)), _flat(to_dict(other))
    both = [(name, old.get(name), new.get(name)) for name in old | new]
    return [(name, a, b) for name, a, b in both if a != b]


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    flat = {}
    for name, value in data.items():
        inner = _flat(value) if isinstance(value, dict) else {"": value}
        flat |= {f"{name}.{key}".rstrip("."): item for key, item in inner.items()}
    return flat


def dumps(config: Config) -> str:
    """A config as JSON text."""
    return json.dumps(to_dict(config), indent=2)


def loads(text: str, where: str = "config") -> Config:
    """The config in JSON text."""
    try:
        data = files.parse_json(text)
    except NOT_JSON as error:
        raise BadInput(f"{where} is not JSON: {error}") from None
    return from_dict(Config, data, where)
