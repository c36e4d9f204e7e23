"""Plain lines in a pipe, from hand-made reports and a hand-made clock."""

import dataclasses
import gc
import io
import types
import weakref

import pytest

from wmg.runs import progress
from wmg.runs.result import Progress


def report(scores=(50.0,), **changes):
    made = Progress(1000, 20_000, 1234.5, list(scores), None, 0, 1.0, finished=False)
    return dataclasses.replace(made, **changes)


@pytest.fixture
def now(monkeypatch):
    """The time the display believes it is: a list of one number."""
    moment = [100.0]
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: moment[0]))
    return moment


def lines(*reports, now=None, apart=0.0):
    file = io.StringIO()
    with progress.display(file) as display:
        display.start()
        for one in reports:
            display.show(one)
            if now is not None:
                now[0] += apart
    first, *rest = file.getvalue().splitlines()
    assert first == "compiling ..."
    return rest


def test_a_line_gives_steps_rate_score_and_no_guess_at_first(now):
    assert lines(report(scores=[51.26])) == [
        "1,000 of 20,000 steps, 1,234 steps/s, score 51.3%, -:--:-- left",
    ]


def test_of_several_runs_the_median_and_the_best_are_shown():
    assert progress.describe(report(scores=[10.0, 70.0, 20.0, 40.0])) == (
        "1,234 steps/s, score median 30.0%, best 70.0%"
    )


def test_a_return_is_a_number_and_no_percentage():
    one = report(scores=[43.21], metric="return")
    assert progress.describe(one) == "1,234 steps/s, return 43.2"
    several = report(scores=[10.0, 70.0], metric="return")
    assert progress.describe(several) == "1,234 steps/s, return median 40.0, best 70.0"


def test_diverged_runs_are_counted():
    assert progress.describe(report(scores=[10.0, 20.0, 70.0], diverged=2)) == (
        "1,234 steps/s, score median 20.0%, best 70.0%, 2 diverged"
    )


def test_runs_that_have_met_their_goal_are_counted():
    assert progress.describe(report(scores=[10.0, 99.5], solved=1, diverged=1)) == (
        "1,234 steps/s, score median 54.8%, best 99.5%, 1 solved, 1 diverged"
    )
    assert progress.describe(report(scores=[10.0], solved=0)).endswith("score 10.0%, 0 solved")


def test_when_all_runs_have_diverged_there_is_no_score():
    assert progress.describe(report(scores=[], diverged=3)) == "1,234 steps/s, 3 diverged"


def test_the_time_left_follows_from_the_speed_since_the_first_report(now):
    early = report(steps=1000, seconds=500.0)  # slow at first: compiling
    later = report(steps=3000, seconds=520.0)  # 100 steps a second, 17,000 to go
    assert lines(early, later, now=now, apart=10.0)[-1].endswith(", 0:02:50 left")


def test_the_time_left_to_runs_with_a_goal_is_the_most_it_can_be(now):
    early = report(steps=1000, seconds=500.0, solved=0)
    later = report(steps=3000, seconds=520.0, solved=1)
    last = report(steps=4000, seconds=530.0, solved=2, finished=True)
    first, second, third = lines(early, later, last, now=now, apart=10.0)
    assert first.endswith(", 0 solved, -:--:-- left")
    assert second.endswith(", 1 solved, at most 0:02:50 left")
    assert third.endswith(", 2 solved, 0:00:00 left")


def test_lines_come_at_most_every_five_seconds_and_at_the_end(now):
    reports = [report(steps=1000 * i) for i in range(1, 7)]
    printed = lines(*reports, now=now, apart=2.0)
    assert [line.split()[0] for line in printed] == ["1,000", "4,000", "6,000"]


def test_the_last_report_is_printed_also_where_runs_end_before_their_steps(now):
    printed = lines(report(steps=1_000), report(steps=2_000, solved=1), now=now)
    assert len(printed) == 2 and printed[1].startswith("2,000 of 20,000 steps, ")
    assert lines(report(), now=now) and not lines(now=now)


def test_at_the_end_nothing_is_left(now):
    printed = lines(report(steps=19_000, seconds=1.0), report(steps=20_000, seconds=2.0), now=now)
    assert printed[-1].startswith("20,000 of 20,000") and printed[-1].endswith("0:00:00 left")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0:00:00"),
        (59.9, "0:00:59"),
        (60.0, "0:01:00"),
        (3599.0, "0:59:59"),
        (3661.0, "1:01:01"),
        (100 * 3600.0 + 62, "100:01:02"),
        (float("nan"), "-:--:--"),
    ],
)
def test_the_clock_shows_hours_minutes_and_seconds(seconds, shown):
    assert progress.clock(seconds) == shown


def test_on_a_terminal_there_is_a_bar_instead_of_lines():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    file = Terminal()
    with progress.display(file) as display:
        display.start()
        display.show(report(steps=5_000))
    assert "25%" in file.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_display_keeps_no_more_than_the_first_report_and_the_last_two(terminal):
    file = io.StringIO()
    file.isatty = lambda: terminal
    with progress.display(file) as display:
        reports = [report(steps=1000 * i) for i in range(1, 11)]
        known = [weakref.ref(one) for one in reports]
        for _ in range(10):
            display.show(reports.pop(0))
        gc.collect()
        assert sum(one() is not None for one in known) <= 3
