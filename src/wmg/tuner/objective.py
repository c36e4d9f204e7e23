"""Training runs as the objective of a search."""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from wmg import registry
from wmg.config import HYPER_NAMES, Config, from_dict, to_dict
from wmg.tools import scores
from wmg.tools.errors import BadInput
from wmg.tuner import space
from wmg.tuner.worker import Objective

if TYPE_CHECKING:
    from wmg.runs.result import Result

METRICS = {
    "score": "mean score over the last tenth of a run, in percent; higher is better",
    "return": "mean return over the last tenth of a run; higher is better",
    "steps": "steps until the goal is met, all of them if it never is; lower is better",
}


def make_task(preset: str, settings: Config, metric: str | None) -> dict[str, Any]:
    """What a study tells its workers about its runs. Without a metric, it is steps for settings
    with a goal, and for others what the environment's scores are."""
    reported = score_metric(settings)
    metric = metric or (reported if settings.goal is None else "steps")
    if metric not in METRICS:
        raise BadInput(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    if metric == "steps" and settings.goal is None:
        raise BadInput(
            f"{preset} has no goal, so its runs do not report steps: use metric {reported}"
        )
    if metric not in ("steps", reported):
        raise BadInput(f"runs of {preset} do not report a {metric}: use metric {reported}")
    if metric != "steps":  # of the whole run, not of its last test
        settings = dataclasses.replace(settings, goal=None)
    return {"preset": preset, "config": to_dict(settings), "metric": metric}


def score_metric(settings: Config) -> str:
    """Whether the environment's scores are returns or in percent."""
    spec = registry.make_env(settings.env, shapes_only=True).spec
    return scores.name(spec.metric)


def read_task(task: dict[str, Any]) -> Config:
    """The settings of a task."""
    return from_dict(Config, task["config"], "task.config")


def make_objective(task: dict[str, Any]) -> Objective:
    """Training with the settings of a task."""
    from wmg.runs import train

    settings = read_task(task)

    def run(values: list[dict[str, Any]], seed: int) -> list[float]:
        result = train.train(batch(settings, values, seed))
        if result.stopped:
            raise KeyboardInterrupt
        return [score(result, task["metric"], row) for row in range(len(values))]

    return run


def batch(settings: Config, values: list[dict[str, Any]], seed: int) -> Config:
    """Runs that share all shapes as one experiment, in which each has its own numbers."""
    first = values[0]
    numbers = [name for name in first if name in HYPER_NAMES]
    varied = tuple(
        f"{name}={','.join(repr(float(each[name])) for each in values)}" for name in numbers
    )
    together = space.apply(settings, first)
    return dataclasses.replace(together, runs=len(values), seed=seed, vary=varied)


def score(result: "Result", metric: str, row: int) -> float:
    """The score of a run. One that diverged has its last score; if it has none, zero percent."""
    if metric == "steps":
        crossing = result.crossings[row]
        return float(result.config.steps) if crossing is None else float(crossing)
    final = result.final_score(row)
    if math.isnan(final) and metric == "return":  # which no number is sure to be the worst of
        raise BadInput("no episode ended in this run, so it has no return: give it more --steps")
    return 0.0 if math.isnan(final) else final
