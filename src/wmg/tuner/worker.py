"""A worker: takes runs of a study, does them, and delivers their scores, until there is no more
to do. Any number of them share a study; none is in charge.

A worker counts up a number in the study, the beats of its run. If the number stays the same for too
long, another worker puts the run back into the queue. A score that cannot be delivered is kept in a
file, and delivered by the next worker of that study.
"""

import contextlib
import dataclasses
import itertools
import json
import math
import os
import pathlib
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import SQLAlchemyError

from wmg.tools import files
from wmg.tools.errors import BadInput
from wmg.tuner import study as studies
from wmg.tuner.dgd import Point
from wmg.tuner.sampler import DGDSampler
from wmg.tuner.study import Shared

Done = TypeVar("Done")
Objective = Callable[[list[dict[str, Any]], int], list[float]]
"""What a run is: the scores of runs with these values, which share all shapes and are done
together; run i has the given seed + i. A run that goes wrong by itself has a score too, a bad
one."""
GONE = (SQLAlchemyError, StorageInternalError, FileNotFoundError)
"""How a storage that does not answer shows."""
PATIENCE = 120.0
"""Seconds for which a worker tries again to reach a storage that does not answer."""
MOST_FAILURES = 3
"""Failed runs in a row after which a worker gives up."""
MISSED_BEATS = 3
"""Missed beats after which a run is put back into the queue."""
TOKEN = "token"
BEATS = "beats"
RETRY_OF = "retry_of"
ERROR = "error"
"""User attributes of a run: who has taken it, its beats, the number of the run it replaces, and the
error that it failed with."""


class Stopped(Exception):
    """A worker cannot go on; the message is one sentence that says why."""


@dataclasses.dataclass(frozen=True)
class ClaimedTrial:
    """A run that this worker has taken."""

    number: int
    trial_id: int
    token: str
    """Tells this attempt from all others, also of the same run."""
    point: Point
    values: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Finished:
    """A score on its way to the study, as it is kept in a file if it does not arrive."""

    storage: str
    study: str
    number: int
    token: str
    values: dict
    """By name and value, not by index: they are meant for no particular grid."""
    score: float
    seed: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class WorkDone:
    """What a worker has done."""

    runs: int
    reason: str
    """Why it ended."""


def work(
    storage: str,
    name: str,
    make_objective: Callable[[dict], Objective],
    *,
    at_once: int = 1,
    limit: int | None = None,
    patience: float = PATIENCE,
    say: Callable[[str], None] = lambda text: None,
) -> WorkDone:
    """Do runs of a study until it is finished or settled, or `limit` of them are done.

    `make_objective` is given the study's task. `at_once` runs are taken at a time.
    """
    with Desk(storage, name, at_once, patience) as desk:
        objective = make_objective(desk.shared.plan.task)
        for kept in kept_results(desk.shared.url, name):
            say(deliver_kept(desk, kept))
        done, failures = 0, 0
        while limit is None or done < limit:
            most = at_once if limit is None else min(at_once, limit - done)
            desk.insist(desk.monitor.free_lost_runs)
            if reason := desk.insist(ended):
                return WorkDone(done, reason)
            claims = desk.insist(lambda shared, most=most: take(shared, most))
            if not claims:  # others do the last runs: wait, in case one of them is lost
                time.sleep(min(1.0, desk.shared.plan.beat))
            with alive(desk, claims):
                for batch in alike(claims, desk.shared.plan.shapes):
                    fault = attempt(desk, objective, batch, say)
                    done, failures = (done, failures + 1) if fault else (done + len(batch), 0)
                    if failures >= MOST_FAILURES:
                        raise Stopped(f"{failures} runs in a row failed, the last with {fault}")
        return WorkDone(done, "it has done its share")


