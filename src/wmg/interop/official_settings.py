"""The authors' settings files: lines of `NAME = value`, with comments after `#`."""

import os
from collections.abc import Mapping
from typing import Any

from wmg import config
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.envs.babyai.settings import BabyAISettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.settings import EnvSettings, is_finite
from wmg.tools import files
from wmg.tools.errors import BadInput

Value = bool | int | float | str | None

HYPER = {
    "LEARNING_RATE": "learning_rate",
    "DISCOUNT_FACTOR": "discount",
    "ENTROPY_TERM_STRENGTH": "entropy",
    "ADAM_EPS": "adam_eps",
    "GRADIENT_CLIP": "grad_clip",
    "REWARD_SCALE": "reward_scale",
}
WMG = {
    "WMG_NUM_LAYERS": "layers",
    "WMG_NUM_ATTENTION_HEADS": "heads",
    "WMG_ATTENTION_HEAD_SIZE": "head_size",
    "WMG_HIDDEN_SIZE": "hidden",
    "AC_HIDDEN_LAYER_SIZE": "actor_critic",
}
GRU = {
    "OBS_EMBED_SIZE": "embedding",
    "NUM_RNN_UNITS": "size",
    "AC_HIDDEN_LAYER_SIZE": "actor_critic",
}
OFF_ONLY = {
    "WEIGHT_DECAY",
    "ONE_HOT_PATTERNS",
    "ALLOW_DELIBERATION",
    "OBS_FEEDBACK",
}
"""Settings of the authors' code that this project knows only as off (zero or False)."""
ANNEALING = {"ANNEAL_LR", "LR_GAMMA", "ANNEALING_START"}
SHAPES = {"V2", "WMG_MAX_OBS", "WMG_MAX_MEMOS", "WMG_MEMO_SIZE"}
DURATION = {"TOTAL_STEPS": "steps", "REPORTING_INTERVAL": "report_every"}
GENERAL = {"ENV", "NUM_PATTERNS", "AGENT_NET", "A3C_T_MAX", *DURATION}
LEVELS = {
    "BabyAI-GoToObj-v0": "GoToObj",
    "BabyAI-GoToRedBallGrey-v0": "GoToRedBallGreyBoxes",
    "BabyAI-GoToRedBall-v0": "GoToRedBall",
    "BabyAI-GoToLocal-v0": "GoToLocal",
    "BabyAI-PickupLoc-v0": "PickupLoc",
}
"""The authors' BabyAI is of a time when GoToRedBallGrey had boxes alone."""
ENCODERS = {
    "Factored": "factored",
    "Flat": "flat",
    "CnnFlat": "image",
    "FactoredThenFlattened": "flattened",
}
DIFFICULTIES = {
    ("unfiltered", "train"): "unfiltered-train",
    ("unfiltered", "valid"): "unfiltered-valid",
    ("unfiltered", "test"): "unfiltered-test",
    ("medium", "train"): "medium-train",
    ("medium", "valid"): "medium-valid",
}
"""The levels of Sokoban by difficulty and split."""
BOARDS = {"factored": "factored", "grid": "planes"}
SOKOBAN_ON, SOKOBAN_OFF, SOKOBAN_BOXES = 1.0, -1.0, 4
"""Values that the authors' Sokoban has no setting for, or only one sensible value."""
SOKOBAN_SETTINGS = {
    "SOKOBAN_MAX_STEPS",
    "SOKOBAN_DIFFICULTY",
    "SOKOBAN_SPLIT",
    "SOKOBAN_ROOM_OVERRIDE",
    "SOKOBAN_BOXES_REQUIRED",
    "SOKOBAN_OBSERVATION_FORMAT",
    "SOKOBAN_REWARD_PER_STEP",
    "SOKOBAN_REWARD_SUCCESS",
}
GOAL = {"HELDOUT_TESTING", "SUCCESS_RATE_THRESHOLD", "NUM_TEST_EPISODES"}
LEVEL = {"BABYAI_ENV_LEVEL", "OBS_ENCODER", "BINARY_REWARD"}
IGNORED = {
    "TYPE_OF_RUN",
    "LOAD_MODEL_FROM",
    "SAVE_MODELS_TO",
    "ENV_RANDOM_SEED",
    "AGENT_RANDOM_SEED",
    "USE_SUCCESS_RATE",
    "NUM_EPISODES_TO_TEST",
    "MIN_FINAL_REWARD_FOR_SUCCESS",
    "ID",
}
"""What a command says here: what to do, where files lie, what to measure, seeds."""
KNOWN = {*HYPER, *WMG, *GRU, *SOKOBAN_SETTINGS} | LEVEL | GOAL | IGNORED
KNOWN |= OFF_ONLY | ANNEALING | SHAPES | GENERAL

