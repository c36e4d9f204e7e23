"""Runs that leave a batch, and all of them together again."""

import jax
import numpy as np
from probes import PaysActionOne
from tiny import keys_may_be_split_up, settings  # noqa: F401

from wmg.runs import task
from wmg.runs.active_runs import ActiveRuns


def test_all_runs_are_there_in_the_first_order_whichever_were_dropped():
    some = settings(env=None, runs=6, vary=("entropy=0,0.1,0.2,0.3,0.4,0.5",))
    whole = task.start_runs(some, PaysActionOne(actions=2))
    batch = ActiveRuns(whole, task.stack_hypers(some))
    batch.drop(np.array([1, 4]))
    batch.drop(np.array([0, 2]))  # of the four that are left: runs 0 and 3
    assert batch.names.tolist() == [2, 5]
    np.testing.assert_allclose(batch.hyper.entropy, [0.2, 0.5])
    for one, other in zip(*map(jax.tree.leaves, (batch.all(), whole)), strict=True):
        assert one.dtype == other.dtype and bool((one == other).all())
