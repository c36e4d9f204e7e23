"""What each environment looks like in the viewer: its state as JSON, and how to choose one.

A new environment is a file here, a line in SCENERIES, and a drawing of the same name in
`page/scenes`.
"""

from wmg.viewer.scenes import babyai, pathfinding, sokoban
from wmg.viewer.scenes.scenery import Scenery as Scenery

SCENERIES: dict[str, Scenery] = {
    "babyai": babyai.SCENERY,
    "pathfinding": pathfinding.SCENERY,
    "sokoban": sokoban.SCENERY,
}
