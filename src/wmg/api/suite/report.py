"""From the suite's results to a table, a comparison, JSON and learning curves."""

import json
import math
import pathlib
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from wmg.api.suite.run import NAME, SuiteScale, read, require_steps
from wmg.api.suite.tasks import AGENTS, CELLS, LAST, TASKS
from wmg.paper import result_file
from wmg.tools import plots, stats
from wmg.tools.errors import BadInput
from wmg.tools.files import write_atomically

Json = dict[str, Any]
Found = dict[str, list[Json]]
"""The results of each cell that has some."""


def report(out: pathlib.Path, scale: SuiteScale) -> Json:
    """Write report.json, report.md and a figure for each task; return what the JSON says."""
    found, folder = collect(out, scale), out / NAME
    data = make(found)
    write_atomically(folder / "report.json", (json.dumps(data, indent=1) + "\n").encode())
    write_atomically(folder / "report.md", markdown(data).encode())
    try:
        draw(found, folder)
    except BadInput as missing:
        print(f"no figures: {missing}", file=sys.stderr)
    return data


def collect(out: pathlib.Path, scale: SuiteScale) -> Found:
    """The results in a folder, which all have the asked number of interactions."""
    found: Found = {}
    for cell, (task, _) in CELLS.items():
        for path in sorted((out / NAME / cell).glob(f"seed-*/{result_file.NAME}")):
            result = read(path)
            require_steps(path, result, scale.steps_of(task))
            if f"{result['task']}-{result['agent']}" != cell:
                raise BadInput(f"{path} is a result of {result['task']}-{result['agent']}")
            found.setdefault(cell, []).append(result)
        found.get(cell, []).sort(key=lambda result: result["seed"])
    if not found:
        raise BadInput(f"there are no results of {NAME} in {out}")
    return found


def reached(result: Json, threshold: float) -> float:
    """The interactions after which a run reached a threshold; infinite if it never did. `LAST` in
    `wmg.api.suite.tasks` has the rule."""
    scores = np.array([math.nan if score is None else score for score in result["scores"]])
    for end in range(LAST, len(scores) + 1):
        known = scores[end - LAST : end]
        known = known[np.isfinite(known)]
        if known.size and known.mean() >= threshold:
            return float(result["steps"][end - 1])
    return math.inf


def make(found: Found) -> Json:
    """The report of results."""
    rows = {cell: make_row(cell, results) for cell, results in found.items()}
    every = [result for results in found.values() for result in results]
    others = {other: compare(rows, other) for other in AGENTS if other != "wmg"}
    compared = {other: ahead for other, ahead in others.items() if ahead}
    short = any(result["interactions"] != TASKS[result["task"]].budget for result in every)
    return {
        "target": NAME,
        "short": short,
        "cells": rows,
        "compared": compared,
        "not_run": [cell for cell in CELLS if cell not in rows],
        "commands": [results[-1]["command"] for results in found.values()],
        "hardware": [json.loads(each) for each in sorted({_machine(each) for each in every})],
    }


def make_row(cell: str, results: Sequence[Json]) -> Json:
    """What the runs of a cell came to."""
    task, agent = CELLS[cell]
    needed = [reached(result, TASKS[task].threshold) for result in results]
    finals = [float(result["score"]) for result in results]
    return {
        "task": task,
        "agent": agent,
        "runs": len(results),
        "interactions": results[0]["interactions"],
        "reached": sum(map(math.isfinite, needed)),
        "needed": [_or_none(each) for each in needed],
        "median": _or_none(stats.censored_quantile(needed, 0.5)),
        "score": statistics.fmean(finals),
        "interval": interval(finals),
        "episodes": min(result["episodes"] for result in results),
        "diverged": sum(result["diverged"] for result in results),
        "seconds": statistics.median(result["seconds"] for result in results),
    }


def interval(values: Sequence[float]) -> list[float] | None:
    """Student's 95% interval of the mean; None for a single value."""
    if len(values) < 2:
        return None
    half = stats.student_quantile(len(values) - 1) * stats.standard_error(values)
    mean = statistics.fmean(values)
    return [mean - half, mean + half]


