"""The one error that a user's mistake raises."""


class BadInput(Exception):
    """Something the user gave cannot be used; the message is one sentence that says why."""
