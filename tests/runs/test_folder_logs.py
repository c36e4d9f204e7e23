"""What the logs of a run folder say."""

import json
import shutil

import pytest
import tiny

from wmg.runs import folder_logs
from wmg.tools.errors import BadInput


@pytest.fixture
def folder(tmp_path):
    """A finished run folder of our own."""
    return shutil.copytree(tiny.trained(), tmp_path / "run")


def test_a_log_line_that_is_not_ours_is_damage(folder):
    log = folder / "logs" / "0001.jsonl"
    for line in ('{"other": 1}', '{"steps": "x", "score": 1}', '{"steps": 1, "score": [1]}'):
        log.write_text(line + "\n")
        with pytest.raises(BadInput, match="run 1, line 1"):
            folder_logs.read_scores(folder, 2)


@pytest.mark.parametrize("name", ["steps", "score"])
def test_a_number_of_400_digits_in_a_log_is_damage(folder, name):
    line = json.dumps({"steps": 1, "score": 1} | {name: 10**400})
    (folder / "logs" / "0001.jsonl").write_text(f"{line}\n{{}}\n")
    with pytest.raises(BadInput, match=r"0001\.jsonl is damaged at line 1"):
        folder_logs.read_scores(folder, 2)


def test_scores_are_read_run_by_report_with_nothing_after_divergence(folder):
    first, second = folder / "logs" / "0000.jsonl", folder / "logs" / "0001.jsonl"
    first.write_text("".join(f'{{"steps": {12 * i}, "score": {50 + i}}}\n' for i in range(3)))
    second.write_text('{"steps": 0, "score": null}\n')
    steps, scores = folder_logs.read_scores(folder, 2)
    assert steps.tolist() == [0, 12, 24]
    assert scores[0].tolist() == [50, 51, 52] and (scores[1] != scores[1]).all()


def test_episodes_are_counted_up_to_a_step_between_two_reports(folder):
    """An episode has 12 steps, and a report comes after every 48."""
    assert folder_logs.episodes_until(folder, [24.0, None]) == [2.0, None]
    assert folder_logs.episodes_until(folder, [48.0, 480.0]) == [4.0, 40.0]