def compare(rows: dict[str, Json], other: str) -> dict[str, str]:
    """Who needs fewer interactions by the median, for each task that both have run: "wmg", the
    other agent, "both" if they are equal, or "neither" if no median reaches the threshold."""
    ahead = {}
    for task in TASKS:
        pair = [rows.get(f"{task}-{agent}") for agent in ("wmg", other)]
        if pair[0] is not None and pair[1] is not None:
            ours, theirs = (_or_infinite(row["median"]) for row in pair if row)
            found = "wmg" if ours < theirs else other if theirs < ours else "both"
            ahead[task] = "neither" if math.isinf(min(ours, theirs)) else found
    return ahead


def _machine(result: Json) -> str:
    kept = ("device", "cores", "commit", "date")
    return json.dumps({name: result["hardware"].get(name) for name in kept})


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


def markdown(data: Json) -> str:
    """The report for people."""
    short = ["Not the suite: some runs do not have their task's budget, so this shows nothing.", ""]
    lines = ["# The suite", "", *(short if data["short"] else [])]
    for other in data["compared"]:
        lines += [sentence(data, other), ""]
    lines += table(data)
    if data["not_run"]:
        lines += ["", f"Not run: {', '.join(data['not_run'])}."]
    machines = "; ".join(
        f"{each['device']}, {each['cores']} core(s), commit {each['commit']}, {each['date']}"
        for each in data["hardware"]
    )
    lines += ["", f"Hardware: {machines}.", "", "Commands:", "", "```", *data["commands"], "```"]
    return "\n".join([*lines, ""])


def sentence(data: Json, other: str) -> str:
    """Where WMG needs fewer interactions than another agent, among the tasks that need memory or
    sets."""
    ahead = {task: who for task, who in data["compared"][other].items() if TASKS[task].needs}
    groups = {
        who: [task for task in ahead if ahead[task] == who]
        for who in ("wmg", other, "both", "neither")
    }
    name, most = AGENTS[other], sum(bool(task.needs) for task in TASKS.values())
    parts = [
        f"WMG needs fewer interactions than {name} on {len(groups['wmg'])} of the {len(ahead)} "
        f"tasks that need memory or sets and that both have run (there are {most})"
        + _names(groups["wmg"])
    ]
    if groups[other]:
        parts.append(f"It needs more on {len(groups[other])}{_names(groups[other])}")
    if groups["both"]:
        parts.append(f"Both need the same on {len(groups['both'])}{_names(groups['both'])}")
    if groups["neither"]:
        neither = f"{len(groups['neither'])}{_names(groups['neither'])}"
        parts.append(f"Neither median reaches the threshold on {neither}")
    return ". ".join(parts) + "."


def _names(tasks: list[str]) -> str:
    return f": {', '.join(tasks)}" if tasks else ""


def table(data: Json) -> list[str]:
    """A row for each task and agent."""
    lines = [
        "| task | needs | threshold | agent | runs that reach it | interactions, median | "
        "final score | 95% | training, s (median) |",
        "|---" * 9 + "|",
    ]
    for row in data["cells"].values():
        task = TASKS[row["task"]]
        median = f"{row['median']:,.0f}" if row["median"] else f"> {row['interactions']:,}"
        ends = " to ".join(f"{end:.3g}" for end in row["interval"] or []) or "-"
        lines.append(
            f"| {task.title} | {task.needs or '-'} | {task.threshold:g} | {AGENTS[row['agent']]} "
            f"| {row['reached']} of {row['runs']} | {median} | {row['score']:.3g} | {ends} "
            f"| {row['seconds']:,.0f} |"
        )
    return lines


def draw(found: Found, folder: pathlib.Path) -> None:
    """Write the learning curves of each task."""
    for name, task in TASKS.items():
        curves = {}
        for agent, title in AGENTS.items():
            if results := found.get(f"{name}-{agent}"):
                points = min(len(result["steps"]) for result in results)
                rows = [[_score(each) for each in r["scores"][:points]] for r in results]
                steps = np.array(results[0]["steps"][:points], float)
                curves[title] = plots.Curve(steps, np.array(rows))
        if curves:
            lines = {"threshold": task.threshold}
            file, label = folder / f"{name}.png", "mean return"
            plots.learning_curves(curves, file, title=task.title, ylabel=label, lines=lines)


def _score(score: float | None) -> float:
    return math.nan if score is None else score
