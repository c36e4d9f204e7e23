"""A batch of runs trained by the window kernel: the contract of `Rule.advance`.

`window.cu` trains whole windows of WMG on Pathfinding, one thread block a run. What is random, the
policy's noise and the episodes, is drawn here for many windows ahead, by the keys that
`wmg.learn.a3c.window` uses: actions never change what Pathfinding shows. So a run has the same
episodes as in the XLA program, and its result differs by rounding alone.
"""

import dataclasses
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, UInt32

from wmg.agents.wmg.agent import WMG
from wmg.config import Hyper, Precision
from wmg.envs.pathfinding.env import Pathfinding, observe
from wmg.envs.pathfinding.state import PathfindingState
from wmg.learn import optimizer
from wmg.learn.a3c import A3C, window_keys
from wmg.learn.kernels.layout import Sizes, VectorLayout, sizes_of, up
from wmg.learn.kernels.nvrtc import NoKernel, Unsuitable, compile_ptx, exported
from wmg.learn.rule import Rule
from wmg.types import Agent, Env, Run, Scene, Totals

CHUNK = 1024
"""Windows of one launch, at most: their noise and episodes are in memory."""
TF32 = {"float32": 0, "tf32": 1}
"""The macro TF32 for each precision."""
TARGET = "__gpu$xla.gpu.ptx"
"""XLA's custom call that launches PTX. It is not documented, so `probe` tries it first."""

Launch = Callable[..., tuple[Array, ...]]
"""The kernel: params, mu, nu, noise, observations, answers, hyper, schedule and windows in; params,
mu, nu, work, totals and done out. `window.cu` describes them."""


class Going(eqx.Module):
    """A run between two launches."""

    params: Float[Array, " params"]
    mu: Float[Array, " params"]
    nu: Float[Array, " params"]
    key: Key[Array, ""]
    episode: PathfindingState
    updates: Int[Array, ""]
    """Adam's count."""
    steps: Int[Array, ""]
    diverged: Bool[Array, ""]
    left: Int[Array, ""]
    """Windows to go."""
    totals: Totals


