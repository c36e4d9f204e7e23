"""Showing how much of something is done: bars on a terminal, plain lines in a pipe."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from wmg.runs.progress import COMPILING, LINE_SECONDS


@contextlib.contextmanager
def count(file=None) -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows how much of something is done: what, how much, and of how much,
    where 0 means that nobody knows. `COMPILING` is shown until something is done."""
    file = sys.stderr if file is None else file
    with _counting_bar(file) if file.isatty() else _counting_lines(file) as show:
        yield show


@contextlib.contextmanager
def _counting_lines(file) -> Iterator[Callable[[str, int, int], None]]:
    last = [float("-inf")]

    def show(what: str, done: int, total: int) -> None:
        if what == COMPILING:
            print(what, file=file, flush=True)
        elif done == total or time.monotonic() - last[0] >= LINE_SECONDS:
            last[0] = time.monotonic()
            print(f"{what}: {done:,}" + (f" of {total:,}" if total else ""), file=file, flush=True)

    yield show


@contextlib.contextmanager
def _counting_bar(file) -> Iterator[Callable[[str, int, int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TaskID, TextColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description:>16}"), BarColumn(bar_width=30))
    amount = TextColumn("{task.completed:,.0f}")
    with Bar(*columns, amount, console=Console(file=file)) as bar:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what != COMPILING and COMPILING in tasks:
                bar.remove_task(tasks.pop(COMPILING))
            if what not in tasks:
                tasks[what] = bar.add_task(what)
            bar.update(tasks[what], completed=done, total=total or None)

        yield show
