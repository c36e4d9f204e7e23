"""Single-worker A3C, the paper's rule: one agent, one environment, one update a window."""

import dataclasses
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from wmg.config import Hyper
from wmg.learn import losses
from wmg.learn.losses import Terms
from wmg.learn.optimizer import update
from wmg.learn.rule import Rule, new_run
from wmg.learn.window import scan
from wmg.types import Agent, Env, Learner, Run, Scene, Totals, keep_if, sample, start_scene

LONGEST_UNROLL = 12
"""Most steps of a window that are unrolled where runs are vmapped: kernels in sequence, no loop."""


class WindowStep(eqx.Module):
    """What the loss needs of one step of a window."""

    summary: Float[Array, " size"]
    action: Int[Array, ""]
    reward: Float[Array, ""]
    valid: Bool[Array, ""]
    """False where the episode was over before this step."""
    success: Bool[Array, ""]
    terminated: Bool[Array, ""] | None = None
    """Kept if the returns of truncated episodes are bootstrapped."""
    total: Float[Array, ""] | None = None
    """The whole reward of the episode so far, where the environment keeps it."""


@dataclasses.dataclass(frozen=True)
class A3C(Rule):
    """Act for a window, then update once."""

    spread: ClassVar[Literal["runs", "envs"]] = "runs"

    def start(self, env: Env, agent: Agent, key: PRNGKeyArray) -> Run:
        skey, key = jax.random.split(key)
        return new_run(agent, start_scene(env, agent, skey), key)

    def advance(
        self, env: Env, hyper: Hyper, run: Run, until: Int[Array, ""], batch: str | None = None
    ) -> tuple[Run, Totals]:
        """See `Rule`. In a `batch`, all runs loop until the last one is done, and finished runs are
        left unchanged. Without this, `vmap` would do the same by copying every weight."""
        unroll = 1 if batch is None else min(self.t_max, env.spec.max_steps, LONGEST_UNROLL)

        def unfinished(run: Run) -> Bool[Array, ""]:
            return (run.steps < until) & ~run.diverged

        def any_unfinished(carry: tuple[Run, Totals]) -> Bool[Array, ""]:
            mine = unfinished(carry[0])
            return mine if batch is None else jax.lax.psum(mine.astype(jnp.int32), batch) > 0

        def one_more(carry: tuple[Run, Totals]) -> tuple[Run, Totals]:
            run, totals = carry
            active = True if batch is None else unfinished(run)
            run, more = window(env, hyper, run, self, unroll, active=active)
            return run, jax.tree.map(jnp.add, totals, more)

        return jax.lax.while_loop(any_unfinished, one_more, (run, Totals.zeros()))


def window(
    env: Env,
    hyper: Hyper,
    run: Run,
    rule: A3C,
    unroll: int = 1,
    noise: Float[Array, "time actions"] | None = None,
    active: Bool[Array, ""] | bool = True,
) -> tuple[Run, Totals]:
    """Act until `rule.t_max` steps or the episode's end, then update once.

    One forward pass acts and learns: the rollout is inside the loss. The memory at the window's
    start is a constant of that loss, so gradients reach past Memos within the window only. Actions
    are sampled with the `noise` given, or with the run's own. A run that is not `active` stands
    still.
    """
    nkey, ekey, rkey, key = window_keys(run.key)
    time, beyond = min(rule.t_max, env.spec.max_steps), rule.bootstrap_truncated
    if noise is None:
        noise = jax.random.gumbel(nkey, (time, env.spec.actions))
    keys = jax.random.split(ekey, time)

    def loss(agent: Learner) -> tuple[Float[Array, ""], tuple]:
        scene, over, steps = roll_out(env, run, agent, noise, keys, unroll, beyond)
        decisions = decide(agent, steps)
        bootstrap, stops = jnp.zeros(()), over
        if steps.terminated is not None:
            stops = over & steps.terminated[steps.valid.sum(dtype=jnp.int32) - 1]
        # If neither holds, windows end with their episode, and no value follows.
        if beyond or time < env.spec.max_steps:
            bootstrap = jax.lax.cond(stops, lambda: bootstrap, lambda: value(run, scene))
        reward = steps.reward * hyper.reward_scale
        target = losses.returns(reward, steps.valid, bootstrap, hyper.discount)
        terms = losses.actor_critic_terms(*decisions, steps.action, target, steps.valid)
        return losses.weigh(terms, hyper), (scene, over, steps, terms)

    slope = eqx.filter_value_and_grad(loss, has_aux=True)
    (total, (scene, over, steps, terms)), gradient = slope(run.agent)
    agent, optimizer, norm, finite = update(run, gradient, total, hyper, active)
    scene = jax.lax.cond(over, lambda: start_scene(env, run.agent, rkey), lambda: scene)
    totals = totals_of(steps, over, terms, norm)
    scene, totals = keep_if(finite & active, (scene, totals), (run.scene, Totals.zeros()))
    if active is not True:
        data = jax.random.key_data
        key = jax.random.wrap_key_data(jnp.where(active, data(key), data(run.key)))
    diverged = run.diverged | (active & ~finite)
    return Run(agent, optimizer, scene, key, run.steps + totals.steps, diverged), totals