def attempt(
    desk: "Desk", objective: Objective, batch: list[ClaimedTrial], say: Callable[[str], None]
) -> str:
    """Do some runs together. If they fail, mark them so and return the reason."""
    try:
        results = do(desk, objective, batch)
    except Stopped:
        raise
    except Exception as error:
        fault = f"{type(error).__name__}: {error}".partition("\n")[0]
        desk.insist(lambda shared: give_up(shared, batch, fault))
        say(f"run {batch[0].number} failed with {fault}")
        return fault
    for one in results:
        values = ", ".join(f"{name} {value}" for name, value in one.values.items())
        say(f"run {one.number}: {one.score:.6g} in {one.seconds:.1f} s, with {values}")
    return ""


class Desk:
    """A worker's hold on a study, which outlives breaks of the connection."""

    def __init__(self, storage: str, name: str, at_once: int, patience: float):
        self.place, self.patience = (storage, name, at_once), patience
        self.monitor = Monitor()

    def __enter__(self) -> "Desk":
        self.stack = contextlib.ExitStack()
        self.shared = self.stack.enter_context(studies.opened(*self.place))
        return self

    def __exit__(self, *_: Any) -> None:
        self.stack.close()

    def insist(self, action: Callable[[Shared], Done]) -> Done:
        """Do something with the study, again and again if the storage does not answer."""
        deadline, pause = time.monotonic() + self.patience, 0.25
        while True:
            try:
                self.shared.check_there()
                return action(self.shared)
            except GONE as error:
                if time.monotonic() + pause > deadline:
                    url = studies.show_url(self.shared.url)
                    took = f"for {self.patience:g} s"
                    raise Stopped(f"the storage {url} has not answered {took}") from error
            time.sleep(pause)
            pause = min(2 * pause, 10.0)
            with contextlib.suppress(BadInput, *GONE):
                again = contextlib.ExitStack()
                self.shared = again.enter_context(studies.opened(*self.place))
                self.stack.close()
                self.stack = again


def ended(shared: Shared) -> str:
    """Why there is nothing more to do in a study; empty if there is."""
    if len(shared.trials(TrialState.COMPLETE)) >= shared.plan.runs:
        return f"all {shared.plan.runs} runs are done"
    if shared.plan.until_settled and shared.stability().settled:
        return "the search is settled"
    return ""


class Monitor:
    """Puts the runs of workers that are gone back into the queue.

    It compares the beats of all runs in progress with the look before, and needs no clock but this
    process's own. After a break that stops every worker, it sees one missed beat, not many.
    """

    def __init__(self) -> None:
        self.last_look = -math.inf
        self.seen: dict[tuple[int, TrialState], tuple[int | None, int]] = {}
        """By trial and its state: its beats, and how many looks ago they changed."""

    def free_lost_runs(self, shared: Shared) -> None:
        """Look, unless the last look was less than a beat ago, and free the lost runs."""
        if time.monotonic() - self.last_look < shared.plan.beat:
            return
        self.last_look = time.monotonic()
        watched = [*shared.trials(TrialState.RUNNING), *half_freed(shared)]
        self.seen = {(trial._trial_id, trial.state): self._compare(trial) for trial in watched}
        search = DGDSampler(shared.grid)
        for trial in watched:
            if self.seen[trial._trial_id, trial.state][1] >= MISSED_BEATS:
                free(shared, trial.number, search.point(trial), trial.state)

    def _compare(self, trial: FrozenTrial) -> tuple[int | None, int]:
        beats = trial.user_attrs.get(BEATS)  # None: its worker has not counted yet
        before, missed = self.seen.get((trial._trial_id, trial.state), (beats, -1))
        return beats, missed + 1 if beats == before else 0


def half_freed(shared: Shared) -> list[FrozenTrial]:
    """Lost runs that are not queued again: the worker that freed them is about to do so, or was
    killed before it could."""
    trials = shared.study.get_trials(deepcopy=False)
    queued = {trial.user_attrs.get(RETRY_OF) for trial in trials}
    failed = [t for t in trials if t.state == TrialState.FAIL and ERROR not in t.user_attrs]
    return [trial for trial in failed if trial.number not in queued]


