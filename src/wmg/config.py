"""The settings of a run with their defaults, and configs as JSON.

Settings are of two kinds. Those of an environment or an agent (in their own folders), `t_max` and
`batched` fix shapes: a change recompiles and cannot be made to a saved run. `Hyper` holds
numbers: each run of a batch may have its own. This file imports neither jax nor equinox, so that
commands start quickly.
"""

import dataclasses
import types
import typing
from typing import Any, Literal, TypeVar

from wmg import registry
from wmg.settings import (
    AgentSettings,
    EnvSettings,
    is_finite,
    require,
    require_choices,
    require_counts,
)
from wmg.tools.errors import BadInput, quote

Settings = TypeVar("Settings")


@dataclasses.dataclass(frozen=True)
class Hyper:
    """Numbers of the learning rule. Each run may have its own, without recompiling."""

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
    """The learning rate is multiplied by this every `anneal_every` steps."""
    anneal_every: float = 100_000.0
    anneal_after: float = 0.0
    """Steps before annealing begins."""

    def check(self) -> None:
        """Refuse numbers that make no sense. Not in `__post_init__`: arrays live here too."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            fits = is_finite(value) and value >= 0
            require(fits, field.name, value, "a finite number, not negative")
        require(self.discount <= 1, "discount", self.discount, "at most 1")
        for name in ("learning_rate", "grad_clip", "anneal_every"):
            require(getattr(self, name) > 0, name, getattr(self, name), "positive")

    def unused(self) -> dict[str, str]:
        """Fields without effect, and why."""
        names = ("anneal_every", "anneal_after") if self.anneal == 1 else ()
        return dict.fromkeys(names, "anneal is 1, so the learning rate is constant")


@dataclasses.dataclass(frozen=True)
class Goal:
    """The paper's sample-efficiency protocol: each run is tested at every report and stops as
    soon as it solves a share of fresh episodes."""

    success: float = 0.99
    """The share of episodes that must be solved."""
    episodes: int = 10_000
    """Fresh episodes of one test; it ends early once the share is very unlikely to be reached."""
    grids: tuple[int, ...] = ()
    """Coarser test intervals, in steps: a run goes on until it also passes a test on each of these
    grids, so that reports can say what it would have needed with fewer tests."""

    def __post_init__(self):
        fits = type(self.success) in (int, float) and 0 < self.success <= 1
        require(fits, "success", self.success, "a number above 0 and at most 1")
        require_counts(self, largest=1_000_000, episodes=1)


@dataclasses.dataclass(frozen=True)
class Batched:
    """One run in many environments at once, which act together and learn together."""

    envs: int = 1
    """How many environments; 1 is the paper's A3C, where each window makes one update."""
    windows: int = 1
    """Windows of t_max steps in a round. Returns look to the end of the round, gradients to the
    end of a window."""
    passes: int = 1
    """How many times the steps of a round are learned from."""
    minibatches: int = 1
    """Updates of one pass, each from an equal share of the steps. More of them need less memory."""
    clip: float = 0.2
    """By how much one round may change an action's probability, as a ratio (PPO)."""
    clip_value: bool = False
    """Whether `clip` also holds for the value: a change beyond it does not lower the loss."""
    trace: float = 1.0
    """How far returns look ahead: 1 to the end of the round, 0 to the next value (GAE)."""
    normalise: bool = False
    """Whether advantages are scaled to mean 0 and variance 1 over a round."""

    @property
    def updates(self) -> int:
        """Updates of one round."""
        return self.passes * self.minibatches

    @property
    def all_windows(self) -> int:
        """Windows of all environments in a round."""
        return self.windows * self.envs

    def __post_init__(self):
        require_choices(self)
        require_counts(self, largest=1_000_000, envs=1, windows=1, passes=1, minibatches=1)
        even = self.all_windows % self.minibatches == 0
        require(
            even,
            "minibatches",
            self.minibatches,
            f"a divisor of envs x windows = {self.all_windows}",
        )
        for name in ("clip", "trace"):
            value = getattr(self, name)
            fits = type(value) in (int, float) and 0 <= value <= 1
            require(fits, name, value, "a number from 0 to 1")
        unused = [
            field.name
            for field in dataclasses.fields(self)
            if self.envs == 1 and getattr(self, field.name) != field.default
        ]
        require(not unused, "envs", 1, f"more than 1 where {' and '.join(unused)} are given")


Precision = Literal["float32", "tf32", "bfloat16"]


