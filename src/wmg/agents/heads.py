"""What agents that learn have in common: actor and critic, and a check of the observations."""

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from wmg.agents.layers import Linear, relu
from wmg.types import Learner, Memory, ObservationSpec


class ActorCritic(eqx.Module):
    """Two layers each for policy and value; they may share the first.

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


def require_parts(
    agent: str, observation: ObservationSpec, *, factors: bool = False, image: bool = False
) -> None:
    """Refuse Factors or an image that the agent would ignore, and an image that is missing."""
    if observation.factors and not factors:
        names = ", ".join(name for name, _, _ in observation.factors)
        raise ValueError(
            f"the {agent} agent takes no Factors, but the observation has {names}; "
            "some environments can show them flattened in the Core"
        )
    if observation.image is not None and not image:
        raise ValueError(f"the {agent} agent takes no image, but the observation has one")
    if observation.image is None and image:
        raise ValueError(f"the {agent} agent needs an image, but the observation has none")