@dataclasses.dataclass(frozen=True)
class WindowKernel:
    """Trains batches of runs of one agent on Pathfinding."""

    layout: VectorLayout
    sizes: Sizes
    launch: Launch

    def advance(
        self, env: Env, hyper: Hyper, runs: Run, until: Int[Array, " runs"]
    ) -> tuple[Run, Totals]:
        """See `Rule.advance`; of all runs of a batch."""
        assert isinstance(env, Pathfinding)
        going = jax.lax.while_loop(
            lambda going: (going.left > 0).any(),
            lambda going: self._launch(env, hyper, going),
            jax.vmap(self._begin)(runs, until),
        )
        return jax.vmap(self._end)(runs, going), going.totals

    def _begin(self, run: Run, until: Int[Array, ""]) -> Going:
        needed = -((run.steps - until) // self.sizes.steps)  # rounded up
        _, unpack = optimizer.pack(eqx.filter(run.agent, eqx.is_inexact_array))
        return Going(
            params=self.layout.pack(run.agent),
            mu=self.layout.pack(unpack(run.optimizer.mu)),
            nu=self.layout.pack(unpack(run.optimizer.nu)),
            key=run.key,
            episode=run.scene.state,
            updates=run.optimizer.count,
            steps=run.steps,
            diverged=run.diverged,
            left=jnp.where(run.diverged, 0, jnp.maximum(needed, 0)).astype(jnp.int32),
            totals=Totals.zeros(),
        )

    def _launch(self, env: Pathfinding, hyper: Hyper, going: Going) -> Going:
        """All runs after one launch of the kernel."""
        now = jnp.minimum(going.left, CHUNK)
        ahead = jax.vmap(lambda going: draw(env, going.key, going.episode))(going)
        scripts = jax.vmap(jax.vmap(self._script))(ahead.episodes)
        made = self.launch(
            going.params,
            going.mu,
            going.nu,
            ahead.noise,
            *jax.tree.map(lambda x: x[:, :CHUNK], scripts),
            jax.vmap(_numbers)(hyper),
            jax.vmap(self._schedule)(hyper, going.updates, going.steps),
            jnp.stack([now, jnp.full_like(now, CHUNK)], axis=1),
        )
        return jax.vmap(self._after)(going, ahead, made)

    def _after(self, going: Going, ahead: "Ahead", made: tuple[Array, ...]) -> Going:
        """A run after a launch."""
        params, mu, nu, _, sums, (done, diverged) = made
        return Going(
            params,
            mu,
            nu,
            # A window that diverges has used its key.
            key=jax.random.wrap_key_data(ahead.keys[done + diverged]),
            episode=jax.tree.map(lambda x: x[done], ahead.episodes),
            updates=going.updates + done,
            steps=going.steps + done * self.sizes.steps,
            diverged=going.diverged | (diverged > 0),
            left=jnp.where(diverged > 0, 0, going.left - done),
            totals=jax.tree.map(jnp.add, going.totals, self._totals(sums, done)),
        )

    def _script(self, episode: PathfindingState) -> tuple[Array, Array]:
        """What every step of an episode shows, and its right answer: 0 where nothing is asked,
        else 1 for no and 2 for yes."""
        time = jnp.arange(self.sizes.steps)
        at = jax.vmap(lambda time: observe(eqx.tree_at(lambda s: s.time, episode, time)).core)
        shown = jnp.pad(at(time), ((0, 0), (0, up(self.sizes.core, 4) - self.sizes.core)))
        return shown, jnp.where(time % 2 == 1, 1 + episode.answers.astype(jnp.int32), 0)

    def _schedule(
        self, hyper: Hyper, updates: Int[Array, ""], steps: Int[Array, ""]
    ) -> Float[Array, "chunk 4"]:
        """Learning rate and Adam's bias corrections of each window."""
        ahead = jnp.arange(CHUNK)
        rate = jax.vmap(lambda n: optimizer.learning_rate(hyper, steps + n * self.sizes.steps))
        first, second = optimizer.bias_corrections(updates + 1 + ahead)
        return jnp.stack([rate(ahead), first, jnp.sqrt(second), jnp.zeros(CHUNK)], axis=1)

    def _totals(self, sums: Float[Array, "chunk 5"], done: Int[Array, ""]) -> Totals:
        """Of the windows that a run has completed in a launch."""
        counted = jnp.arange(CHUNK) < done
        summed = jnp.where(counted[:, None], sums, 0.0).sum(0)
        perfect = counted & (sums[:, 0] == self.sizes.steps // 2)
        return Totals(
            done * self.sizes.steps,
            done,
            done,
            perfect.sum(dtype=jnp.int32),
            *summed,
            returns=summed[0],
        )

    def _end(self, run: Run, going: Going) -> Run:
        agent = self.layout.unpack(going.params, run.agent)
        like = eqx.filter(run.agent, eqx.is_inexact_array)
        mu, nu = (
            optimizer.pack(self.layout.unpack(vector, like))[0] for vector in (going.mu, going.nu)
        )
        adam = run.optimizer._replace(count=going.updates, mu=mu, nu=nu)
        scene = Scene(going.episode, observe(going.episode), agent.initial_memory())
        return Run(agent, adam, scene, going.key, going.steps, going.diverged)


class Ahead(NamedTuple):
    """What is random in the next windows of a run."""

    keys: UInt32[Array, "after words"]
    """Data of the keys before the first window and after each."""
    episodes: PathfindingState
    """Of each window, and the one that follows them."""
    noise: Float[Array, "chunk time actions"]
    """Of the policy."""


def draw(env: Pathfinding, key: Key[Array, ""], first: PathfindingState) -> Ahead:
    """The next windows of a run, as `wmg.learn.a3c.window` draws them; it stands at the beginning
    of the episode `first`."""

    def step(key: Array, _: None) -> tuple[Array, tuple]:
        nkey, _, rkey, after = window_keys(key)
        return after, (nkey, rkey, jax.random.key_data(after))

    before = jax.random.key_data(key)
    _, (nkeys, rkeys, after) = jax.lax.scan(step, key, length=CHUNK)
    noise = jax.vmap(lambda key: jax.random.gumbel(key, (env.spec.max_steps, env.spec.actions)))
    later = jax.vmap(lambda key: env.reset(key)[0])(rkeys)
    episodes = jax.tree.map(lambda x, more: jnp.concatenate([x[None], more]), first, later)
    return Ahead(jnp.concatenate([before[None], after]), episodes, noise(nkeys))


def _numbers(hyper: Hyper) -> Float[Array, "8"]:
    names = ("discount", "entropy", "adam_eps", "grad_clip", "reward_scale")
    return jnp.stack([*(getattr(hyper, name) for name in names), *jnp.zeros(8 - len(names))])


def find_kernel(rule: Rule, env: Env, agent: Agent, precision: Precision) -> WindowKernel:
    """The kernel for runs of this agent, whose shapes alone will do. `NoKernel` says why not."""
    device = jax.devices()[0]
    if device.platform != "gpu" or "cuda" not in device.client.platform_version.lower():
        raise Unsuitable("there is no NVIDIA GPU")
    if float(device.compute_capability) < 9:
        raise Unsuitable(f"the GPU has compute capability {device.compute_capability}, below 9.0")
    agent, sizes = suit(rule, env, agent, precision)
    ptx = compile_ptx(
        pathlib.Path(__file__).parent,
        "window.cu",
        {**sizes.macros(), "TF32": TF32[precision]},
    )
    kernel = WindowKernel(VectorLayout(agent, sizes), sizes, launcher(ptx))
    probe(kernel)
    return kernel


def suit(rule: Rule, env: Env, agent: Agent, precision: Precision) -> tuple[WMG, Sizes]:
    """The agent and its sizes, if the kernel is made for all this."""
    if not isinstance(rule, A3C) or not isinstance(env, Pathfinding) or type(agent) is not WMG:
        raise Unsuitable("it trains WMG on Pathfinding, with one environment a run")
    steps = env.spec.max_steps
    if rule.t_max < steps:
        raise Unsuitable(f"its windows are whole episodes: t_max must be at least {steps}")
    if rule.bootstrap_truncated:
        raise Unsuitable("returns end with the episode in it: bootstrap_truncated must be False")
    if precision not in TF32:
        raise Unsuitable(f"it computes in float32 or tf32, not in {precision}")
    if agent.extensions:
        raise Unsuitable(f"it trains the paper's WMG, without {' and '.join(agent.extensions)}")
    memory = agent.memory_embedding
    if memory is None or memory.ages is not None or memory.slots != memory.oldest:
        raise Unsuitable("it needs a memory whose ages are concatenated")
    return agent, sizes_of(agent, steps)


def launcher(ptx: str) -> Launch:
    """The compiled kernel as a function of arrays, inside or outside of `jit`."""
    shared, work, threads = (
        exported(ptx, name) for name in ("shared_bytes", "work_floats", "block_threads")
    )

    def launch(*given: Array) -> tuple[Array, ...]:
        runs, chunk = given[3].shape[:2]
        shapes = [*(x.shape for x in given[:3]), (runs, work), (runs, chunk, 5)]
        results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        results.append(jax.ShapeDtypeStruct((runs, 2), jnp.int32))
        call = jax.ffi.ffi_call(TARGET, results, input_output_aliases={0: 0, 1: 1, 2: 2})
        grid = {"grid_x": runs, "grid_y": 1, "grid_z": 1}
        block = {"block_x": threads, "block_y": 1, "block_z": 1, "shared_mem_bytes": shared}
        numbers = {name: np.int32(number) for name, number in {**grid, **block}.items()}
        return tuple(call(*given, name="windows", kernel_type="ptx", kernel_data=ptx, **numbers))

    return launch


def probe(kernel: WindowKernel) -> None:
    """Launch the kernel once, for no windows: whatever is wrong with that is a `NoKernel`."""
    sizes, params = kernel.sizes, len(kernel.layout.order)
    shapes = [(1, params)] * 3 + [(1, 1, sizes.steps, 2), (1, 1, sizes.steps, up(sizes.core, 4))]
    given = [jnp.ones(shape) for shape in shapes]
    given += [jnp.zeros((1, 1, sizes.steps), jnp.int32), jnp.ones((1, 8)), jnp.ones((1, 1, 4))]
    try:
        made = jax.block_until_ready(jax.jit(kernel.launch)(*given, jnp.array([[0, 1]], jnp.int32)))
    except Exception as error:  # whatever jax, XLA or the driver raise
        raise NoKernel(str(error).partition("\n")[0][:300]) from error
    if not (made[0] == 1).all() or made[5].any():
        raise NoKernel("its first launch returned nonsense")
