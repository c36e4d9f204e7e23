"""The one error that a user's mistake raises, and how it quotes the user."""

LONGEST = 80
"""How many characters of the user's input an error message repeats."""


class BadInput(Exception):
    """Something the user gave cannot be used; the message is one sentence that says why."""


def quote(value: object) -> str:
    """The user's input for an error message, cut short where it is long."""
    if isinstance(value, str) and len(value) > LONGEST:
        value = value[: LONGEST - 3] + "..."
    text = repr(value)
    return text if len(text) <= LONGEST + 2 else text[: LONGEST - 3] + "..."
