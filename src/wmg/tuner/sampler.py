"""Distributed Grid Descent as an Optuna sampler, for any study.

This file and dgd.py beside it need Optuna and numpy alone: copied elsewhere, they still work.

    sampler = DGDSampler({"learning_rate": [1e-4, 2e-4, 4e-4], "layers": [1, 2, 3, 4]})
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(lambda trial: score(**sampler.values(trial)), n_trials=100)

A parameter in the storage is an index into its list of values, so that order is kept and other
samplers, plots and dashboards make sense of it. The lists are kept with the study.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, Trial, TrialState

from . import dgd

GRID = "dgd_grid"
"""The study's user attribute that holds the grid."""


class DGDSampler(BaseSampler):
    """Proposes what the paper's algorithm would, given all trials that any worker has begun.

    A seed makes one worker's search the same every time, also if it is interrupted: each draw
    depends on the seed, the number of the trial and the trials before it, on nothing else.
    """

    def __init__(
        self,
        grid: Mapping[str, Sequence[Any]],
        *,
        metric: Literal["mean", "median"] = "mean",
        n_init: int = 0,
        start: Mapping[str, Any] | None = None,
        lanes: int = 1,
        shapes: Sequence[str] = (),
        seed: int | None = None,
    ):
        self.grid = {name: list(values) for name, values in grid.items()}
        if not self.grid or not all(self.grid.values()):
            raise ValueError("a grid needs at least one hyperparameter, each with a value or more")
        self.space: dict[str, BaseDistribution] = {
            name: IntDistribution(0, len(values) - 1) for name, values in self.grid.items()
        }
        self._names = list(self.grid)
        self._search = dgd.Search(
            sizes=tuple(map(len, self.grid.values())),
            metric=metric,
            n_init=n_init,
            start=None if start is None else self.locate(start),
            lanes=lanes,
            shapes=tuple(self._names.index(name) for name in shapes),
        )
        self._seed = seed
        self._beside: dgd.Point | None = None

    def values(self, trial: Trial) -> dict[str, Any]:
        """The values a trial should use."""
        return {
            name: values[trial.suggest_int(name, 0, len(values) - 1)]
            for name, values in self.grid.items()
        }

    def locate(self, values: Mapping[str, Any]) -> dgd.Point:
        """Where on the grid these values are."""
        if values.keys() != self.grid.keys():
            raise ValueError(f"a point has values of {', '.join(self.grid)}, got {dict(values)}")
        for name, value in values.items():
            if value not in self.grid[name]:
                raise ValueError(f"{name} must be one of {self.grid[name]}, got {value!r}")
        return tuple(self.grid[name].index(values[name]) for name in self._names)

    @contextlib.contextmanager
    def beside(self, point: dgd.Point) -> Iterator[None]:
        """Meanwhile, propose only what shares all shapes with a point."""
        self._beside = point
        try:
            yield
        finally:
            self._beside = None

    def read_runs(self, study: Study, own: int = -1) -> dgd.Runs:
        """All runs of a study but one's own. Those that failed are as if they had not been."""
        runs = dgd.Runs()
        for trial in study.get_trials(deepcopy=False):
            point = self.point(trial)
            if point is None or trial.number == own:
                continue
            if trial.state == TrialState.COMPLETE and trial.value is not None:
                runs.scores.setdefault(point, []).append(trial.value)
            elif trial.state in (TrialState.RUNNING, TrialState.WAITING):
                runs.pending[point] += 1
        return runs

    def point(self, trial: FrozenTrial | Trial) -> dgd.Point | None:
        """Where on the grid a trial is; None if it has not all parameters yet."""
        params = trial.params
        if not params and isinstance(trial, FrozenTrial):  # waiting
            params = trial.system_attrs.get("fixed_params", {})
        if not all(name in params for name in self._names):
            return None
        return tuple(params[name] for name in self._names)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The whole grid, which must be that of the study."""
        kept = study.user_attrs.get(GRID)
        if kept is None:
            study.set_user_attr(GRID, self.grid)
        elif list(kept.items()) != list(self.grid.items()):
            raise ValueError(f"study {study.study_name!r} has another grid: {kept}")
        return dict(self.space)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The indices of the next point."""
        search = dataclasses.replace(
            self._search, maximise=study.direction == StudyDirection.MAXIMIZE
        )
        seed = None if self._seed is None else (self._seed, trial.number)
        generator = np.random.default_rng(seed)
        runs = self.read_runs(study, own=trial.number)
        if self._beside is None:
            point = dgd.propose(search, runs, generator)
        else:
            point = dgd.propose_beside(search, runs, self._beside, generator)
        return dict(zip(self._names, point, strict=True))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        """Never asked of a parameter of the grid."""
        raise ValueError(
            f"{param_name!r} is not a hyperparameter of the grid, which has {', '.join(self.grid)}"
        )
