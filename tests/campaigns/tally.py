"""What came of the cases of a campaign."""

import contextlib
import dataclasses
import json
import pathlib
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from wmg.tools import files, machine
from wmg.tools.errors import BadInput

LIMIT = 5.0
"""Seconds that a case may take longer than the same thing undamaged."""
LONGEST = 1000
"""Characters of a refusal, at most."""


class Hung(BaseException):
    """A case took too long. No `except Exception` of the code under test catches it."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises `Hung` in the block after that time."""

    def hang(number: int, frame: Any) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@dataclasses.dataclass
class Tally:
    """Counts of one kind of case. `faults` describes what must not happen."""

    tried: int = 0
    refused: int = 0
    accepted: int = 0
    wrong: int = 0
    hung: int = 0
    slowest: float = 0.0
    """Seconds of the slowest case."""
    faults: list[str] = dataclasses.field(default_factory=list)
    note: str = ""
    """What else was measured."""

    def add(self, outcome: str, seconds: float = 0.0, fault: str = "") -> None:
        """Count a case: 'refused', 'accepted', 'wrong' or 'hung'."""
        self.tried += 1
        setattr(self, outcome, getattr(self, outcome) + 1)
        self.slowest = max(self.slowest, round(seconds, 3))
        if fault:
            self.faults.append(fault)

    def attempt(self, case: str, do: Callable[[], str | None], limit: float = LIMIT) -> None:
        """Try a case. `do` raises `BadInput` to refuse, and returns what is wrong, if anything."""
        began = time.monotonic()
        try:
            with time_limit(limit):
                fault = do()
            outcome = "wrong" if fault else "accepted"
        except BadInput as error:
            fault = _bad_refusal(str(error))
            outcome = "wrong" if fault else "refused"
        except Hung:
            outcome, fault = "hung", f"took more than {limit:.1f} s"
        except Exception as error:
            outcome, fault = "wrong", f"raised {type(error).__name__}: {str(error)[:200]}"
        self.add(outcome, time.monotonic() - began, f"{case}: {fault}" if fault else "")


def _bad_refusal(sentence: str) -> str | None:
    """What is wrong with a refusal, if anything."""
    if not sentence.strip() or "\n" in sentence or len(sentence) > LONGEST:
        return f"is refused with {sentence[:200]!r}, which is not one short sentence"
    return None


def write(
    tallies: dict[str, Tally], name: str, command: str, seconds: float, out: pathlib.Path
) -> pathlib.Path:
    """Write the counts of a campaign as JSON."""
    out.mkdir(parents=True, exist_ok=True)
    data = {
        "campaign": name,
        "command": command,
        "ended": machine.now(),
        "seconds": round(seconds, 1),
        "hardware": machine.describe(),
        "counts": {kind: dataclasses.asdict(tally) for kind, tally in tallies.items()},
    }
    path = out / f"{name}.json"
    files.write_atomically(path, (json.dumps(data, indent=1) + "\n").encode())
    return path


def table(tallies: dict[str, Tally]) -> str:
    """The counts as text, a line a kind."""
    names = ("tried", "refused", "accepted", "wrong", "hung", "slowest")
    rows = [("", *names)]
    rows += [(kind, *(str(getattr(t, n)) for n in names)) for kind, t in tallies.items()]
    return "\n".join(f"{row[0]:24}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)


def row(data: dict) -> str:
    """The counts of a campaign's JSON as a row of the table in docs/reliability.md."""
    names = ("tried", "refused", "accepted", "wrong", "hung")
    sums = [sum(kind[name] for kind in data["counts"].values()) for name in names]
    counts = " | ".join(f"{number:,}" for number in sums)
    return f"| {data['campaign']} | {', '.join(data['counts'])} | {counts} |"