LARGEST_FILE = 1_000_000
"""Bytes of a settings file; the authors' have 3,000."""
PATHFINDING, BABYAI, SOKOBAN = "Pathfinding_Env", "BabyAI_Env", "Sokoban_Env"
ANNEAL = 0.98
ANNEAL_AFTER = 10_000_000
"""Sokoban's schedule, the only one the authors used."""


def read_settings(path: str | os.PathLike[str]) -> dict[str, Value]:
    """The settings in a file of the authors' form."""
    try:
        text = files.read_bounded(path, LARGEST_FILE).decode()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not a settings file: it is not text") from None
    except ValueError as error:
        raise BadInput(str(error)) from None
    return parse_settings(text, str(path))


def parse_settings(text: str, where: str = "settings") -> dict[str, Value]:
    """The settings in text of the authors' form."""
    settings: dict[str, Value] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name.isidentifier() or not value:
            raise BadInput(f"{where} line {number} is not NAME = value: {line!r}")
        if name in settings:
            raise BadInput(f"{where} line {number} sets {name} a second time")
        settings[name] = _parse(value)
    return settings


def _parse(text: str) -> Value:
    constants = {"True": True, "False": False, "None": None}
    if text in constants:
        return constants[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("\"'")


def format_settings(settings: Mapping[str, Value]) -> str:
    """Text of the authors' form."""
    return "".join(f"{name} = {value}\n" for name, value in settings.items())


def config_from_settings(settings: Mapping[str, Value]) -> config.Config:
    """The experiment that settings under their official names describe.

    Without an ENV it is Pathfinding. Number of steps and of steps between reports may be
    missing; all that shapes the agent and the update may not.
    """
    unknown = sorted(set(settings) - KNOWN)
    if unknown:
        raise BadInput(f"the setting {unknown[0]} is not known")
    for name in sorted(OFF_ONLY & set(settings)):
        if settings[name]:
            raise BadInput(f"{name} must be off, got {settings[name]!r}")
    optional = {
        ours: _number(settings, name, int) for name, ours in DURATION.items() if name in settings
    }
    env = _env(settings)
    return config.Config(
        env=env,
        goal=_goal(settings) if isinstance(env, BabyAISettings) else None,
        agent=_agent(settings),
        hyper=_hyper(settings),
        t_max=_number(settings, "A3C_T_MAX", int),
        **optional,
    )


def _env(settings: Mapping[str, Value]) -> EnvSettings:
    name = settings.get("ENV", PATHFINDING)
    if name == PATHFINDING:
        graph = {"NUM_PATTERNS": PathfindingSettings().nodes, **settings}
        return PathfindingSettings(nodes=_number(graph, "NUM_PATTERNS", int))
    if name == SOKOBAN:
        return _sokoban(settings)
    if name != BABYAI:
        raise BadInput(f"ENV must be {PATHFINDING}, {BABYAI} or {SOKOBAN}, got {name!r}")
    return BabyAISettings(
        level=_choice(settings, "BABYAI_ENV_LEVEL", LEVELS),
        observation=_choice(settings, "OBS_ENCODER", ENCODERS),
        reward="binary" if _flag(settings, "BINARY_REWARD") else "minigrid",
    )


def _sokoban(settings: Mapping[str, Value]) -> SokobanSettings:
    for name, only in (("SOKOBAN_ROOM_OVERRIDE", None), ("SOKOBAN_BOXES_REQUIRED", SOKOBAN_BOXES)):
        if settings.get(name, only) != only:
            raise BadInput(f"{name} must be {only}, got {settings[name]!r}")
    difficulty, split = settings.get("SOKOBAN_DIFFICULTY"), settings.get("SOKOBAN_SPLIT")
    levels = DIFFICULTIES.get((str(difficulty), str(split)))
    if levels is None:
        known = ", ".join(" ".join(pair) for pair in DIFFICULTIES)
        raise BadInput(
            f"SOKOBAN_DIFFICULTY and SOKOBAN_SPLIT must be one of {known}, got {difficulty} {split}"
        )
    return SokobanSettings(
        levels=levels,
        observation=_choice(settings, "SOKOBAN_OBSERVATION_FORMAT", BOARDS),
        max_steps=_number(settings, "SOKOBAN_MAX_STEPS", int),
        rewards=(
            _number(settings, "SOKOBAN_REWARD_PER_STEP", float),
            SOKOBAN_ON,
            SOKOBAN_OFF,
            _number(settings, "SOKOBAN_REWARD_SUCCESS", float),
        ),
    )


def _goal(settings: Mapping[str, Value]) -> config.Goal | None:
    if not _flag(settings, "HELDOUT_TESTING"):
        return None
    return config.Goal(
        success=_number(settings, "SUCCESS_RATE_THRESHOLD", float),
        episodes=_number(settings, "NUM_TEST_EPISODES", int),
    )


def _agent(settings: Mapping[str, Value]) -> WMGSettings | GRUSettings:
    network = settings.get("AGENT_NET")
    if network == "GRU_Network":
        sizes = {ours: _number(settings, name, int) for name, ours in GRU.items()}
        return GRUSettings(**sizes)
    if network != "WMG_Network":
        raise BadInput(f"AGENT_NET must be WMG_Network or GRU_Network, got {network!r}")
    sizes = {ours: _number(settings, name, int) for name, ours in WMG.items()}
    return WMGSettings(**sizes, **_memory(settings), **_variant(_flag(settings, "V2")))


def _memory(settings: Mapping[str, Value]) -> dict[str, Any]:
    memos, observations = (
        _number(settings, name, int) if name in settings else 0
        for name in ("WMG_MAX_MEMOS", "WMG_MAX_OBS")
    )
    if memos and observations:
        raise BadInput("WMG_MAX_MEMOS and WMG_MAX_OBS must not both be positive")
    if observations:
        return {"memory": "observations", "slots": observations, "memo_size": 0}
    if memos:
        size = _number(settings, "WMG_MEMO_SIZE", int)
        return {"memory": "memos", "slots": memos, "memo_size": size}
    return {"memory": "none", "slots": 0, "memo_size": 0}


def _variant(second: bool) -> dict[str, Any]:
    """Settings that distinguish Sokoban's network (V2) from the other tables' (V1)."""
    if second:
        return {"shared_heads": True, "start": "empty", "age": "added"}
    return {"shared_heads": False, "start": "full", "age": "concatenated"}


def is_second_variant(agent: WMGSettings) -> bool:
    """Whether an agent is V2. Raises an error if it is neither V1 nor V2."""
    for second in (False, True):
        if all(getattr(agent, name) == value for name, value in _variant(second).items()):
            return second
    raise BadInput(
        "the authors' networks have shared_heads=False, start=full, age=concatenated or"
        f" True, empty, added, got {agent.shared_heads}, {agent.start}, {agent.age}"
    )


def _hyper(settings: Mapping[str, Value]) -> config.Hyper:
    numbers = {ours: _number(settings, name, float) for name, ours in HYPER.items()}
    if _flag(settings, "ANNEAL_LR"):
        schedule = {"LR_GAMMA": ANNEAL, "ANNEALING_START": ANNEAL_AFTER, **settings}
        numbers["anneal"] = _number(schedule, "LR_GAMMA", float)
        numbers["anneal_after"] = _number(schedule, "ANNEALING_START", float)
        numbers["anneal_every"] = _number(settings, "REPORTING_INTERVAL", float)
    return config.Hyper(**numbers)


def settings_from_config(experiment: config.Config) -> dict[str, Value]:
    """An experiment under the authors' names, as far as their code can run it."""
    agent, hyper, env = experiment.agent, experiment.hyper, experiment.env
    if env is None:
        raise BadInput("the authors' code cannot run an environment of your own")
    if experiment.batched != config.Batched():
        raise BadInput("the authors' code cannot run the batched trainer, whose settings these are")
    settings: dict[str, Value] = {
        **_env_settings(env, experiment.goal),
        "TOTAL_STEPS": experiment.steps,
        "REPORTING_INTERVAL": experiment.report_every,
        "A3C_T_MAX": experiment.t_max,
        "WEIGHT_DECAY": 0.0,
        "ANNEAL_LR": hyper.anneal != 1,
    }
    if hyper.anneal != 1:
        settings |= {"LR_GAMMA": hyper.anneal, "ANNEALING_START": hyper.anneal_after}
        settings["REPORTING_INTERVAL"] = round(hyper.anneal_every)
    settings |= {name: getattr(hyper, ours) for name, ours in HYPER.items()}
    if isinstance(agent, GRUSettings):
        return settings | {"AGENT_NET": "GRU_Network"} | _sizes(agent, GRU)
    if not isinstance(agent, WMGSettings) or agent.memory == "none":
        raise BadInput("the authors' code has only the GRU and the WMG agent with a memory")
    memos = agent.memory == "memos"
    return settings | {
        "AGENT_NET": "WMG_Network",
        "V2": is_second_variant(agent),
        "WMG_MAX_OBS": 0 if memos else agent.slots,
        "WMG_MAX_MEMOS": agent.slots if memos else 0,
        "WMG_MEMO_SIZE": agent.memo_size if memos else 0,
        **_sizes(agent, WMG),
    }


def _env_settings(env: EnvSettings, goal: config.Goal | None) -> dict[str, Value]:
    if isinstance(env, PathfindingSettings):
        if env.pattern != PathfindingSettings().pattern:
            raise BadInput(f"the authors' code cannot run {env}")
        return {"ENV": PATHFINDING, "NUM_PATTERNS": env.nodes}
    if isinstance(env, SokobanSettings):
        return _sokoban_settings(env)
    if not isinstance(env, BabyAISettings):
        raise BadInput(f"the authors' code has no environment like {env.name}")
    levels = {ours: name for name, ours in LEVELS.items()}
    if env.level not in levels:
        raise BadInput(f"the authors' code cannot run {env.level} as it is today")
    settings: dict[str, Value] = {
        "ENV": BABYAI,
        "BABYAI_ENV_LEVEL": levels[env.level],
        "OBS_ENCODER": {ours: name for name, ours in ENCODERS.items()}[env.observation],
        "BINARY_REWARD": env.reward == "binary",
        "USE_SUCCESS_RATE": True,
        "HELDOUT_TESTING": goal is not None,
    }
    if goal is None:
        return settings
    return settings | {
        "SUCCESS_RATE_THRESHOLD": goal.success,
        "NUM_TEST_EPISODES": goal.episodes,
    }


def _sokoban_settings(env: SokobanSettings) -> dict[str, Value]:
    levels = {ours: pair for pair, ours in DIFFICULTIES.items()}
    levels |= {split: ("unfiltered", split) for split in ("train", "valid", "test")}
    formats = {ours: name for name, ours in BOARDS.items()}
    step, on, off, solved = env.rewards
    known = env.levels in levels and env.observation in formats
    if not known or (on, off, env.bound) != (SOKOBAN_ON, SOKOBAN_OFF, SokobanSettings().bound):
        raise BadInput(f"the authors' code cannot run {env}")
    difficulty, split = levels[env.levels]
    return {
        "ENV": SOKOBAN,
        "SOKOBAN_MAX_STEPS": env.max_steps,
        "SOKOBAN_DIFFICULTY": difficulty,
        "SOKOBAN_SPLIT": split,
        "SOKOBAN_ROOM_OVERRIDE": None,
        "SOKOBAN_BOXES_REQUIRED": SOKOBAN_BOXES,
        "SOKOBAN_OBSERVATION_FORMAT": formats[env.observation],
        "SOKOBAN_REWARD_PER_STEP": step,
        "SOKOBAN_REWARD_SUCCESS": solved,
    }


def _sizes(agent: WMGSettings | GRUSettings, names: Mapping[str, str]) -> dict[str, Value]:
    return {name: getattr(agent, ours) for name, ours in names.items()}


def _flag(settings: Mapping[str, Value], name: str) -> bool:
    value = settings.get(name, False)
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be True or False, got {value!r}")
    return value


def _choice(settings: Mapping[str, Value], name: str, ours: Mapping[str, str]) -> Any:
    value = settings.get(name)
    if value not in ours:
        raise BadInput(f"{name} must be one of {', '.join(ours)}, got {value!r}")
    return ours[str(value)]


def _number(settings: Mapping[str, Value], name: str, kind: type[int] | type[float]) -> Any:
    if name not in settings:
        raise BadInput(f"the settings have no {name}")
    value: Any = settings[name]
    fits = is_finite(value) and not isinstance(value, bool)
    if not fits or (kind is int and not isinstance(value, int)):
        wanted = "a whole number" if kind is int else "a number"
        raise BadInput(f"{name} must be {wanted}, got {value!r}")
    return kind(value)
