"""`wmg plot`: learning curves of several run folders in one figure."""

import dataclasses
import json as jsonlib
import pathlib
from typing import Any

from wmg.cli.options import parse
from wmg.cli.start import require_new, split_names
from wmg.tools import scores
from wmg.tools.errors import BadInput


@dataclasses.dataclass(frozen=True)
class PlotOptions:
    """Draw the learning curves of run folders: the mean score of each folder's runs, with a band of
    one standard deviation over runs."""

    out: pathlib.Path | None = None
    """The figure, a new .png or .svg (default: curves.png; with --json, none)."""
    title: str = "Learning curves"
    """What is written above the figure."""
    json: bool = False
    """Print the numbers of the curves as JSON."""


def run(args: list[str]) -> int:
    """`wmg plot FOLDER ...`"""
    folders, args = split_names(args)
    options = parse(PlotOptions, args, "wmg plot FOLDER ...")
    if not folders:
        raise BadInput("name the run folders whose curves are drawn")
    paths = [pathlib.Path(name) for name in folders]
    if repeated := [path for path in paths if paths.count(path) > 1]:
        raise BadInput(f"{min(repeated)} is named twice")
    from wmg.tools import plots

    out = options.out or (None if options.json else pathlib.Path("curves.png"))
    require_new(out)
    if out is not None:
        plots.check_format(out)
    curves = {name: read_curve(pathlib.Path(name)) for name in folders}
    if out is not None:
        each = zip(labels(folders), curves.values(), strict=True)
        labelled = {f"{label}, {count(len(c.scores))}": c for label, c in each}
        ylabel = scores.axis(common_metric(folders))
        plots.learning_curves(labelled, out, title=options.title, ylabel=ylabel)
    if options.json:
        print(jsonlib.dumps([{"folder": name, **numbers(c)} for name, c in curves.items()]))
    else:
        print(f"learning curves: {out}")
    return 0


def common_metric(folders: list[str]) -> str:
    """What the scores of all folders are."""
    from wmg.runs import folder_logs

    metrics = {name: folder_logs.read_metric(pathlib.Path(name)) for name in folders}
    odd = [name for name in folders if metrics[name] != metrics[folders[0]]]
    if odd:
        raise BadInput(
            f"returns and scores in percent do not fit one figure: those of {folders[0]} and of "
            f"{odd[0]} differ"
        )
    return metrics[folders[0]]


def read_curve(folder: pathlib.Path) -> Any:
    """The scores of all runs of a folder."""
    from wmg.runs import folder_logs, runfolder
    from wmg.tools import plots

    settings = runfolder.read_config(folder)
    steps, scores = folder_logs.read_scores(folder, settings.runs)
    if not steps.size:
        raise BadInput(f"{folder} has no report yet: there is no curve to draw")
    return plots.Curve(steps, scores)


def labels(folders: list[str]) -> list[str]:
    """What a figure calls the folders: the last parts of their names, if those are different."""
    last = [pathlib.Path(name).name or name for name in folders]
    chosen = last if len(set(last)) == len(last) else folders
    return [name.encode(errors="backslashreplace").decode() for name in chosen]


def count(runs: int) -> str:
    """The number of runs in words."""
    return "1 run" if runs == 1 else f"{runs} runs"


def numbers(curve: Any) -> dict[str, Any]:
    """The curve of a folder: null where no run has a score."""
    from wmg.runs import runlog
    from wmg.tools import plots

    mean, deviation, alive = plots.spread(curve.scores)
    return {
        "runs": len(curve.scores),
        "steps": runlog.plain(curve.steps),
        "mean": runlog.plain(mean),
        "standard_deviation": runlog.plain(deviation),
        "runs_with_a_score": runlog.plain(alive),
    }
