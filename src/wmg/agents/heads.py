"""Actor and critic on top of an agent's summary vector."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from wmg.agents.layers import Linear, relu
from wmg.types import Learner, Memory


class ActorCritic(eqx.Module):
    """Two layers each for policy and value; the first may be one and the same.

    The policy's last layer starts at zero, so that every agent begins by acting uniformly.
    """

    actor_hidden: Linear
    critic_hidden: Linear | None
    """None where the actor's first layer serves both."""
    policy: Linear
    value: Linear

    @staticmethod
    def create(size: int, hidden: int, actions: int, shared: bool, *, key: PRNGKeyArray):
        akey, ckey, vkey = jax.random.split(key, 3)
        return ActorCritic(
            actor_hidden=Linear.create(size, hidden, key=akey),
            critic_hidden=None if shared else Linear.create(size, hidden, key=ckey),
            policy=Linear.zeros(hidden, actions),
            value=Linear.create(hidden, 1, key=vkey),
        )

    def __call__(
        self, summary: Float[Array, "*rows size"]
    ) -> tuple[Float[Array, "*rows actions"], Float[Array, "*rows"]]:
        """Action logits and the value."""
        actor = relu(self.actor_hidden(summary))
        critic = actor if self.critic_hidden is None else relu(self.critic_hidden(summary))
        return self.policy(actor), self.value(critic)[..., 0]


class ActorCriticAgent(Learner[Memory]):
    """An agent that decides by actor and critic."""

    actor_critic: eqx.AbstractVar[ActorCritic]

    def decide(
        self, summary: Float[Array, "*rows size"]
    ) -> tuple[Float[Array, "*rows actions"], Float[Array, "*rows"]]:
        return self.actor_critic(summary)
