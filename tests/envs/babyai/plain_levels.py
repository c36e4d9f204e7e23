"""minigrid's level generators in plain Python, drawing the same numbers in the same order.

A level for a seed is therefore minigrid's level for that seed, which a test checks; and what
the compiled generators draw is compared with what these do.
"""

import dataclasses

import numpy as np

SORTED_COLOURS = ("blue", "green", "grey", "purple", "red", "yellow")
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))
LIMIT = 1000
DESCRIPTIONS = 100


class Again(Exception):
    """The level cannot be used; another is drawn."""


@dataclasses.dataclass
class Level:
    """(type, colour, x, y) of each thing in the order they were placed, and the mission."""

    agent: tuple = (4, 4)
    direction: int = 0
    things: list = dataclasses.field(default_factory=list)
    verb: str = "go"
    type: str = ""
    colour: str | None = None
    location: str | None = None
    rejected: int = 0
    """Levels thrown away before this one."""

    @property
    def cells(self):
        return {(x, y) for _, _, x, y in self.things}

    @property
    def targets(self):
        """Which things the mission means."""
        described = (self.type, self.colour, self.location)
        return [matches(self, thing, *described) for thing in self.things]


def is_wall(x, y):
    return x in (0, 7) or y in (0, 7)


def matches(level, thing, type, colour, location):
    """Whether a description fits a thing of the level."""
    (ax, ay), (dx, dy) = level.agent, MOVES[level.direction]
    fx, fy = thing[2] - ax, thing[3] - ay
    ahead, right = fx * dx + fy * dy, -fx * dy + fy * dx
    there = {
        None: True,
        "left": right < 0,
        "right": right > 0,
        "front": ahead > 0,
        "behind": ahead < 0,
    }
    return thing[0] == type and colour in (None, thing[1]) and there[location]


class Generator:
    """One seed's levels."""

    def __init__(self, seed):
        self.draw = np.random.default_rng(seed)

    def integer(self, options):
        return int(self.draw.integers(0, options))

    def one_of(self, options):
        return options[self.integer(len(options))]

    def draw_room(self):
        """minigrid draws its column and row even if there is but one."""
        self.integer(1)
        self.integer(1)

    def cell(self, level, distance):
        for _ in range(LIMIT + 1):
            x, y = self.integer(8), self.integer(8)
            near = abs(level.agent[0] - x) + abs(level.agent[1] - y)
            if not is_wall(x, y) and (x, y) not in level.cells and near >= distance:
                return x, y
        raise Again

    def place_agent(self, level):
        self.draw_room()
        while True:
            level.agent = (-9, -9)
            level.agent = self.cell(level, 0)
            level.direction = self.integer(4)
            dx, dy = MOVES[level.direction]
            front = level.agent[0] + dx, level.agent[1] + dy
            if front not in level.cells:
                return

    def place(self, level, type, colour):
        level.things.append((type, colour, *self.cell(level, 2)))

    def place_any(self, level, number):
        for _ in range(number):
            colour = self.one_of(SORTED_COLOURS)
            type = self.one_of(("key", "ball", "box"))
            self.draw_room()
            self.place(level, type, colour)

    def check_reachable(self, level):
        reached, border = set(), [level.agent]
        while border:
            x, y = border.pop()
            if (x, y) in reached or is_wall(x, y):
                continue
            reached.add((x, y))
            if (x, y) not in level.cells:
                border += [(x + dx, y + dy) for dx, dy in MOVES]
        if not level.cells <= reached:
            raise Again

    def level(self, name):
        """A level."""
        rejected = 0
        while True:
            try:
                level = getattr(self, name)(Level())
                return dataclasses.replace(level, rejected=rejected)
            except Again:
                rejected += 1

    def GoToObj(self, level):
        self.place_agent(level)
        self.place_any(level, 1)
        level.type, level.colour = level.things[0][:2]
        return level

    def GoToRedBall(self, level):
        self.place_agent(level)
        self.place(level, "ball", "red")
        self.place_any(level, 7)
        self.check_reachable(level)
        level.type, level.colour = "ball", "red"
        return level

    def GoToRedBallGrey(self, level):
        level = self.GoToRedBall(level)
        level.things[1:] = [(type, "grey", x, y) for type, _, x, y in level.things[1:]]
        return level

    def GoToRedBallGreyBoxes(self, level):
        """The paper's; for this one alone there is no minigrid to compare with."""
        level = self.GoToRedBallGrey(level)
        level.things[1:] = [("box", "grey", x, y) for _, _, x, y in level.things[1:]]
        return level

    def GoToLocal(self, level):
        self.place_agent(level)
        self.place_any(level, 8)
        self.check_reachable(level)
        level.type, level.colour = self.one_of(level.things)[:2]
        return level

    def PickupLoc(self, level):
        self.draw.uniform(0, 1)  # whether a room is locked
        self.place_any(level, 8)
        self.place_agent(level)
        self.check_reachable(level)
        self.one_of(("action",))
        self.one_of(("pickup",))
        level.verb = "pick"
        for _ in range(DESCRIPTIONS + 1):
            level.colour = self.one_of((None, *SORTED_COLOURS))
            level.type = self.one_of(("box", "ball", "key"))
            level.location = None
            if self.integer(2) == 0:
                level.location = self.one_of(("left", "right", "front", "behind"))
            if any(level.targets):
                return level
        raise Again
