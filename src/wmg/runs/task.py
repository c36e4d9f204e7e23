"""A task: a batch of runs, a learning rule and an environment (compiled or on the host).

The session loop knows three things of a task: how to start the runs, advance them and test them.
"""

import abc
import functools
import warnings
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from wmg import registry
from wmg.config import Config, Hyper, Precision
from wmg.learn.a3c import A3C
from wmg.learn.host import empty_env, on_host
from wmg.learn.kernels.nvrtc import NoKernel, Unsuitable
from wmg.learn.kernels.window import WindowKernel, find_kernel
from wmg.learn.ppo import PPO
from wmg.learn.rule import Rule
from wmg.play.goal_test import GoalTester
from wmg.play.host import Host
from wmg.runs import hardware, xla_options
from wmg.runs.goals import Player, player, tester_by
from wmg.runs.hardware import Advance
from wmg.settings import AgentSettings
from wmg.tools.errors import BadInput
from wmg.types import Env, EnvSpec, Run

KEPT = 8
"""Agents whose compiled programs are kept for the next training in this process."""


def rule_for(settings: Config) -> Rule:
    """The learning rule that the settings ask for."""
    if settings.rule == "ppo":
        return PPO(settings.t_max, settings.batched, settings.precision)
    return A3C(settings.t_max)


def start_runs(settings: Config, env: Env) -> Run:
    """New runs. Each depends on its own seed alone, never on the batch it is in."""
    seeds = settings.seed + jnp.arange(settings.runs)
    return _start_all(settings.agent, rule_for(settings), env, seeds)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _start_all(settings: AgentSettings, rule: Rule, env: Env, seeds: jax.Array) -> Run:
    def start(seed: jax.Array) -> Run:
        akey, rkey = jax.random.split(jax.random.key(seed))
        return rule.start(env, registry.make_agent(settings, env.spec, akey), rkey)

    # Not vmapped: it is done once, and the program of one run compiles in half the time.
    return jax.lax.map(start, seeds)


def stack_hypers(settings: Config) -> Hyper:
    """The numbers of all runs as arrays."""
    return jax.tree.map(lambda *x: jnp.array(x, jnp.float32), *settings.hypers())


class Task(abc.ABC):
    """A batch of runs to train."""

    def __init__(self, settings: Config, env: Env):
        self.settings, self.env = settings, env
        """On the host, an environment that shows zeros."""
        self.one_program = False
        """Whether the batch is one program, recompiled for fewer runs."""
        self.engine = ""
        """What trains the runs, where there is a choice: "window kernel" or "XLA"."""

    @property
    def spec(self) -> EnvSpec:
        return self.env.spec

    def start(self) -> Run:
        """New runs."""
        return start_runs(self.settings, self.env)

    def shape(self) -> Run:
        """The shapes of the runs."""
        return jax.eval_shape(self.start)

    def begin(self, runs: Run) -> Run:
        """Make runs ready to go on, new ones or saved ones."""
        return runs

    @abc.abstractmethod
    def advance(self) -> Advance:
        """The function that trains the runs."""

    def tester(self) -> GoalTester | None:
        """What tests the runs, if they have a goal."""
        return None


class CompiledTask(Task):
    """Runs in an environment that is compiled with the agent."""

    def __init__(self, settings: Config, env: Env):
        super().__init__(settings, env)
        self.rule = rule_for(settings)
        self.one_program = not hardware.on_cpu() and self.rule.spread == "runs"

    def advance(self) -> Advance:
        kernel = self.find_kernel()
        if not hardware.on_cpu():
            self.engine = "XLA" if kernel is None else "window kernel"
        if kernel is not None:
            return hardware.by_kernel(kernel.advance, self.env)
        return functools.partial(_program(self.rule, *self._kept_for()), self.env)

    def _kept_for(self) -> tuple:
        """What programs are kept for: whom they are made for, and how they are compiled."""
        options = xla_options.for_cpu() if hardware.on_cpu() else xla_options.for_gpu()
        return self.settings.agent, self.settings.precision, tuple(options.items())

    def find_kernel(self) -> WindowKernel | None:
        """The kernel that trains the runs, or None where XLA does."""
        wanted = self.settings.kernel
        if wanted == "off" or (wanted == "auto" and hardware.on_cpu()):
            return None
        try:
            agent = jax.eval_shape(lambda runs: hardware.take(runs.agent, 0), self.shape())
            return find_kernel(self.rule, self.env, agent, self.settings.precision)
        except NoKernel as why:
            if wanted == "on":
                raise BadInput(f"kernel = on cannot be: {why}") from None
            if not isinstance(why, Unsuitable):
                warnings.warn(f"the window kernel failed, XLA trains instead: {why}", stacklevel=2)
            return None

    def tester(self) -> GoalTester | None:
        settings = self.settings
        if settings.goal is None:
            return None
        return tester_by(_player(*self._kept_for()), self.env, settings.goal, settings.runs)


@functools.lru_cache(KEPT)
def _program(
    rule: Rule, agent: AgentSettings, precision: Precision, options: tuple
) -> hardware.Program:
    """What trains an agent. It is kept, so that training the same agent again compiles nothing."""
    del agent, options  # programs for them are dropped together
    return hardware.program(rule, precision)


@functools.lru_cache(KEPT)
def _player(agent: AgentSettings, precision: Precision, options: tuple) -> Player:
    """What plays the tests of a goal with an agent, kept likewise."""
    del agent, options
    return player(precision)


class HostTask(Task):
    """Runs in environments of the host, one run after the other."""

    def __init__(self, settings: Config, hosts: Sequence[Host]):
        if settings.env is not None or settings.goal is not None:
            raise BadInput(
                "training on the host takes settings whose env and goal are None, got "
                f"env = {settings.env!r}, goal = {settings.goal!r}"
            )
        super().__init__(settings, empty_env(hosts[0].spec))
        share, left = divmod(len(hosts), settings.runs)
        if left:
            raise BadInput(f"{settings.runs} runs cannot share {len(hosts)} host environments")
        rule, rows = rule_for(settings), range(settings.runs)
        each = [hosts[run * share : (run + 1) * share] for run in rows]
        self.rules = [on_host(rule, mine, _compile()) for mine in each]

    def begin(self, runs: Run) -> Run:
        """The runs at the start of new episodes: those of the host cannot be restored."""
        begun = [
            rule.begin(hardware.take_rows(runs, index), self.settings.seed + index * rule.count)
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


def make_task(settings: Config, env: Env | Host | Sequence[Host] | None) -> Task:
    """The task of the settings, in the environment they describe or in the user's own."""
    if isinstance(env, Host):
        return HostTask(settings, [env])
    if isinstance(env, Sequence):
        return HostTask(settings, env)
    return CompiledTask(settings, registry.make_env(settings.env, env))
