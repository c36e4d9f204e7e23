"""Tracks which runs of a batch are still training and keeps the finished ones."""

import jax
import jax.numpy as jnp
import numpy as np

from wmg.config import Hyper
from wmg.runs import hardware
from wmg.types import Run


class ActiveRuns:
    """The runs of a session: a batch that is trained, and finished runs that have left it."""

    def __init__(self, runs: Run, hyper: Hyper):
        self.runs, self.hyper = runs, hyper
        self.names = np.arange(runs.steps.shape[0])
        """Which run each row of the batch is."""
        self.gone: list[tuple[np.ndarray, Run]] = []

    def drop(self, rows: np.ndarray) -> None:
        """Drop finished runs; the remaining ones are recompiled at the smaller batch size."""
        stay = np.setdiff1d(np.arange(len(self.names)), rows)
        self.gone.append((self.names[rows], hardware.take_rows(self.runs, rows)))
        self.runs, self.hyper = hardware.take_rows((self.runs, self.hyper), stay)
        self.names = self.names[stay]

    def shrink(self, ended: np.ndarray, steps: np.ndarray, long_ago: int) -> None:
        """Drop runs that have `ended`, once few have been in training since step `long_ago`.

        `steps`: how many each run has taken. Batch sizes are a quarter of the runs, a sixteenth,
        and so on, so that they are the same after an interruption.
        """
        runs = size = len(ended)
        ends = np.sort(steps[ended])
        while 0 < runs - len(ends) <= size // 4 and ends[runs - size // 4 - 1] <= long_ago:
            size //= 4
        idle = np.flatnonzero(ended[self.names])
        # Those that ended first: so the rest is in the same rows after an interruption.
        idle = idle[np.argsort(steps[self.names[idle]], kind="stable")]
        if len(self.names) > size:
            self.drop(idle[: len(self.names) - size])

    def all(self) -> Run:
        """All runs, in their first order."""
        if not self.gone:
            return self.runs
        one = jax.devices()[0]  # batches of different sizes may be split over different devices
        batches = [*self.gone, (self.names, self.runs)]
        order = np.argsort(np.concatenate([names for names, _ in batches]))
        parts = [jax.device_put(runs, one) for _, runs in batches]
        together = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
        return hardware.take_rows(together, order)