@dataclasses.dataclass(frozen=True)
class Config:
    """One experiment: what is trained, on what, how, and for how long."""

    env: EnvSettings | None = dataclasses.field(
        default_factory=lambda: registry.settings_class(EnvSettings, "pathfinding")()
    )
    """None for an environment of your own, which is given in Python."""
    agent: AgentSettings = dataclasses.field(
        default_factory=lambda: registry.settings_class(AgentSettings, "wmg")()
    )
    hyper: Hyper = dataclasses.field(default_factory=Hyper)
    t_max: int = 16
    """Longest update window: gradients reach this many steps back."""
    batched: Batched = dataclasses.field(default_factory=Batched)
    bootstrap_truncated: bool = False
    """Whether returns bootstrap from the value of the last observation of an episode that is
    truncated (cut off by a limit). Off, as in the paper, every end counts as terminal."""
    precision: Precision = "float32"
    """Precision of matrix products; weights, loss and update are always float32. tf32: TF32 on GPUs
    that have it, else float32. bfloat16, for batched.envs > 1: the network in bfloat16, heads in
    TF32."""
    kernel: Literal["auto", "on", "off"] = "auto"
    """Whether one CUDA kernel trains whole windows. auto: if there is a kernel for the agent, the
    environment and the GPU; otherwise XLA trains."""
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
        for name, kind in PARTS.items():
            value, wanted = getattr(self, name), getattr(kind, "__name__", kind)
            require(isinstance(value, kind), name, value, f"of type {wanted}")
        require_counts(self, largest=2_000_000_000, steps=1, report_every=1, seed=0)
        require_counts(self, largest=4096, t_max=1)
        require_counts(self, largest=100_000, runs=1)
        require_choices(self)
        self.hyper.check()
        for hyper in set(self.hypers()):
            hyper.check()
        if self.precision == "bfloat16":
            require(self.rule == "ppo", "batched.envs", 1, "more than 1 for bfloat16")
        if self.goal is not None and self.goal.grids:
            self._check_grids(self.goal.grids)

    @property
    def rule(self) -> Literal["a3c", "ppo"]:
        """The learning rule: the paper's for one environment, PPO for several."""
        return "ppo" if self.batched.envs > 1 else "a3c"

    def _check_grids(self, grids: tuple[int, ...]) -> None:
        every = self.report_every
        fit = [type(grid) is int and grid > every and grid % every == 0 for grid in grids]
        require(all(fit), "goal.grids", grids, f"multiples of report_every = {every:,}")
        most = self.t_max * self.batched.all_windows
        wanted = f"at least {most:,}, the steps of an update, for a goal with grids"
        require(most <= every, "report_every", every, wanted)

    def hypers(self) -> list[Hyper]:
        """The numbers of each run."""
        varied = dict(_parse_varied(item, self.runs) for item in self.vary)
        require(len(varied) == len(self.vary), "vary", self.vary, "different numbers, each once")
        return [
            dataclasses.replace(self.hyper, **{name: values[i] for name, values in varied.items()})
            for i in range(self.runs)
        ]


def _parse_varied(item: str, runs: int) -> tuple[str, list[float]]:
    name, _, text = item.partition("=")
    require(name in HYPER_NAMES, "vary", item, f"NAME=... with one of {', '.join(HYPER_NAMES)}")
    try:
        values = [float(value) for value in text.split(",")]
    except ValueError:
        raise BadInput(f"vary must be {name}=NUMBER,NUMBER,..., got {item!r}") from None
    require(len(values) == runs, "vary", item, f"a list of {runs} numbers, one per run")
    return name, values


PARTS = {"env": EnvSettings | None, "agent": AgentSettings}
PARTS |= {"hyper": Hyper, "batched": Batched, "goal": Goal | None}
"""The types of the fields of a `Config` that hold settings."""
HYPER_NAMES = tuple(field.name for field in dataclasses.fields(Hyper))


def to_dict(settings: Any) -> dict[str, Any]:
    """Settings as plain JSON data. Environments and agents carry their name and, if they are not
    the package's own, the import path of their settings."""
    data = {f.name: _plain(getattr(settings, f.name)) for f in dataclasses.fields(settings)}
    if not isinstance(settings, EnvSettings | AgentSettings):
        return data
    path = registry.import_path(settings)
    return {"name": settings.name, **({"import": path} if path else {}), **data}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def from_dict(kind: type[Settings], data: Any, where: str = "config") -> Settings:
    """The settings in JSON data. Missing fields have their defaults. Unknown fields, wrong types
    and missing fields without a default are refused."""
    if not isinstance(data, dict):
        raise BadInput(f"{where} must be a JSON object, got {quote(data)}")
    data = _upgrade(data) if kind is Config else dict(data)
    if issubclass(kind, EnvSettings | AgentSettings):
        given, _ = data.pop("name", kind.name), data.pop("import", None)
        require(given == kind.name, f"{where}.name", given, repr(kind.name))
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(typing.cast(Any, kind))
    known = [field.name for field in fields]
    for key in data:
        if key not in known:
            raise BadInput(f"{where} has no setting {quote(key)}; it has {', '.join(known)}")
    for field in fields:
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
        require(value in options, where, value, f"one of {', '.join(map(repr, options))}")
        return value
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        (kind,) = (option for option in options if option is not type(None))
        return _value(kind, value, where)
    if kind in (EnvSettings, AgentSettings):
        data = value if isinstance(value, dict) else {"name": value}
        named = registry.settings_class(kind, data.get("name"), data.get("import"), where)
        return from_dict(named, value, where)
    if origin is tuple:
        require(isinstance(value, list | tuple), where, value, "a list")
        if len(options) == 2 and options[1] is ...:
            options = (options[0],) * len(value)
        require(len(options) == len(value), where, value, f"{len(options)} items")
        return tuple(_value(kind, v, where) for kind, v in zip(options, value, strict=True))
    if dataclasses.is_dataclass(kind):
        return from_dict(typing.cast(type, kind), value, where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        require(is_finite(value), where, value, "a finite number")
        return float(value)
    wrong = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    require(not wrong, where, value, f"of type {kind.__name__}")
    return value


def differences(one: Config, other: Config) -> list[tuple[str, Any, Any]]:
    """Settings in which two configs differ: name, as on the command line, and both values."""
    old, new = _flat(to_dict(one)), _flat(to_dict(other))
    both = [(name, old.get(name), new.get(name)) for name in old | new]
    return [(name, a, b) for name, a, b in both if a != b]


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    flat = {}
    for name, value in data.items():
        inner = _flat(value) if isinstance(value, dict) else {"": value}
        flat |= {f"{name}.{key}".rstrip("."): item for key, item in inner.items()}
    return flat
