"""Agents of the authors' kinds that are small enough for a test."""

from typing import Any

from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings

SMALL: dict[str, Any] = {
    "layers": 2,
    "heads": 2,
    "head_size": 4,
    "hidden": 3,
    "actor_critic": 5,
}
SECOND: dict[str, Any] = {"shared_heads": True, "start": "empty", "age": "added"}
AGENTS = {
    "first": WMGSettings(slots=3, memo_size=6, **SMALL),
    "second": WMGSettings(slots=3, memo_size=6, **SMALL, **SECOND),
    "history": WMGSettings(memory="observations", slots=3, memo_size=0, **SMALL),
    "gru": GRUSettings(embedding=4, size=3, actor_critic=5),
}
