"""What training reports: to a display, in a log, and when it returns."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from wmg.config import Config
from wmg.play import goal_test
from wmg.play.goal_test import GoalTest
from wmg.play.source import HostSource
from wmg.runs import hardware
from wmg.runs.model import Evaluation, Model
from wmg.types import Agent, Env, EnvSpec, Run, Totals


@dataclasses.dataclass
class Progress:
    """What a display is shown after each report."""

    steps: int
    """Steps that every unfinished run has reached."""
    total: int
    rate: float
    """Steps per second of all runs together, in the last chunk."""
    scores: list[float]
    """The last score of each run that has not diverged."""
    solved: int | None
    """How many runs have met their goal, if they have one."""
    diverged: int
    seconds: float
    """Since training began, over all sessions."""
    finished: bool
    """Whether all runs have ended."""
    engine: str = ""
    """What trains the runs, where there is a choice: "window kernel" or "XLA"."""
    metric: str = "reward"
    """What a score is, as in `EnvSpec`."""


@dataclasses.dataclass
class Result:
    """A batch of runs as it stands when training returns."""

    config: Config
    spec: EnvSpec
    """Of the environment."""
    runs: Run
    steps: np.ndarray
    """Mean step count at each report."""
    scores: np.ndarray
    """One row per run, one column per report; NaN where a run had diverged, or no episode ended.
    A run that met its goal keeps its last score."""
    seconds: float
    finished: bool
    folder: pathlib.Path | None = None
    tests: list[list[GoalTest]] = dataclasses.field(default_factory=list)
    """The tests of each run, if it has a goal."""
    testing: float = 0.0
    """Of the seconds, how many were spent on these tests."""
    stopped: bool = False
    """Whether a signal asked to stop. Training may have finished nevertheless."""
    starts: list[int] = dataclasses.field(default_factory=list)
    """Steps that each run of a branch had taken in its parent."""
    engine: str = ""
    """What trained the runs, as in `Progress`."""
    env: Env | HostSource | None = None
    """The environment, if the settings do not name it."""

    @property
    def model(self) -> Model:
        """The agent of the best run, ready to be used."""
        return Model(self.agent, self.config, self.spec, self.env)

    def evaluate(self, episodes: int = 1000, **options: Any) -> Evaluation:
        """How well the best run plays fresh episodes, with the options of `Model.evaluate`."""
        return self.model.evaluate(episodes, **options)

    def save(self, path: pathlib.Path | str) -> None:
        """Write the agent of the best run to a file, which `wmg.load` reads."""
        self.model.save(path)

    @property
    def crossings(self) -> list[float | None]:
        """Steps that each run took to meet the goal; None for one that has not."""
        goal = self.config.goal
        if goal is None:
            return []
        runs = zip(self.tests, self.starts or [0] * len(self.tests), strict=True)
        return [goal_test.crossing(tests, goal, start) for tests, start in runs]

    @property
    def diverged(self) -> np.ndarray:
        """Whether each run has diverged."""
        return np.asarray(self.runs.diverged)

    def final_score(self, run: int) -> float:
        """The function `final_score` of one run."""
        return final_score(self.scores[run], bool(self.diverged[run]))

    @property
    def best(self) -> int:
        """The run with the highest final score, of those that did not diverge; of runs with a
        goal, the one with the best last test."""
        if self.tests:
            return int(np.argmax([t[-1].rate if t else -1.0 for t in self.tests]))
        return best_run(self.scores, self.diverged)

    @property
    def agent(self) -> Agent:
        """The agent of the best run."""
        return hardware.take(self.runs.agent, self.best)


def final_score(scores: np.ndarray, diverged: bool) -> float:
    """A run's mean score over the last tenth of its reports. Its last score if it diverged or
    no episode ended in them; NaN if it has none."""
    tail = scores[-max(1, len(scores) // 10) :]
    known, late = (each[np.isfinite(each)] for each in (scores, tail))
    chosen = late if late.size and not diverged else known[-1:]
    return float(chosen.mean()) if chosen.size else float("nan")


def best_run(scores: np.ndarray, diverged: np.ndarray) -> int:
    """The run with the highest final score, of those that did not diverge."""
    pairs = zip(scores, diverged.tolist(), strict=True)
    final = np.array([final_score(*pair) for pair in pairs])
    return int(np.argmax(np.where(np.isnan(final) | diverged, -np.inf, final)))


def score(spec: EnvSpec, totals: Totals) -> float:
    """The score of one run's report interval, in percent unless it is the mean return of the
    episodes that ended; NaN if there is nothing to score."""
    if spec.metric == "return":
        ended = int(totals.episodes)
        return float(totals.returns) / ended if ended else float("nan")
    if spec.metric == "success":
        got, possible = int(totals.successes), int(totals.episodes)
    else:
        got, possible = float(totals.reward), int(totals.steps) * spec.reward_per_step
    return 100.0 * got / possible if possible else float("nan")


def record(
    spec: EnvSpec, totals: Totals, steps: int, learning_rate: float, diverged: bool
) -> dict[str, Any]:
    """One line of a run's log. Losses and norm are means over the interval's windows."""
    windows, taken = max(int(totals.windows), 1), max(int(totals.steps), 1)
    named = {"metric": spec.metric} if spec.metric == "return" else {}
    return {
        **named,
        "steps": steps,
        "episodes": int(totals.episodes),
        "reward": float(totals.reward),
        "score": score(spec, totals),
        "success": int(totals.successes) / max(int(totals.episodes), 1),
        "policy_loss": float(totals.policy_loss) / windows,
        "value_loss": float(totals.value_loss) / windows,
        "entropy": float(totals.entropy) / taken,
        "gradient_norm": float(totals.gradient_norm) / windows,
        "learning_rate": learning_rate,
        "diverged": diverged,
    }
