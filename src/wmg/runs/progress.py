"""Showing how training goes: a live bar on a terminal, plain lines in a pipe."""

import contextlib
import dataclasses
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from wmg.runs.result import Progress
from wmg.tools import scores as score_text

COMPILING = "compiling ..."
LINE_SECONDS = 5.0
"""Least time between two lines in a pipe."""


def describe(progress: Progress) -> str:
    """One line: rate, score of the median and the best run, runs that solved or diverged."""
    scores, metric = progress.scores, progress.metric
    name = score_text.name(metric)
    by = f" by {progress.engine}" if progress.engine else ""
    parts = [f"{progress.rate:,.0f} steps/s{by}"]
    if len(scores) == 1:
        parts.append(f"{name} {score_text.write(metric, scores[0])}")
    elif scores:
        middle, best = (score_text.write(metric, f(scores)) for f in (statistics.median, max))
        parts.append(f"{name} median {middle}, best {best}")
    if progress.solved is not None:
        parts.append(f"{progress.solved} solved")
    if progress.diverged:
        parts.append(f"{progress.diverged} diverged")
    return ", ".join(parts)


def remaining(progress: Progress, first: Progress) -> str:
    """The remaining time, by the speed since the first report of this session. Runs with a goal may
    end sooner."""
    if progress.finished:
        return f"{clock(0.0)} left"
    done = progress.steps - first.steps
    took = progress.seconds - first.seconds
    if not done:
        return f"{clock(float('nan'))} left"
    at_most = "at most " if progress.solved is not None else ""
    return f"{at_most}{clock(took / done * (progress.total - progress.steps))} left"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds as h:mm:ss."""
    if seconds != seconds:
        return "-:--:--"
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}:{int(seconds % 60):02d}"


@dataclasses.dataclass(frozen=True)
class Display:
    """What shows how training goes: two functions to hand to `train`."""

    start: Callable[[], None]
    """Says that programs are compiled, until the first report."""
    show: Callable[[Progress], None]


@contextlib.contextmanager
def display(file=None) -> Iterator[Display]:
    """A display for one training."""
    file = sys.stderr if file is None else file
    with _live(file) if file.isatty() else _lines(file) as made:
        yield made


@contextlib.contextmanager
def _lines(file) -> Iterator[Display]:
    kept: list[Progress] = []  # the first report and the last: there may be millions
    written: Progress | None = None
    due = float("-inf")

    def write(progress: Progress) -> None:
        nonlocal written
        written = progress
        steps = f"{progress.steps:,} of {progress.total:,} steps"
        left = remaining(progress, kept[0])
        print(f"{steps}, {describe(progress)}, {left}", file=file, flush=True)

    def show(progress: Progress) -> None:
        nonlocal due
        kept[1:] = [progress]
        if time.monotonic() >= due:
            due = time.monotonic() + LINE_SECONDS
            write(progress)

    yield Display(lambda: print(COMPILING, file=file, flush=True), show)
    if kept and kept[-1] is not written:
        write(kept[-1])


@contextlib.contextmanager
def _live(file) -> Iterator[Display]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.percentage:>4.0f}%"),
        BarColumn(bar_width=30),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(file=file)) as bar:
        task = bar.add_task("", total=None)
        first: Progress | None = None

        def show(progress: Progress) -> None:
            nonlocal first
            first = first or progress
            text = f"{describe(progress)}, {remaining(progress, first)}"
            bar.update(task, completed=progress.steps, total=progress.total, description=text)

        yield Display(lambda: bar.update(task, description=COMPILING), show)
