"""What a study says: how far it is, its best configuration, and what fresh runs of that give."""

import contextlib
import math
import shlex
from typing import Any

from optuna.trial import TrialState

from wmg.tools import stats
from wmg.tools.errors import BadInput
from wmg.tuner import posterior, space
from wmg.tuner import study as studies
from wmg.tuner.objective import METRICS, read_task
from wmg.tuner.posterior import Belief
from wmg.tuner.study import Plan, Shared
from wmg.tuner.worker import ended

Values = tuple[tuple[str, Any], ...]
"""A configuration by names and values: the same in studies with different grids."""


def status(shared: Shared) -> dict[str, Any]:
    """How far a study is."""
    states = [trial.state for trial in shared.study.get_trials(deepcopy=False)]
    stable = shared.stability()
    ranked = posterior.rank(shared.scores(), shared.maximise)
    return {
        "study": shared.study.study_name,
        "metric": shared.plan.task.get("metric"),
        "done": states.count(TrialState.COMPLETE),
        "of": shared.plan.runs,
        "running": states.count(TrialState.RUNNING),
        "waiting": states.count(TrialState.WAITING),
        "failed": states.count(TrialState.FAIL),
        "configurations": len(ranked),
        "best": _belief(ranked[0], shared.values(ranked[0].key)) if ranked else None,
        "unchanged": stable.unchanged,
        "unchanged_needed": stable.needed,
        "neighbours_missing": stable.missing,
        "settled": stable.settled,
        "ended": ended(shared),
    }


def describe(found: dict[str, Any]) -> str:
    """The same for people."""
    counts = f"{found['done']} of at most {found['of']} runs done, {found['running']} running"
    if found["waiting"]:
        counts += f", {found['waiting']} to be done again"
    lines = [f"{found['study']}: {counts}, {found['failed']} failed or lost"]
    if best := found["best"]:
        lines.append(f"best of {found['configurations']} configurations by {found['metric']}:")
        lines += ["  " + line for line in _describe_belief(best)]
        stable = f"the same for {found['unchanged']} of {found['unchanged_needed']} runs"
        missing = found["neighbours_missing"]
        tried = "all neighbours tried" if not missing else f"{missing} neighbours not tried yet"
        lines.append(f"  {stable}, {tried}")
    return "\n".join([*lines, found["ended"]]).rstrip()


def _belief(belief: Belief, values: dict[str, Any]) -> dict[str, Any]:
    low, high = belief.interval
    known = math.isfinite(belief.deviation)
    return {
        "values": values,
        "runs": belief.runs,
        "raw_mean": belief.raw,
        "posterior_mean": belief.mean,
        "interval": [low, high] if known else None,
    }


def _describe_belief(found: dict[str, Any]) -> list[str]:
    values = ", ".join(f"{name} {value}" for name, value in found["values"].items())
    low, high = found["interval"] or (-math.inf, math.inf)
    mean = f"{found['posterior_mean']:.4g} (95% from {low:.4g} to {high:.4g})"
    return [values, f"{mean} by {found['runs']} runs, whose plain mean is {found['raw_mean']:.4g}"]


def best(storage: str, names: list[str]) -> dict[str, Any]:
    """The best configuration of studies of the same task, and how to train it."""
    if repeated := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"{repeated[0]} is named twice: its runs would count twice")
    with contextlib.ExitStack() as stack:
        shared = [stack.enter_context(studies.opened(storage, name)) for name in names]
        for other in shared[1:]:
            if other.plan.task != shared[0].plan.task:
                raise BadInput(f"{names[0]} and {other.study.study_name} are about different tasks")
        pooled = posterior.pool(_by_values(one) for one in shared)
        ranked = posterior.rank(pooled, shared[0].maximise)
        plan, grids = shared[0].plan, [one.grid for one in shared]
    if not ranked:
        raise BadInput(f"{', '.join(names)} has no finished run yet")
    chosen, order = dict(ranked[0].key), dict.fromkeys(name for one in grids for name in one)
    values = {name: chosen[name] for name in order if name in chosen}
    settings = space.apply(read_task(plan.task), values)
    preset = plan.task["preset"]
    words = ["wmg", "train", preset, *space.options(settings, list(values))]
    words += ["--steps", str(settings.steps)] if ":" in preset else []  # its defaults need them
    train = shlex.join(words)
    found = _belief(ranked[0], values)
    return {"studies": names, "metric": plan.task["metric"], **found, "train": train}


def _by_values(shared: Shared) -> dict[Values, list[float]]:
    return {
        tuple(sorted(shared.values(point).items())): scores
        for point, scores in shared.scores().items()
    }


def describe_best(found: dict[str, Any]) -> str:
    """The same for people."""
    lines = [f"best by {found['metric']} ({METRICS[found['metric']]}):"]
    lines += ["  " + line for line in _describe_belief(found)]
    return "\n".join([*lines, f"train it with: {found['train']}"])


def prepare_final(storage: str, names: list[str], of: str, runs: int) -> str:
    """The study of fresh runs of one configuration, made if it is not there: a grid of one."""
    values = best(storage, names)["values"]
    with studies.opened(storage, names[0]) as shared:
        plan, maximise = shared.plan, shared.maximise
    if of == "preset":
        values = space.current(read_task(plan.task), list(values))
    name = f"{'+'.join(names)}-final-{of}"
    grid = {key: [value] for key, value in values.items()}
    try:
        fresh = Plan(
            plan.task,
            runs,
            until_settled=False,
            shapes=tuple(space.shapes(list(values))),
            beat=plan.beat,
        )
        studies.create(storage, name, fresh, grid, maximise)
    except BadInput:
        with studies.opened(storage, name) as there:  # raises if there is none
            if there.plan.runs != runs or there.grid != grid:
                raise BadInput(
                    f"study {name!r} has {there.plan.runs} runs of {there.grid} already"
                ) from None
    return name


def final(storage: str, name: str) -> dict[str, Any]:
    """What fresh runs have shown."""
    with studies.opened(storage, name) as shared:
        trials = shared.trials(TrialState.COMPLETE)
        scores = [trial.value for trial in trials if trial.value is not None]
        if len(scores) < shared.plan.runs:
            raise BadInput(
                f"{name} has {len(scores)} of its {shared.plan.runs} runs: the same command goes on"
            )
        return {
            "study": name,
            "metric": shared.plan.task["metric"],
            "values": {key: values[0] for key, values in shared.grid.items()},
            "task": shared.plan.task,
            **{k: None if math.isnan(v) else v for k, v in stats.summary(scores).items()},
            "scores": scores,
            "seeds": [trial.user_attrs.get("seed") for trial in trials],
        }


def describe_final(found: dict[str, Any]) -> str:
    """The same for people."""
    error = "" if found["count"] < 2 else f" ± {found['standard_error']:.4g} (standard error)"
    return (
        f"{found['study']}: {found['metric']} {found['mean']:.4g}{error}, "
        f"median {found['median']:.4g}, of {found['count']} fresh runs"
    )
