"""What environments and agents may show of themselves, to people and to Gymnasium."""

import math
from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
from jaxtyping import Array, Float, Int

from wmg.tools.draw import Frame
from wmg.tools.errors import BadInput

State = TypeVar("State")
Memory = TypeVar("Memory")
Range = tuple[float, float]
UNBOUNDED: Range = (-math.inf, math.inf)


class Bounds(NamedTuple):
    """Smallest and largest numbers of an observation."""

    numbers: Range = UNBOUNDED
    """Of Core and Factors."""
    image: Range = UNBOUNDED


class EnvHooks(eqx.Module, Generic[State]):
    """Methods that an environment defines if it wants to.

    They are called outside of compiled functions, with a state of jax or numpy arrays.
    """

    def picture(self, state: State) -> Frame:
        """A picture of a state. Videos want even sides."""
        raise BadInput(f"{type(self).__name__} has no pictures: define picture(self, state)")

    def text(self, state: State) -> str:
        """A state as text, which may have the colour codes of a terminal."""
        raise BadInput(f"{type(self).__name__} has no text: define text(self, state)")

    def scene(self) -> Any:
        """A `wmg.envs.scenery.Scenery`: how the viewer shows the environment. With None it shows
        the picture, or the numbers that the agent sees."""
        return None

    def bounds(self) -> Bounds:
        """Bounds of all observations, for Gymnasium's spaces."""
        return Bounds()

    def info(self, state: State) -> dict[str, Any]:
        """What Gymnasium's info says during an episode that starts from this state."""
        del state
        return {}


class AgentHooks(eqx.Module, Generic[Memory]):
    """Methods that an agent defines if the viewer should show more than attention."""

    def ages(self, observation: Any, memory: Memory) -> Int[Array, " remembered"] | None:
        """How many steps ago what each memory node holds was written. None if slot i was written
        i + 1 steps ago."""
        del observation, memory
        return None

    def edges_between(
        self, observation: Any, memory: Memory
    ) -> Float[Array, "nodes nodes vector"] | None:
        """The vector of the edge from each node to each other. None if edges have no content."""
        del observation, memory
        return None
