"""Two-sided verdicts: a cell against the paper's number, a claim against our numbers.

A cell *matches* if the whole 95% interval of its centre lies in the target's band around the
paper's number. Otherwise it is *better* or *worse* if the whole interval lies on that side of the
number, and else *not judged*: more runs would tell. A claim *holds* or *fails* if our numbers say
so by more than chance, and else is not judged.
"""

from typing import Literal, NamedTuple

import numpy as np

from wmg.paper.outcome import FEWEST, Outcome
from wmg.paper.target import Band, Cell, Claim, Target
from wmg.tools import stats

SIGNIFICANT = 0.05
"""The p-value below which two samples differ, where one has no finite median."""


class Verdict(NamedTuple):
    """What came of a comparison, and the reason or the numbers behind it."""

    verdict: Literal["matches", "better", "worse", "holds", "fails", "not judged"]
    why: str


def of_cell(target: Target, cell: str, outcome: Outcome) -> Verdict | None:
    """How a cell compares with the paper's number; None if the paper has none."""
    asked = target.cells[cell]
    if asked.paper is None:
        return None
    if why := _too_little(asked, outcome):
        return Verdict("not judged", why)
    return compare(outcome.interval, asked.paper, target.band_of(cell), target.better)


def _too_little(asked: Cell, outcome: Outcome) -> str:
    """Why an outcome cannot be judged, if it cannot."""
    if not outcome.regridded:
        return "cannot be re-gridded"
    if not outcome.trained:
        return ""
    # If the interval is finite, longer runs would not change the median.
    known = outcome.censored and np.isfinite(outcome.interval[1])
    if not known and outcome.steps is not None and outcome.steps < asked.config.steps:
        return f"{outcome.steps:,} of {asked.config.steps:,} steps"
    return too_few(outcome)


def too_few(*outcomes: Outcome) -> str:
    """Why there are too few runs to judge from, if there are."""
    fewest = min((len(each.values) for each in outcomes if each.trained), default=FEWEST)
    if fewest >= FEWEST:
        return ""
    return "a single run" if fewest == 1 else f"{fewest} runs; {FEWEST} are needed"


def compare(
    interval: tuple[float, float],
    paper: int | float,
    band: Band,
    better: Literal["lower", "higher", "neither"],
) -> Verdict:
    """How an interval compares with a number."""
    low, high = interval
    least, most = band.around(paper)
    rounding = 1e-9 * max(1.0, abs(paper))
    if least - rounding <= low and high <= most + rounding:
        return Verdict("matches", "")
    if high < paper:
        return Verdict("better" if better == "lower" else "worse", "")
    if low > paper:
        return Verdict("better" if better == "higher" else "worse", "")
    return Verdict("not judged", "the interval holds the paper's number, and is wider than a match")


def judge(claim: Claim, outcomes: dict[str, Outcome], full: set[str]) -> Verdict:
    """Whether a claim holds. `full` has the cells that were run for as many steps as in the
    paper."""
    needed = {claim.cell, claim.other} if isinstance(claim.other, str) else {claim.cell}
    if needed - outcomes.keys():
        return Verdict("not judged", "not all cells were run")
    ours = outcomes[claim.cell]
    if claim.after is not None and (ours := ours.after(claim.after)) is None:
        return Verdict("not judged", f"no score after {claim.after:,} steps")
    other, where = None, ""
    if isinstance(claim.other, str):
        ours, other, where = equally_long(ours, outcomes[claim.other])
        if ours is None or other is None:
            return Verdict("not judged", "no report as early as the other's end")
    both = [ours] if other is None else [ours, other]
    if any(len(each.values) == 0 for each in both):
        return Verdict("not judged", "every run diverged, or cannot be re-gridded")
    if claim.full_scale and needed - full:
        return Verdict("not judged", f"{number(ours.centre)} after fewer steps than in the paper")
    if why := too_few(*both):
        return Verdict("not judged", f"{number(ours.centre)}, from {why}")
    if len(precisions := sorted({each.precision for each in both})) > 1:
        return Verdict("not judged", f"products in {' against '.join(precisions)}")
    if claim.kind == "unsolved":
        return _judge_unsolved(claim, ours)
    if other is None:
        return _judge_number(claim, ours)
    curves = ours.curve is not None and other.curve is not None
    if not ours.censored and not curves and ours.steps != other.steps:
        lengths = ["none" if each.steps is None else f"{each.steps:,}" for each in both]
        return Verdict("not judged", f"steps of training: {' against '.join(lengths)}")
    return _judge_difference(claim, ours, other, where)


def equally_long(one: Outcome, other: Outcome) -> tuple[Outcome | None, Outcome | None, str]:
    """Both outcomes where the shorter of two learning curves ends, and where that is in words."""
    if one.curve is None or other.curve is None or one.curve.steps[-1] == other.curve.steps[-1]:
        return one, other, ""
    end = min(float(one.curve.steps[-1]), float(other.curve.steps[-1]))
    return one.until(end), other.until(end), f", at {end:,.0f} steps"


def _judge_unsolved(claim: Claim, ours: Outcome) -> Verdict:
    solved, share = int(np.isfinite(ours.values).sum()), float(claim.other)
    low, high = stats.wilson(solved, len(ours.values))
    numbers = f"{solved} of {len(ours.values)} runs solved, {low:.0%} to {high:.0%}"
    return _decide(high < share, low > share, numbers)


def _judge_number(claim: Claim, ours: Outcome) -> Verdict:
    value, (low, high) = claim.times * float(claim.other), ours.interval
    numbers = f"{number(low)} to {number(high)} against {number(value)}"
    above, below = low > value, high < value
    return _decide(*((above, below) if claim.kind == "above" else (below, above)), numbers)


def _judge_difference(claim: Claim, ours: Outcome, other: Outcome, where: str) -> Verdict:
    value = claim.times * other.centre
    numbers = f"{number(ours.centre)} against {number(value)}{where}"
    if np.isinf(ours.centre) and np.isinf(value):
        return Verdict("not judged", "neither median was reached")
    gap = ours.centre - value
    if np.isinf(gap):  # one of the two was not solved by half of its runs
        p = stats.rank_test(ours.values, claim.times * other.values)
        error = 0.0 if p < SIGNIFICANT else np.inf
        numbers += f", rank test p = {p:.2g}"
    else:
        error = float(np.hypot(ours.standard_error, claim.times * other.standard_error))
        numbers += f", standard error of the difference {error:.2f}"
    if np.isinf(error):
        return _decide(False, False, numbers)
    if claim.kind == "alike":
        inside = abs(gap) + 2 * error <= claim.margin
        return _decide(inside, abs(gap) - 2 * error > claim.margin, numbers)
    above, below = gap > 2 * error, gap < -2 * error
    return _decide(*((above, below) if claim.kind == "above" else (below, above)), numbers)


def _decide(holds: bool, fails: bool, numbers: str) -> Verdict:
    if holds or fails:
        return Verdict("holds" if holds else "fails", numbers)
    return Verdict("not judged", f"{numbers}: within chance")


def number(value: float | None) -> str:
    """A number as a table shows it."""
    if value is None or not np.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}"
