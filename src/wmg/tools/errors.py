"""The one error that a user's mistake raises, and how it quotes the user."""

import difflib
from collections.abc import Iterable

LONGEST = 80
"""Most characters of the user's input that an error message repeats."""
LONGEST_SENTENCE = 800
"""Most characters of an error message. Some libraries quote the whole file they cannot read."""


class BadInput(Exception):
    """Something the user gave cannot be used; the message is one sentence that says why."""

    def __init__(self, sentence: "str | BadInput"):
        # Gymnasium raises the error of a worker again, as BadInput(error).
        super().__init__(cut(str(sentence), LONGEST_SENTENCE))


class FailedCode(BadInput):
    """Code that the user gave raised an error, which is the cause (`__cause__`) of this one."""


def cut(text: str, longest: int) -> str:
    """The text, or its beginning where it is longer."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def quote(value: object) -> str:
    """The user's input for an error message, cut short where it is long."""
    text = repr(cut(value, LONGEST) if isinstance(value, str) else value)
    return text if len(text) <= LONGEST + 2 else cut(text, LONGEST)


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """A hint at the known word that is most like this one; `otherwise` if none is like it."""
    close = difflib.get_close_matches(word, list(known), 1)
    return f"did you mean {close[0]!r}?" if close else otherwise
