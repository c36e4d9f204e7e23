"""Runs the suite: trains an agent on a task, has it play fresh episodes, and keeps one file.

    OUT/suite/memory-s7-wmg/seed-0/train/         our agents: a run folder
    OUT/suite/memory-s7-wmg/seed-0/result.json    what came of it, never replaced

All agents' results have the same fields (`FIELDS`). Ours also have `config`; RecurrentPPO's have
`other`, the versions of its packages.
"""

import dataclasses
import importlib.util
import json
import math
import pathlib
import subprocess
from typing import Any

from wmg import registry
from wmg.api import training
from wmg.api.suite.tasks import AGENTS, CELLS, EPISODES, OTHER, REPORT, TASKS, SuiteTask
from wmg.config import Config, to_dict
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.paper import result_file
from wmg.runs import runfolder
from wmg.runs import train as trainer
from wmg.runs.progress import Display
from wmg.tools import machine
from wmg.tools.errors import BadInput

Json = dict[str, Any]
NAME = "suite"
BENCHMARKS = pathlib.Path(__file__).parents[4] / "benchmarks"
SCRIPT, REQUIREMENTS = BENCHMARKS / "suite_recurrent_ppo.py", "benchmarks/suite-requirements.txt"


@dataclasses.dataclass(frozen=True)
class SuiteScale:
    """How much of the suite is run, and with what."""

    steps: int | None = None
    """Interactions of each run; by default the task's budget."""
    other: str | None = None
    """The Python that trains RecurrentPPO."""

    def steps_of(self, task: str) -> int:
        """Interactions of each run of a task."""
        return self.steps or TASKS[task].budget

    def command(self, cell: str, seed: int) -> str:
        """The command that does one run, after those with smaller seeds."""
        command = f"wmg reproduce {NAME} --cells {cell} --runs {seed + 1}"
        command += "" if self.steps is None else f" --steps {self.steps}"
        return command + (" --other PYTHON" if CELLS[cell][1] == OTHER else "")


def check(cells: list[str], scale: SuiteScale) -> None:
    """Refuse to begin where a package is missing that some of the cells need."""
    ours, others = (
        [TASKS[CELLS[cell][0]] for cell in cells if (CELLS[cell][1] == OTHER) == other]
        for other in (False, True)
    )
    missing = {each.package for each in ours if importlib.util.find_spec(each.module) is None}
    if missing:
        names = " ".join(sorted(missing))
        raise BadInput(f"the suite needs packages that are missing: pip install {names}")
    if not others:
        return
    if scale.other is None:
        raise BadInput(f"{OTHER} needs --other, a Python in which {REQUIREMENTS} is installed")
    if not SCRIPT.exists():
        raise BadInput(f"{OTHER} needs the repository's benchmarks: there is no {SCRIPT}")
    modules = sorted({each.module for each in others} | {"sb3_contrib"})
    asked = [scale.other, "-c", f"import {', '.join(modules)}"]
    done = subprocess.run(asked, capture_output=True, text=True)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        raise BadInput(f"{scale.other} cannot import all of {REQUIREMENTS}: {why}")


def run_cell(cell: str, seed: int, scale: SuiteScale, out: pathlib.Path, display: Display) -> bool:
    """Do one run of a cell unless it was done; False if it was stopped."""
    task, agent = CELLS[cell]
    place, steps = place_of(out, cell, seed), scale.steps_of(task)
    path = place / result_file.NAME
    if path.exists():
        require_steps(path, read(path), steps)
        return True
    started = machine.now()
    if agent == OTHER:
        found: Json | None = train_other(task, seed, steps, str(scale.other))
    else:
        found = train_ours(task, agent, seed, steps, place / "train", display)
    if found is None:
        return False
    about = {"task": task, "agent": agent, "seed": seed, "interactions": steps}
    about |= {"command": scale.command(cell, seed), "started": started, "ended": machine.now()}
    result_file.write(path, {**about, **found, "hardware": machine.describe()})
    return True


def place_of(out: pathlib.Path, cell: str, seed: int) -> pathlib.Path:
    """The folder of a run."""
    return out / NAME / cell / f"seed-{seed}"


def require_steps(path: pathlib.Path, result: Json, steps: int) -> None:
    """Refuse a result with another number of interactions."""
    if result["interactions"] != steps:
        raise BadInput(
            f"{path} has {result['interactions']:,} interactions, not {steps:,}: "
            "choose another --out"
        )


def settings_for(task: SuiteTask, agent: str, seed: int, steps: int) -> Config:
    """The default settings for a task. Agents that take no Factors see them flattened."""
    env = OutsideEnvSettings(task.env, roles=task.roles)
    if agent != "wmg" and registry.make_env(env).spec.observation.factors:
        env = dataclasses.replace(env, flattened=True)
    settings, _ = training.experiment(None, env, None if agent == "wmg" else agent, steps=steps)
    return dataclasses.replace(settings, steps=steps, report_every=REPORT, seed=seed)


def train_ours(
    task: str, agent: str, seed: int, steps: int, folder: pathlib.Path, display: Display
) -> Json | None:
    """Train one of our agents, or go on with it, and have it play; None if that was stopped."""
    resume = folder.exists()
    if resume:
        settings = runfolder.read_config(folder)  # random play may find another reward scale now
        if settings.steps != steps:
            begun = f"{folder} was begun with {settings.steps:,} interactions, not {steps:,}"
            raise BadInput(f"{begun}: choose another --out")
    else:
        settings = settings_for(TASKS[task], agent, seed, steps)
    result = trainer.train(settings, folder, resume=resume, start=display.start, show=display.show)
    if result.stopped and not result.finished:
        return None
    played = result.evaluate(EPISODES)
    return {
        "steps": [round(float(taken)) for taken in result.steps],
        "scores": [_finite(score) for score in result.scores[0]],
        "score": _finite(played.score),
        "standard_error": _finite(played.standard_error),
        "episodes": played.episodes,
        "seconds": round(result.seconds, 1),
        "diverged": bool(result.diverged[0]),
        "config": to_dict(settings),
    }


def train_other(task: str, seed: int, steps: int, python: str) -> Json:
    """Have another Python train RecurrentPPO and play."""
    command = [python, str(SCRIPT), task, f"--seed={seed}", f"--steps={steps}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise BadInput(f"{SCRIPT.name} failed on {task} (its error is above): nothing was kept")
    return json.loads(done.stdout.splitlines()[-1])


def _finite(value: float) -> float | None:
    return round(float(value), 4) if math.isfinite(value) else None


FIELDS: dict[str, type | tuple[type, ...]] = {
    "task": str,
    "agent": str,
    "seed": int,
    "interactions": int,
    "steps": list,
    "scores": list,
    "score": (int, float),
    "standard_error": (int, float),
    "episodes": int,
    "seconds": (int, float),
    "diverged": bool,
    "command": str,
    "hardware": dict,
}
"""What every result has. Scores are mean returns of training episodes, one for each of `steps`;
None where no episode ended. `score` is the mean return of the fresh episodes."""


def read(path: pathlib.Path) -> Json:
    """A run's result."""
    return result_file.read(path, _is_result)


def _is_result(data: Json) -> bool:
    if not all(isinstance(data.get(name), kind) for name, kind in FIELDS.items()):
        return False
    known = data["task"] in TASKS and data["agent"] in AGENTS
    numbers = all(type(step) is int for step in data["steps"])
    numbers &= all(score is None or type(score) in (int, float) for score in data["scores"])
    about = all(isinstance(data["hardware"].get(name), str) for name in ("device", "date"))
    return known and numbers and about and len(data["steps"]) == len(data["scores"]) > 0