def free(
    shared: Shared, number: int, point: Point | None, state: TrialState = TrialState.RUNNING
) -> None:
    """Mark a run as failed and queue its point again. Only the first of several callers queues it.

    `point` is None if the run was lost before it had all its values: it is not queued again. A run
    whose `state` is FAIL has been marked before.
    """
    try:
        if state == TrialState.RUNNING:
            shared.study.tell(number, state=TrialState.FAIL)
        elif number not in [trial.number for trial in half_freed(shared)]:
            return
    except (UpdateFinishedTrialError, ValueError):  # it is finished, or was freed by another
        return
    if point is not None:
        add_run(shared, point, state=TrialState.WAITING, user_attrs={RETRY_OF: number})


def add_run(shared: Shared, point: Point, **options: Any) -> None:
    """Add a run to the study that was not taken from it."""
    params = dict(zip(shared.grid, point, strict=True))
    space = DGDSampler(shared.grid).space
    shared.study.add_trial(create_trial(params=params, distributions=space, **options))


def take(shared: Shared, most: int) -> list[ClaimedTrial]:
    """Up to `most` free runs, lost runs of other workers first.

    Workers that look at the same moment may each begin one run too many; it counts like any other.
    """
    begun = len(shared.trials(TrialState.COMPLETE, TrialState.RUNNING))
    free = min(most, shared.plan.runs - begun)
    if free < 1:
        return []
    claims, sampler = [_take_one(shared)], shared.study.sampler
    same_shapes = contextlib.nullcontext()
    if isinstance(sampler, DGDSampler):
        same_shapes = sampler.beside(claims[0].point)
    with same_shapes:
        return claims + [_take_one(shared) for _ in range(free - 1)]


def _take_one(shared: Shared) -> ClaimedTrial:
    search, token = DGDSampler(shared.grid), uuid.uuid4().hex
    while True:
        # If this worker is stalled here, another may free the run: then this one takes the next.
        with contextlib.suppress(UpdateFinishedTrialError):
            trial = shared.study.ask(search.space)
            trial.set_user_attr(TOKEN, token)
            point = search.point(trial)
            assert point is not None
            return ClaimedTrial(trial.number, trial._trial_id, token, point, shared.values(point))


def alike(claims: list[ClaimedTrial], shapes: tuple[str, ...]) -> list[list[ClaimedTrial]]:
    """The runs in groups that can be done together."""
    groups: dict[tuple, list[ClaimedTrial]] = {}
    for claim in claims:
        groups.setdefault(tuple(claim.values[name] for name in shapes), []).append(claim)
    return list(groups.values())


def do(desk: Desk, objective: Objective, batch: list[ClaimedTrial]) -> list[Finished]:
    """Do some runs together and deliver their scores."""
    began, shared = time.monotonic(), desk.shared
    seed = seed_of(shared.study.study_name, batch[0].number)
    scores = objective([claim.values for claim in batch], seed)
    if len(scores) != len(batch) or not all(map(math.isfinite, scores)):
        raise ValueError(f"{len(batch)} runs must have as many finite scores, got {scores}")
    seconds = (time.monotonic() - began) / len(batch)
    results = [
        Finished(
            storage=studies.show_url(shared.url),
            study=shared.study.study_name,
            number=claim.number,
            token=claim.token,
            values=claim.values,
            score=float(score),
            seed=seed + i,
            seconds=seconds,
        )
        for i, (claim, score) in enumerate(zip(batch, scores, strict=True))
    ]
    delivered: list[Finished] = []
    try:
        for result in results:
            desk.insist(lambda shared, result=result: deliver(shared, result))
            delivered.append(result)
    except Stopped as stopped:
        for result in results[len(delivered) :]:
            keep(result)
        raise Stopped(f"{stopped}; what was finished is kept in {kept_folder()}") from None
    return results


