"""A slow, obvious restatement of Sokoban: dictionaries, loops and text, no jax."""

import numpy as np

MOVES = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
"""Stay, up, down, left, right: rows and columns."""
REWARDS = (0.0, 1.0, -1.0, 2.0)


class Plain:
    """One episode, from a level's text."""

    def __init__(self, text, rewards=REWARDS, max_steps=120):
        rows = text.strip("\n").split("\n")
        cells = {(r, c): mark for r, row in enumerate(rows) for c, mark in enumerate(row)}
        self.floor = {cell for cell, mark in cells.items() if mark != "#"}
        self.targets = {cell for cell, mark in cells.items() if mark in ".*+"}
        self.boxes = {cell for cell, mark in cells.items() if mark in "$*"}
        (self.player,) = [cell for cell, mark in cells.items() if mark in "@+"]
        self.action, self.reward, self.time = 0, 0.0, 0
        self.rewards, self.max_steps = rewards, max_steps
        self.cells = sorted(self.floor)

    @property
    def solved(self):
        return self.boxes <= self.targets

    @property
    def done(self):
        return self.solved or self.time >= self.max_steps

    def step(self, action):
        stored = len(self.boxes & self.targets)
        dr, dc = MOVES[action]
        row, column = self.player
        ahead, beyond = (row + dr, column + dc), (row + 2 * dr, column + 2 * dc)
        if action and ahead in self.boxes:
            if beyond in self.floor and beyond not in self.boxes:
                self.boxes = self.boxes - {ahead} | {beyond}
                self.player = ahead
        elif ahead in self.floor:
            self.player = ahead
        each, on, off, solved = self.rewards
        now = len(self.boxes & self.targets)
        self.reward = each + (on if now > stored else off if now < stored else 0.0)
        self.reward += solved if self.solved else 0.0
        self.action, self.time = action, self.time + 1

    def walls(self, cell):
        """To the left, above, to the right, below."""
        row, column = cell
        sides = [(row, column - 1), (row - 1, column), (row, column + 1), (row + 1, column)]
        return [float(side not in self.floor) for side in sides]

    def core(self):
        last = [float(action == self.action) for action in range(5)]
        on_target = [float(self.player in self.targets)]
        return np.float32([*last, self.reward, *on_target, *self.walls(self.player)])

    def factors(self, bound=10):
        """One row for each cell but the player's."""
        rows = []
        for cell in self.cells:
            if cell != self.player:
                row = []
                for axis in (1, 0):
                    distance, far = cell[axis] - self.player[axis], bound - 3
                    row.append(distance / far)
                    row += [float(distance == d) for d in range(-far, far + 1)]
                row += [float(cell in self.targets), float(cell in self.boxes), 0.0]
                rows.append([*row, *self.walls(cell)])
        return np.array(rows, np.float32).reshape(-1, 4 * bound - 1)

    def planes(self, bound=10):
        """Walls, targets, boxes, player."""
        image = np.zeros((bound, bound, 4), np.float32)
        image[..., 0] = 1
        for cell in self.floor:
            image[(*cell, 0)] = 0
        for plane, cells in ((1, self.targets), (2, self.boxes), (3, {self.player})):
            for cell in cells:
                image[(*cell, plane)] = 1
        return image


def draw_level(draw: np.random.Generator, bound=10, largest=None):
    """The text of a level that need not be solvable: small rooms often are, by chance."""
    largest = largest or bound
    while True:
        height, width = draw.integers(3, largest + 1, 2)
        board = np.full((height, width), "#")
        inner = board[1:-1, 1:-1]
        inner[draw.random(inner.shape) > draw.choice([0.0, 0.15, 0.35])] = " "
        floor = np.argwhere(board == " ")
        boxes = int(draw.choice([1, 1, 1, 2, 3, 4]))
        if len(floor) < 2 * boxes + 2:
            continue
        player, *places = draw.permutation(floor)
        for row, column in places[:boxes]:
            board[row, column] = "$"
        goals = draw.permutation(places)[: boxes + int(draw.choice([0, 1, 8]))]
        for row, column in goals:
            board[row, column] = {"$": "*", " ": "."}[str(board[row, column])]
        board[tuple(player)] = "+" if draw.random() < 0.1 else "@"
        if "$" in board:  # not solved already
            return "\n".join("".join(row) for row in board)
