"""The shared state of a search: an Optuna study in a database, with its plan and grid in it."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import Any, Literal

import sqlalchemy
from optuna import Study, create_study, load_study, logging
from optuna.exceptions import DuplicatedStudyError
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from wmg import config
from wmg.tools.errors import BadInput
from wmg.tuner import dgd, posterior, sampler
from wmg.tuner.sampler import DGDSampler
from wmg.tuner.space import Grid

PLAN = "wmg_plan"
"""The study's user attribute that holds the plan."""
LOCK_SECONDS = 60.0
"""How long an SQLite file may be locked by other workers."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """Everything a worker must know of a search beside its grid."""

    task: dict
    """Describes a run to the objective; the search itself does not read it."""
    runs: int = 500
    """The search ends after this many finished runs..."""
    until_settled: bool = True
    """...or as soon as its best run set is stable."""
    sampler: Literal["dgd", "tpe", "random"] = "dgd"
    average: Literal["mean", "median"] = "mean"
    """How the scores of a run set become one number."""
    n_init: int = 0
    start: dict | None = None
    shapes: tuple[str, ...] = ()
    seed: int | None = None
    beat: int = 30
    """Seconds between two beats, by which a worker shows that its run is in progress."""


@dataclasses.dataclass(frozen=True)
class Shared:
    """A study that is open, and what was agreed about it."""

    url: str
    study: Study
    storage: RDBStorage
    plan: Plan
    grid: Grid
    identity: tuple[int, int] | None
    """Device and inode of an SQLite file."""

    @property
    def maximise(self) -> bool:
        """Whether higher scores are better."""
        return self.study.direction == StudyDirection.MAXIMIZE

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """The runs in these states."""
        return self.study.get_trials(deepcopy=False, states=states)

    def history(self) -> list[tuple[dgd.Point, float]]:
        """Finished runs in the order in which they ended."""
        search = DGDSampler(self.grid)
        done = self.trials(TrialState.COMPLETE)
        done.sort(key=lambda trial: (trial.datetime_complete, trial.number))
        points = [(search.point(trial), trial.value) for trial in done]
        return [(p, value) for p, value in points if p is not None and value is not None]

    def scores(self) -> dict[dgd.Point, list[float]]:
        """The scores of every run set."""
        return posterior.pool({point: [score]} for point, score in self.history())

    def stability(self) -> posterior.Stability:
        """How stable the best run set is."""
        sizes = [len(values) for values in self.grid.values()]
        return posterior.stability(self.history(), sizes, self.maximise)

    def values(self, point: dgd.Point) -> dict[str, Any]:
        """The values of hyperparameters at a point."""
        return {n: v[i] for (n, v), i in zip(self.grid.items(), point, strict=True)}

    def check_there(self) -> None:
        """Raise if the SQLite file was deleted or replaced: an open one can still be written."""
        if _identity(self.url) != self.identity:
            raise FileNotFoundError(f"{show_url(self.url)} is gone")


def full_url(storage: str) -> str:
    """A database URL; what has no scheme is an SQLite file."""
    if "://" not in storage:
        return f"sqlite:///{pathlib.Path(storage).resolve()}"
    # The driver that the extra installs, whatever SQLAlchemy's own choice is.
    return storage.replace("postgresql://", "postgresql+psycopg://", 1)


def show_url(url: str) -> str:
    """The URL without its password."""
    return sqlalchemy.engine.make_url(url).render_as_string(hide_password=True)


def create(storage: str, name: str, plan: Plan, grid: Grid, maximise: bool) -> None:
    """Make a new study, or nothing at all if that cannot be."""
    url = full_url(storage)
    direction = "maximize" if maximise else "minimize"
    with connected(url, create=True) as database:
        try:
            study = create_study(storage=database, study_name=name, direction=direction)
        except DuplicatedStudyError:
            raise BadInput(f"there is a study {name!r} in {show_url(url)} already") from None
        study.set_user_attr(sampler.GRID, grid)
        study.set_user_attr(PLAN, config.to_dict(plan))


@contextlib.contextmanager
def opened(storage: str, name: str, at_once: int = 1) -> Iterator[Shared]:
    """A study that `create` has made, ready for a worker that does `at_once` runs together."""
    url = full_url(storage)
    with connected(url) as database:
        plan, grid, study = _read_plan(url, name, database)
        study.sampler = make_sampler(plan, grid, at_once)
        yield Shared(url, study, database, plan, grid, _identity(url))


def _read_plan(url: str, name: str, database: RDBStorage) -> tuple[Plan, Grid, Study]:
    try:
        study = load_study(study_name=name, storage=database)
        attributes = study.user_attrs
    except KeyError:
        missing = f"there is no study {name!r} in {show_url(url)}"
        raise BadInput(f"{missing}: make it with wmg tune create") from None
    if PLAN not in attributes:
        raise BadInput(f"study {name!r} in {show_url(url)} was not made by wmg tune create")
    plan = dict(attributes[PLAN])
    if "metric" in plan:  # as version 0.1 called it
        plan["average"] = plan.pop("metric")
    return config.from_dict(Plan, plan, "plan"), attributes[sampler.GRID], study


def make_sampler(plan: Plan, grid: Grid, at_once: int = 1) -> BaseSampler:
    """What chooses the next run."""
    if plan.sampler != "dgd":  # without a seed: workers must not all choose the same
        return TPESampler() if plan.sampler == "tpe" else RandomSampler()
    return DGDSampler(
        grid,
        average=plan.average,
        n_init=plan.n_init,
        start=plan.start,
        at_once=at_once,
        shapes=plan.shapes,
        seed=plan.seed,
    )


@contextlib.contextmanager
def connected(url: str, *, create: bool = False) -> Iterator[RDBStorage]:
    """The database of a URL, for as long as it is needed."""
    logging.set_verbosity(logging.ERROR)
    path = _file(url)
    if path is not None and not create and not path.is_file():
        raise BadInput(f"there is no file {path}: make it with wmg tune create")
    if path is not None and not path.parent.is_dir():
        raise BadInput(f"there is no folder {path.parent} for {path.name}")
    if path is not None and path.exists() and not path.is_file():
        raise BadInput(f"{path} is not a file")
    try:
        has_studies = _look(url)
        database = _connect(url, create) if create or has_studies else None
    except (SQLAlchemyError, ImportError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise BadInput(f"{_safely_shown(url)} cannot be opened: {reason}") from None
    if database is None:
        raise BadInput(f"there are no studies in {show_url(url)}: make one with wmg tune create")
    try:
        yield database
    finally:
        database.engine.dispose()


def _look(url: str) -> bool:
    """Whether a database that can be reached has studies."""
    engine = sqlalchemy.create_engine(url)
    try:
        return sqlalchemy.inspect(engine).has_table("studies")
    finally:
        engine.dispose()


def _connect(url: str, create: bool) -> RDBStorage:
    options: dict[str, Any] = {"pool_pre_ping": True}
    if _file(url) is not None:
        options["connect_args"] = {"timeout": LOCK_SECONDS}
    database = RDBStorage(url, engine_kwargs=options, skip_table_creation=not create)
    if _file(url) is not None:
        _lock_before_reading(database.engine)
    return database


def _lock_before_reading(engine: Any) -> None:
    """Optuna reads a row and then changes it, and SQLite would let two workers read first: both
    would take the same waiting run. So every transaction begins with the lock for writing."""

    def leave_transactions_to_us(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    engine.dispose()  # connections made so far
    event.listen(engine, "connect", leave_transactions_to_us)
    event.listen(engine, "begin", lambda c: c.exec_driver_sql("BEGIN IMMEDIATE"))


def _file(url: str) -> pathlib.Path | None:
    with contextlib.suppress(ArgumentError):
        parts = sqlalchemy.engine.make_url(url)
        if parts.get_backend_name() == "sqlite" and parts.database:
            return pathlib.Path(parts.database)
    return None


def _identity(url: str) -> tuple[int, int] | None:
    path = _file(url)
    if path is None:
        return None
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return (0, 0)


def _safely_shown(url: str) -> str:
    try:
        return show_url(url)
    except ArgumentError:
        return f"the storage {url!r}"
