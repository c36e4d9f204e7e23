"""Distributed Grid Descent as an Optuna sampler, for any study with one objective.

This file and dgd.py beside it need Optuna and numpy alone: copied elsewhere, they still work.

    sampler = DGDSampler({"learning_rate": [1e-4, 2e-4, 4e-4], "layers": [1, 2, 3, 4]})
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(lambda trial: score(**sampler.values(trial)), n_trials=100)

`values` stores a parameter as the index into its list of values: order is kept, so other samplers,
plots and dashboards make sense of it, and a value may be anything. An objective may also ask for
values itself, with `suggest_categorical`, `suggest_float` or `suggest_int`. The range 0 to n - 1 of
`suggest_int`, for a list of n values, always means indices. The lists are kept with the study.
"""

import contextlib
import dataclasses
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
        grid: Mapping[str, Iterable[Any]],
        *,
        average: Literal["mean", "median"] = "mean",
        n_init: int = 0,
        start: Mapping[str, Any] | None = None,
        at_once: int = 1,
        shapes: Sequence[str] = (),
        seed: int | None = None,
    ):
        self.grid = {name: list(map(_plain, values)) for name, values in grid.items()}
        if not self.grid or not all(self.grid.values()):
            raise ValueError("a grid needs at least one hyperparameter, each with a value or more")
        self.space: dict[str, BaseDistribution] = {
            name: IntDistribution(0, len(values) - 1) for name, values in self.grid.items()
        }
        self._names = list(self.grid)
        self._search = dgd.Search(
            sizes=tuple(map(len, self.grid.values())),
            average=average,
            n_init=n_init,
            start=None if start is None else self.locate(start),
            at_once=at_once,
            shapes=tuple(self._names.index(name) for name in shapes),
        )
        self._seed = seed
        self._beside: dgd.Point | None = None
        self._drawn: dict[tuple[str, int], dgd.Point] = {}
        """The points of trials in progress, by study and number."""
        self._last: dgd.Point | None = None
        """The point of the trial that ended last."""

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
            if _position(self.grid[name], value) is None:
                raise ValueError(f"{name} must be one of {self.grid[name]}, got {value!r}")
        point = self._find(values, {})
        assert point is not None
        return point

    @contextlib.contextmanager
    def beside(self, point: dgd.Point) -> Iterator[None]:
        """Meanwhile, propose only what shares all shapes with a point."""
        self._beside = point
        try:
            yield
        finally:
            self._beside = None

    def read_runs(self, study: Study, own: int = -1) -> dgd.Runs:
        """The runs of all trials on the grid except one's own; failed trials are left out."""
        runs = dgd.Runs()
        for trial in study.get_trials(deepcopy=False):
            point = self.point(trial)
            if point is None or trial.number == own:
                continue
            if trial.state == TrialState.COMPLETE and trial.value is not None:
                runs.scores.setdefault(point, []).append(trial.value)
            elif trial.state == TrialState.PRUNED:
                runs.pruned[point] += 1
            elif trial.state in (TrialState.RUNNING, TrialState.WAITING):
                runs.pending[point] += 1
        return runs

    def point(self, trial: FrozenTrial | Trial) -> dgd.Point | None:
        """Where on the grid a trial is; None if a parameter is missing or off the grid."""
        if trial.params or not isinstance(trial, FrozenTrial):
            return self._find(trial.params, trial.distributions)
        # Queued trials do not say whether they have indices or values.
        waiting = trial.system_attrs.get("fixed_params", {})
        by_index = all(waiting.get(name) in range(len(self.grid[name])) for name in self._names)
        return self._find(waiting, self.space if by_index else {})

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """How the latest trial on the grid asked for the parameters; empty if there is none."""
        _refuse_several_objectives(study)
        self._agree_on_grid(study)
        for other in reversed(study.get_trials(deepcopy=False)):
            if self._find(other.params, other.distributions) is not None:
                return {name: other.distributions[name] for name in self._names}
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next point's values or indices, of the parameters in `search_space` only."""
        if not search_space:
            return {}
        point = self._draw(study, trial, search_space)
        return {name: self._stored(name, point, form) for name, form in search_space.items()}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        """The value or index of one parameter of the trial's point."""
        _refuse_several_objectives(study)
        point = self._drawn.get((study.study_name, trial.number))
        if point is None:
            point = self._draw(study, trial, self._names)
        return self._stored(param_name, point, param_distribution)

    def after_trial(
        self,
        study: Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Forget what was drawn for a trial, and remember where it was."""
        self._drawn.pop((study.study_name, trial.number), None)
        self._last = self.point(trial) or self._last

    def _agree_on_grid(self, study: Study) -> None:
        """Keep the grid with the study, or raise if the study has another."""
        # The study that a Hyperband pruner passes on has no `user_attrs`.
        storage, key = study._storage, study._study_id
        kept = storage.get_study_user_attrs(key).get(GRID)
        if kept is None:
            storage.set_study_user_attr(key, GRID, self.grid)
        elif _plain(list(kept.items())) != _plain(list(self.grid.items())):
            raise ValueError(f"study {study.study_name!r} has another grid: {kept}")

    def _draw(self, study: Study, trial: FrozenTrial, names: Collection[str]) -> dgd.Point:
        """Draw the point of a trial; only the named hyperparameters may change."""
        _refuse_several_objectives(study)
        free = tuple(axis for axis, name in enumerate(self._names) if name in names)
        maximise = study.direction == StudyDirection.MAXIMIZE
        search = dataclasses.replace(self._search, maximise=maximise, axes=free)
        seed = None if self._seed is None else (self._seed, trial.number)
        generator = np.random.default_rng(seed)
        runs = self._with_fixed(self.read_runs(study, own=trial.number), free)
        if self._beside is None:
            point = dgd.propose(search, runs, generator)
        else:
            point = dgd.propose_beside(search, runs, self._beside, generator)
        self._drawn[study.study_name, trial.number] = point
        return point

    def _with_fixed(self, runs: dgd.Runs, free: tuple[int, ...]) -> dgd.Runs:
        """The runs, with only the scores that have the fixed values of the last trial.

        `PartialFixedSampler` does not tell the values that it fixes.
        """
        last = self._last
        fixed = [axis for axis in range(len(self._names)) if axis not in free]
        if last is None or not fixed:
            return runs
        scores = {
            point: scores
            for point, scores in runs.scores.items()
            if all(point[axis] == last[axis] for axis in fixed)
        }
        return dataclasses.replace(runs, scores=scores)

    def _find(
        self, params: Mapping[str, Any], forms: Mapping[str, BaseDistribution]
    ) -> dgd.Point | None:
        """Where on the grid parameters are that were stored in these forms."""
        point = []
        for name, values in self.grid.items():
            if name not in params:
                return None
            value = params[name]
            if not _is_index(forms.get(name), len(values)):
                index = _position(values, value)
            else:  # a queued value may be out of its range
                index = value if 0 <= value < len(values) else None
            if index is None:
                return None
            point.append(index)
        return tuple(point)

    def _stored(self, name: str, point: dgd.Point, form: BaseDistribution) -> Any:
        """The index of a hyperparameter, or its value if the distribution is one of values.

        If the distribution has not this value, the nearest one in the list that it has.
        """
        if name not in self.grid:
            raise ValueError(
                f"{name!r} is not a hyperparameter of the grid, which has {', '.join(self.grid)}"
            )
        index, values = point[self._names.index(name)], self.grid[name]
        if _is_index(form, len(values)):
            return index
        fitting = [place for place, value in enumerate(values) if _fits(form, value)]
        if not fitting:
            raise ValueError(f"none of the values of {name} in the grid, {values}, is in {form}")
        nearest = min(fitting, key=lambda place: abs(place - index))
        return form.to_external_repr(form.to_internal_repr(values[nearest]))


def _refuse_several_objectives(study: Study) -> None:
    if len(study.directions) > 1:
        raise ValueError("DGDSampler needs a study with one objective")


def _is_index(form: BaseDistribution | None, size: int) -> bool:
    """Whether it is the distribution of `DGDSampler.space` for a list of `size` values."""
    if not isinstance(form, IntDistribution):
        return False
    # Not by `==`, which is three times as slow and called for every parameter of every trial.
    return form.low == 0 and form.high == size - 1 and form.step == 1 and not form.log


def _plain(value: Any) -> Any:
    """The value without numpy's types and with tuples for lists, as JSON has neither."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _position(values: list[Any], value: Any) -> int | None:
    """The index of a value in a list, rounding errors aside; None if it is not there."""
    value = _plain(value)
    if value in values:
        return values.index(value)
    return next((index for index, other in enumerate(values) if _close(other, value)), None)


def _close(one: Any, other: Any) -> bool:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return numbers and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-15)


def _fits(form: BaseDistribution, value: Any) -> bool:
    """Whether a distribution has this value."""
    try:
        return form._contains(form.to_internal_repr(value))
    except ValueError:
        return False
