"""A task: a batch of runs, a learning rule and an environment.

The session loop knows three things of a task: how to start the runs, advance them and test them.
The environment is compiled here; `wmg.runs.host_task` is for those on the host.
"""

import abc
import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp

from wmg import registry
from wmg.config import Config, Hyper, Precision
from wmg.envs.tally import Tallied
from wmg.learn.a3c import A3C
from wmg.learn.kernels.nvrtc import NoKernel, Unsuitable
from wmg.learn.kernels.window import WindowKernel, find_kernel
from wmg.learn.ppo import PPO
from wmg.learn.rule import Rule
from wmg.play.goal_test import GoalTester
from wmg.play.source import HostSource
from wmg.runs import devices, hardware, xla_options
from wmg.runs.goals import Player, goal_tester, player
from wmg.runs.hardware import Advance
from wmg.settings import AgentSettings
from wmg.tools.errors import BadInput
from wmg.types import Env, EnvSpec, Run

KEPT = 8
"""Agents whose compiled programs are kept for the next training in this process."""


def rule_for(settings: Config) -> Rule:
    """The learning rule that the settings ask for."""
    beyond = settings.bootstrap_truncated
    if settings.rule == "ppo":
        return PPO(settings.t_max, settings.batched, settings.precision, bootstrap_truncated=beyond)
    return A3C(settings.t_max, bootstrap_truncated=beyond)


def start_runs(settings: Config, env: Env) -> Run:
    """New runs. Each depends on its own seed alone, never on the batch it is in."""
    seeds = settings.seed + jnp.arange(settings.runs)
    agent, rule = settings.agent, rule_for(settings)
    return _start_all(agent, registry.maker_of(agent), rule, env, seeds)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))  # the maker is only part of the key
def _start_all(settings: AgentSettings, maker: Any, rule: Rule, env: Env, seeds: jax.Array) -> Run:
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
        self.own_env: Env | HostSource | None = None
        """The environment, if the settings do not name it."""

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
        super().__init__(settings, Tallied(env) if env.spec.metric == "return" else env)
        self.rule = rule_for(settings)
        self.one_program = not hardware.on_cpu() and self.rule.spread == "runs"

    def advance(self) -> Advance:
        kernel = self.find_kernel()
        if not hardware.on_cpu():
            self.engine = "XLA" if kernel is None else "window kernel"
        if kernel is not None:
            return functools.partial(devices.split_runs(kernel.advance), self.env)
        return functools.partial(_program(self.rule, *self._program_key()), self.env)

    def _program_key(self) -> tuple:
        """The key of kept programs: agent, precision and compiler options."""
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
        return goal_tester(_player(*self._program_key()), self.env, settings.goal, settings.runs)


@functools.lru_cache(KEPT)
def _program(
    rule: Rule, agent: AgentSettings, precision: Precision, options: tuple
) -> hardware.Program:
    """The program that trains an agent, kept so that training it again compiles nothing."""
    del agent, options  # only part of the key
    return hardware.program(rule, precision)


@functools.lru_cache(KEPT)
def _player(agent: AgentSettings, precision: Precision, options: tuple) -> Player:
    """The program that plays the tests of a goal with an agent, kept in the same way."""
    del agent, options
    return player(precision)
