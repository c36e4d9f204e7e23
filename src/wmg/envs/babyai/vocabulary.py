"""The words and numbers of BabyAI: what there is, in the order of every encoding.

Directions are 0 right, 1 down, 2 left, 3 up; x runs to the right and y downwards. A view is
7x7, first index the column, with the agent at (3, 6) looking towards row 0.
"""

SIZE = 8
"""Cells along a side of the room, walls included."""
VIEW = 7
MAX_STEPS = 64
OBJECTS = 8
"""The most things in a room."""

ACTIONS = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)

TYPES = ("door", "key", "ball", "box")
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
VERBS = ("go", "pick", "put", "open")
ARTICLES = ("the", "a")
LOCATIONS = ("behind", "front", "left", "right")

UNSEEN, EMPTY, WALL, FLOOR = range(4)
"""What an image says of a cell without a thing; a thing is FIRST_TYPE + its index in TYPES."""
FIRST_TYPE = 4
GREY = COLOURS.index("grey")
"""The colour of walls."""