def window_keys(key: PRNGKeyArray) -> Key[Array, "4"]:
    """Keys of a window: for the policy's noise, the environment, the next episode, the run."""
    return jax.random.split(key, 4)


def roll_out(
    env: Env,
    run: Run,
    agent: Learner,
    noise: Float[Array, "time actions"],
    keys: Key[Array, " time"],
    unroll: int,
    bootstrap_truncated: bool,
) -> tuple[Scene, Bool[Array, ""], WindowStep]:
    """The scene after a window, whether the episode is over, and the steps of the window.

    `agent` is the run's agent as the loss differentiates it. With `bootstrap_truncated`, steps
    record whether the episode was terminated.
    """

    def step(agent: Learner, carry: tuple[Scene, Array], given: tuple) -> tuple[tuple, WindowStep]:
        (scene, over), (noise, key) = carry, given
        # Through time, gradients flow by the memory alone.
        state, observation = jax.lax.stop_gradient((scene.state, scene.observation))
        scene = Scene(state, observation, scene.memory)
        summary = agent.summarise(observation, scene.memory)
        # To act, the agent decides as a constant: so nothing is kept to differentiate it.
        action = sample(run.agent.decide(summary.vector)[0], noise)
        made = env.step(state, action, key)
        after = Scene(made.state, made.observation, summary.memory)
        told = made.reward, ~over, made.success
        terminated = made.terminated if bootstrap_truncated else None
        done = WindowStep(summary.vector, action, *told, terminated, made.total)
        return (keep_if(over, scene, after), over | made.done), done

    # Windows as long as the longest episode mostly end with it, as in Pathfinding. There a scan
    # that cannot stop is faster.
    until = (lambda carry: carry[1]) if len(noise) < env.spec.max_steps else None
    start = (run.scene, jnp.zeros((), bool))
    (scene, over), steps = scan(step, agent, start, (noise, keys), until=until, unroll=unroll)
    return scene, over, steps


def value(run: Run, scene: Scene) -> Float[Array, ""]:
    """V(next observation) by the weights before the update, as a constant."""
    return jax.lax.stop_gradient(run.agent(scene.observation, scene.memory).value)


def decide(
    agent: Learner, steps: WindowStep
) -> tuple[Float[Array, "time actions"], Float[Array, " time"]]:
    """Logits and values of all steps of a window, to learn from them."""
    # Padding steps are masked out of the loss but pass through `decide`. Zeros may have no gradient
    # there, so the first summary stands in.
    summaries = jnp.where(steps.valid[:, None], steps.summary, steps.summary[0])
    return losses.decide_all(agent, summaries)


def totals_of(
    steps: WindowStep, over: Bool[Array, ""], terms: Terms, norm: Float[Array, ""]
) -> Totals:
    """The sums of one window."""
    taken = steps.valid.sum(dtype=jnp.int32)
    reward = jnp.sum(steps.reward, where=steps.valid)
    returns = reward if steps.total is None else jnp.where(over, steps.total[taken - 1], 0.0)
    return Totals(
        steps=taken,
        windows=jnp.ones((), jnp.int32),
        episodes=over.astype(jnp.int32),
        successes=(over & steps.success[taken - 1]).astype(jnp.int32),
        reward=reward,
        policy_loss=terms[0],
        value_loss=terms[1],
        entropy=terms[2],
        gradient_norm=norm,
        returns=returns,
    )