def seed_of(study: str, number: int) -> int:
    """The seed of a run: each has its own, in every study, also if it is done again."""
    return zlib.crc32(f"{study}/{number}".encode()) % 1_900_000_000


@contextlib.contextmanager
def alive(desk: Desk, claims: list[ClaimedTrial]) -> Iterator[None]:
    """Meanwhile, count the beats of these runs and look for lost ones of others.

    If interrupted, free these runs.
    """
    over = threading.Event()

    def beat() -> None:
        for beats in itertools.count(1):
            if over.wait(desk.shared.plan.beat):
                return
            for claim in claims:
                # Delivering finds out what is wrong.
                with contextlib.suppress(UpdateFinishedTrialError, *GONE):
                    desk.shared.storage.set_trial_user_attr(claim.trial_id, BEATS, beats)
            with contextlib.suppress(*GONE):
                desk.monitor.free_lost_runs(desk.shared)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        for claim in claims:
            desk.insist(lambda shared, claim=claim: free(shared, claim.number, claim.point))
        raise
    finally:
        over.set()
        thread.join()


def deliver(shared: Shared, result: Finished) -> None:
    """Put a score into the study, once, however often this is called.

    If another worker has freed the run meanwhile, or if there is a new database, the score is added
    as a run of its own. The replacement of a freed run counts too: it has another number, so
    another seed, and is an independent run of the same point.
    """
    about = {TOKEN: result.token, "seed": result.seed, "seconds": round(result.seconds, 3)}
    mine = [t for t in shared.study.get_trials(deepcopy=False) if _token(t) == result.token]
    if any(trial.state == TrialState.COMPLETE for trial in mine):
        return
    point = DGDSampler(shared.grid).locate(result.values)
    with contextlib.suppress(UpdateFinishedTrialError, ValueError):  # freed by another, just now
        for trial in mine:
            if trial.state == TrialState.RUNNING:
                for name, value in about.items():
                    shared.storage.set_trial_user_attr(trial._trial_id, name, value)
                shared.study.tell(trial.number, result.score)
                return
    add_run(shared, point, value=result.score, user_attrs=about)


def _token(trial: FrozenTrial) -> str | None:
    return trial.user_attrs.get(TOKEN)


def give_up(shared: Shared, batch: list[ClaimedTrial], fault: str) -> None:
    """Mark runs as failed: they are not done again unless proposed again."""
    for claim in batch:
        with contextlib.suppress(UpdateFinishedTrialError, ValueError):
            shared.storage.set_trial_user_attr(claim.trial_id, ERROR, fault[:500])
            shared.study.tell(claim.number, state=TrialState.FAIL)


def kept_folder() -> pathlib.Path:
    """Where results wait that could not be delivered."""
    home = os.environ.get("XDG_STATE_HOME") or pathlib.Path.home() / ".local" / "state"
    return pathlib.Path(home) / "wmg" / "tune"


def keep(result: Finished) -> None:
    """Write a result to a file, to be delivered by a later worker."""

    kept_folder().mkdir(parents=True, exist_ok=True)
    path = kept_folder() / f"{result.token}.json"
    files.write_atomically(path, json.dumps(dataclasses.asdict(result)).encode())


def kept_results(url: str, name: str) -> list[tuple[pathlib.Path, Finished]]:
    """The results that wait for this study."""
    found = []
    for path in sorted(kept_folder().glob("*.json")):
        with contextlib.suppress(ValueError, TypeError):  # not one of ours
            result = Finished(**files.read_json(path))
            if (result.storage, result.study) == (studies.show_url(url), name):
                found.append((path, result))
    return found


def deliver_kept(desk: Desk, kept: tuple[pathlib.Path, Finished]) -> str:
    """Deliver a result that has waited, and say so."""
    path, result = kept
    try:
        desk.insist(lambda shared: deliver(shared, result))
    except ValueError as error:
        return f"{path} does not fit the study and is left alone: {error}"
    path.unlink(missing_ok=True)
    return f"run {result.number}: {result.score:.6g}, kept from before"
