"""What each environment looks like in the viewer: its state as JSON, and how to choose one.

A new environment is a file here, a line in SCENERIES, and a drawing of the same name in
`page/scenes`.
"""

from wmg.envs.babyai import scene as babyai
from wmg.envs.pathfinding import scene as pathfinding
from wmg.envs.scenery import Scenery as Scenery
from wmg.envs.sokoban import scene as sokoban

SCENERIES: dict[str, Scenery] = {
    "babyai": babyai.SCENERY,
    "pathfinding": pathfinding.SCENERY,
    "sokoban": sokoban.SCENERY,
}
