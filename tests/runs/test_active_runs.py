"""Runs that leave a batch, and all of them together again."""

import jax
import numpy as np
from probes import PaysActionOne
from tiny import keys_may_be_split_up, settings  # noqa: F401

from wmg.runs import train
from wmg.runs.active_runs import Roster


def test_everyone_is_there_in_the_first_order_whoever_has_left():
    some = settings(env=None, runs=6, vary=("entropy=0,0.1,0.2,0.3,0.4,0.5",))
    whole = train.start_runs(some, PaysActionOne(actions=2))
    roster = Roster(whole, train.stack_hypers(some))
    roster.dismiss(np.array([1, 4]))
    roster.dismiss(np.array([0, 2]))  # of the four that are left: runs 0 and 3
    assert roster.names.tolist() == [2, 5]
    np.testing.assert_allclose(roster.hyper.entropy, [0.2, 0.5])
    for one, other in zip(*map(jax.tree.leaves, (roster.everyone(), whole)), strict=True):
        assert one.dtype == other.dtype and bool((one == other).all())
