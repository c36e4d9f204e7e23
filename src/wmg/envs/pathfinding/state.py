"""What an episode of Pathfinding is made of."""

import equinox as eqx
from jaxtyping import Array, Bool, Float, Int


class PathfindingState(eqx.Module):
    """One episode as a script, and how far it has been played.

    Row i of `source` and `target` are the nodes shown in step i: for a link (even i) where
    it starts and ends, for a quiz (odd i) the pair that is asked about.
    """

    patterns: Float[Array, "nodes pattern"]
    source: Int[Array, " steps"]
    target: Int[Array, " steps"]
    answers: Bool[Array, " steps"]
    """Whether a path leads from source to target; False on link steps."""
    time: Int[Array, ""]
    right: Int[Array, ""]
    """Quizzes answered correctly so far."""
