"""Runs in environments on the host: Python code that is not compiled with the agent."""

import functools
from collections.abc import Callable, Sequence

import jax
import numpy as np

from wmg.config import Config, Hyper
from wmg.learn.host import empty_env, on_host
from wmg.play.host import Host, HostEnvs, Lockstep
from wmg.runs import hardware, xla_options
from wmg.runs.hardware import Advance
from wmg.runs.task import Task, rule_for
from wmg.tools.errors import BadInput
from wmg.types import Run

OnHost = Host | HostEnvs | Sequence[Host | HostEnvs]
"""Environments on the host: single ones, or some that step together, or one of those for each
run."""


class HostTask(Task):
    """Runs in environments on the host, which are trained one after the other."""

    def __init__(self, settings: Config, given: OnHost):
        if settings.goal is not None:
            raise BadInput(f"on the host there are no tests of a goal, got goal = {settings.goal}")
        each = share_out(given, settings.runs)
        super().__init__(settings, empty_env(each[0].spec))
        rule = rule_for(settings)
        self.rules = [on_host(rule, mine, _compile()) for mine in each]

    def begin(self, runs: Run) -> Run:
        """The runs at the start of new episodes: host episodes cannot be restored."""
        begun = [
            rule.begin(hardware.take_rows(runs, index), self.settings.seed + index)
            for index, rule in enumerate(self.rules)
        ]
        return hardware.stack(begun)

    def advance(self) -> Advance:
        def advance(hyper: Hyper, runs: Run, until: np.ndarray | int) -> tuple:
            untils, done = np.broadcast_to(until, len(self.rules)), []
            with hardware.products(self.settings.precision):
                for index, rule in enumerate(self.rules):
                    numbers, run = hardware.take_rows((hyper, runs), index)
                    done.append(rule.advance(numbers, run, int(untils[index])))
            return hardware.stack(done)

        return advance


@functools.cache
def _compile() -> Callable[..., Callable]:
    if hardware.on_cpu():
        return functools.partial(jax.jit, compiler_options=xla_options.for_cpu())
    return jax.jit


def share_out(given: OnHost, runs: int) -> list[HostEnvs]:
    """The environments of each run: one `HostEnvs`, or an equal share of the single ones."""
    several = [given] if isinstance(given, Host | HostEnvs) else list(given)
    together = [each for each in several if isinstance(each, HostEnvs)]
    if together:
        if len(together) != len(several) or len(together) != runs:
            raise BadInput(f"{runs} runs need {runs} HostEnvs, one each, got {len(together)}")
        return together
    single = [each for each in several if isinstance(each, Host)]
    share, left = divmod(len(single), runs)
    if left or not share:
        raise BadInput(f"{runs} runs cannot share {len(single)} host environments")
    return [Lockstep(single[run * share : (run + 1) * share]) for run in range(runs)]
