"""Counts on a terminal and in a pipe, by a hand-made clock."""

import io
import types

import pytest

from wmg.runs import counter


@pytest.fixture
def now(monkeypatch):
    """The time the counter believes it is: a list of one number."""
    moment = [100.0]
    monkeypatch.setattr(counter, "time", types.SimpleNamespace(monotonic=lambda: moment[0]))
    return moment


def test_counting_writes_a_line_now_and_then_and_at_each_end(now):
    file = io.StringIO()
    with counter.count(file) as show:
        show(counter.COMPILING, 0, 0)
        for done in range(1, 5):
            show("levels", 1000 * done, 4000)
            now[0] += 2.0
        show("download", 7, 0)
        show("download", 9000, 0)
        now[0] += 5.0
        show("download", 9001, 0)
    assert file.getvalue().splitlines() == [
        "compiling ...",
        "levels: 1,000 of 4,000",
        "levels: 4,000 of 4,000",
        "download: 9,001",
    ]


def test_counting_on_a_terminal_draws_a_bar_for_each_thing():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    with counter.count(terminal) as show:
        show("hard", 3332, 3332)
        show("download", 5, 0)
    drawn = terminal.getvalue()
    assert "hard" in drawn and "3,332" in drawn and "download" in drawn
