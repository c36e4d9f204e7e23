"""What parts of an observation an agent takes."""

from wmg.types import ObservationSpec


def require_parts(
    agent: str, observation: ObservationSpec, *, factors: bool = False, image: bool = False
) -> None:
    """Refuse Factors or an image that the agent would not look at, and an image that is missing."""
    if observation.factors and not factors:
        names = ", ".join(name for name, _, _ in observation.factors)
        raise ValueError(f"the {agent} agent takes no Factors, but the observation has {names}")
    if observation.image is not None and not image:
        raise ValueError(f"the {agent} agent takes no image, but the observation has one")
    if observation.image is None and image:
        raise ValueError(f"the {agent} agent needs an image, but the observation has none")
