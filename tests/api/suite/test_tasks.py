"""The suite's tasks as data, and the page that lists them."""

import pathlib

import own

from wmg.api import defaults
from wmg.api.suite.tasks import AGENTS, CELLS, ENVS, REPORT, TASKS

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "results" / "suite.md"


def test_no_budget_is_above_the_limit_and_reports_fit_into_each():
    budgets = [task.budget for task in TASKS.values()]
    assert max(budgets) <= 300_000
    assert [budget for budget in budgets if budget % REPORT] == []


def test_our_rounds_fit_into_a_report_and_use_as_many_environments():
    made = defaults.config_for(own.make_bag(), None)
    assert made.batched is not None and made.batched.envs == ENVS
    assert REPORT % (made.batched.envs * made.batched.windows * made.t_max) == 0


def test_every_task_has_a_cell_for_each_agent():
    assert len(CELLS) == len(TASKS) * len(AGENTS)
    assert CELLS["memory-s7-recurrent-ppo"] == ("memory-s7", "recurrent-ppo")


def test_the_page_lists_every_task_with_its_threshold_and_budget():
    page = PAGE.read_text()
    rows = [
        f"| {name} | {task.title} | {task.needs or '-'} | {task.threshold:g} | {task.why} "
        f"| {task.budget:,} | {task.package} |"
        for name, task in TASKS.items()
    ]
    assert [row for row in rows if row not in page] == []


def test_what_a_fixed_rule_without_memory_reaches_needs_neither_memory_nor_sets():
    # Row by row has 0.16 in Battleship, which shows the last action; always braking 22 on the road.
    reached = {"battleship": 0.16, "highway": 22.0}
    assert [name for name, mean in reached.items() if mean < TASKS[name].threshold] == []
    assert [name for name in reached if TASKS[name].needs] == []
