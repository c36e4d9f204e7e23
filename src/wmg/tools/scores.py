"""How a score is written: in percent, or as a number where it is a mean return."""

from typing import Literal

Metric = Literal["success", "reward", "return"]


def name(metric: str) -> str:
    """What the score of an environment with this metric is called."""
    return "return" if metric == "return" else "score"


def unit(metric: str) -> str:
    """What stands behind the number."""
    return "" if metric == "return" else "%"


def axis(metric: str) -> str:
    """The label of an axis with scores."""
    return "return" if metric == "return" else "score in %"


def write(metric: str, score: float, digits: int = 1) -> str:
    """A score with its unit."""
    return f"{score:.{digits}f}{unit(metric)}"
