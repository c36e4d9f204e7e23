"""Agents for the viewer's tests, each made once, and a server to show them."""

import contextlib
import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from own import PaintedBag

from wmg import registry
from wmg.agents.baselines.settings import RandomSettings
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.config import Config
from wmg.envs.outside.settings import OutsideEnvSettings
from wmg.envs.pathfinding.settings import PathfindingSettings
from wmg.envs.sokoban.settings import SokobanSettings
from wmg.runs import models
from wmg.types import EnvSpec, Factors, Observation, ObservationSpec
from wmg.viewer import server
from wmg.viewer.play import Player
from wmg.viewer.session import ViewerSession

TINY = WMGSettings(slots=3, memo_size=8, layers=2, heads=2, head_size=4, hidden=4, actor_critic=8)


@functools.cache
def shipped(name):
    agent, settings = models.find(name)
    env, agent = models.fit(agent, settings, settings.env)
    return Player(name, agent, env, settings)


@functools.cache
def fresh(env, agent=TINY, name="fresh"):
    """An agent of any numbers. To draw them in numpy takes no compiling."""
    made, chance = registry.make_env(env), np.random.default_rng(0)
    like = eqx.filter_eval_shape(lambda: registry.make_agent(agent, made.spec, jax.random.key(0)))
    drawn = jax.tree.map(lambda leaf: jnp.asarray(chance.normal(size=leaf.shape), leaf.dtype), like)
    return Player(name, drawn, made, Config(env=env, agent=agent))


def pathfinding():
    return shipped("pathfinding-wmg")


def babyai():
    return shipped("babyai-level1-wmg")


def sokoban():
    return fresh(SokobanSettings(levels="embedded-test"))


EXTENDED = dataclasses.replace(
    TINY,
    lifetimes="attention",
    attention_decay=0.1,
    drop_below=0.25,
    edges="memos",
    store=4,
    reads=2,
)


def extended():
    """An agent with all extensions, which drops Memos."""
    return fresh(PathfindingSettings(), EXTENDED)


class WideBag(PaintedBag):
    """Six coins of 40 numbers each, and a picture as high as it is wide."""

    @property
    def spec(self):
        seen = ObservationSpec(core=1, factors=(("coins", self.coins, 40),))
        return EnvSpec(seen, actions=self.coins, max_steps=12, metric="return")

    def observe(self, state):
        seen = super().observe(state)
        rows = jnp.tile(seen.factors["coins"].values, (1, 20))
        return Observation(seen.core, {"coins": Factors(rows, state.there)})

    def picture(self, state):
        return super().picture(state).repeat(6, 0)


def wide_bag():
    """It makes one."""
    return WideBag(6)


def wide():
    return fresh(OutsideEnvSettings(registry.remember(wide_bag)))


def gru():
    return fresh(PathfindingSettings(), GRUSettings(embedding=8, size=8, actor_critic=8), "gru")


def random(env=None):
    return fresh(env or PathfindingSettings(), RandomSettings(), "random")


@contextlib.contextmanager
def serving(*players, seed=0):
    """The address of a live viewer, and its session."""
    session = ViewerSession(list(players), seed)
    with server.serving(session) as address:
        yield address, session
