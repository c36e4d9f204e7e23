"""The gated recurrent baseline of the paper."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wmg.agents.recurrent.agent import CoreAgent, RecurrentCell


class GRUCell(RecurrentCell[Array]):
    """PyTorch's GRU cell: gates in the order reset, update, new."""

    gates: ClassVar[int] = 3

    def initial_memory(self) -> Float[Array, " size"]:
        return jnp.zeros(self.size)

    def __call__(
        self, x: Float[Array, " in"], memory: Float[Array, " size"]
    ) -> Float[Array, " size"]:
        reset_x, update_x, new_x = jnp.split(self.inputs(x), 3)
        reset_h, update_h, new_h = jnp.split(self.hidden(memory), 3)
        reset = jax.nn.sigmoid(reset_x + reset_h)
        update = jax.nn.sigmoid(update_x + update_h)
        new = jnp.tanh(new_x + reset * new_h)
        return new + update * (memory - new)

    def visible(self, memory: Float[Array, " size"]) -> Float[Array, " size"]:
        return memory


class GRU(CoreAgent[Array]):
    """The paper's GRU agent. Its observation must be a Core without Factors."""

    @property
    def cell_class(self) -> type[GRUCell]:
        return GRUCell
