"""What is said of an observation that an agent cannot take."""

import pytest

from wmg.agents.accepts import require_parts
from wmg.types import ObservationSpec

CORE = ObservationSpec(2)
FACTORED = ObservationSpec(2, (("balls", 3, 3), ("walls", 1, 2)))
IMAGE = ObservationSpec(2, image=(7, 7, 3))
BOTH = ObservationSpec(2, (("balls", 3, 3),), (7, 7, 3))


@pytest.mark.parametrize(
    ("observation", "takes"),
    [
        (CORE, {}),
        (CORE, {"factors": True}),
        (FACTORED, {"factors": True}),
        (IMAGE, {"image": True}),
        (BOTH, {"factors": True, "image": True}),
    ],
)
def test_what_an_agent_takes_is_accepted(observation, takes):
    require_parts("tiny", observation, **takes)


@pytest.mark.parametrize(
    ("observation", "takes", "message"),
    [
        (FACTORED, {}, "takes no Factors, but the observation has balls, walls"),
        (IMAGE, {}, "takes no image, but the observation has one"),
        (IMAGE, {"factors": True}, "takes no image, but the observation has one"),
        (BOTH, {"image": True}, "takes no Factors, but the observation has balls"),
        (CORE, {"image": True}, "needs an image, but the observation has none"),
    ],
)
def test_parts_that_would_be_ignored_or_are_missing_are_named(observation, takes, message):
    with pytest.raises(ValueError) as refusal:
        require_parts("tiny", observation, **takes)
    assert str(refusal.value) == f"the tiny agent {message}"
