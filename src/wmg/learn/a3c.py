"""Single-worker A3C: one agent, one environment, one update window."""

from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from wmg.config import HYPER_NAMES, Hyper
from wmg.learn import deferred, loops
from wmg.tools.errors import BadInput
from wmg.types import Agent, Env, Learner, Observation, Summary


def _hyper_of_arrays(_: None, numbers: Iterable[Any]) -> Hyper:
    """Numbers were checked when settings were made; arrays and tracers cannot be."""
    hyper = object.__new__(Hyper)
    hyper.__dict__.update(zip(HYPER_NAMES, numbers, strict=True))
    return hyper


jax.tree_util.register_pytree_node(
    Hyper, lambda hyper: ([getattr(hyper, n) for n in HYPER_NAMES], None), _hyper_of_arrays
)


class Scene(eqx.Module):
    """Where an episode stands: the environment's side and the agent's side of it."""

    state: PyTree[Any]
    observation: Observation
    memory: PyTree[Any]


class Run(eqx.Module):
    """The whole of a training run: what a checkpoint holds, and all that resuming needs."""

    agent: Learner
    optimizer: PyTree[Any]
    scene: Scene
    key: PRNGKeyArray
    steps: Int[Array, ""]
    diverged: Bool[Array, ""]
    """Whether a loss or gradient was not finite; such a run stands still from then on."""


class Moment(eqx.Module):
    """What one step of a window leaves behind for the loss."""

    summary: Float[Array, " size"]
    action: Int[Array, ""]
    reward: Float[Array, ""]
    valid: Bool[Array, ""]
    """False where the episode was over before this step."""
    success: Bool[Array, ""]


class Totals(eqx.Module):
    """Sums over the windows of a report interval."""

    steps: Int[Array, ""]
    windows: Int[Array, ""]
    episodes: Int[Array, ""]
    successes: Int[Array, ""]
    reward: Float[Array, ""]
    policy_loss: Float[Array, ""]
    value_loss: Float[Array, ""]
    entropy: Float[Array, ""]
    gradient_norm: Float[Array, ""]

    @staticmethod
    def zeros() -> "Totals":
        counts = [jnp.zeros((), jnp.int32)] * 4
        return Totals(*counts, *[jnp.zeros(())] * 5)

    @staticmethod
    def of_window(
        moments: Moment, over: Bool[Array, ""], terms: tuple, norm: Float[Array, ""]
    ) -> "Totals":
        """One window's share; `terms` are policy loss, value loss and entropy."""
        taken = moments.valid.sum(dtype=jnp.int32)
        return Totals(
            steps=taken,
            windows=jnp.ones((), jnp.int32),
            episodes=over.astype(jnp.int32),
            successes=(over & moments.success[taken - 1]).astype(jnp.int32),
            reward=jnp.sum(moments.reward, where=moments.valid),
            policy_loss=terms[0],
            value_loss=terms[1],
            entropy=terms[2],
            gradient_norm=norm,
        )


def start_scene(env: Env, agent: Agent, key: PRNGKeyArray) -> Scene:
    """The beginning of an episode."""
    state, observation = env.reset(key)
    return Scene(state, observation, agent.initial_memory())


def start_run(env: Env, agent: Agent, key: PRNGKeyArray) -> Run:
    """A run that has not taken a step."""
    if not isinstance(agent, Learner):
        name = type(agent).__name__
        raise BadInput(f"{name} cannot be trained: it does not derive from wmg.types.Learner")
    skey, key = jax.random.split(key)
    packed, _ = pack(eqx.filter(agent, eqx.is_inexact_array))
    adam = optax.scale_by_adam().init(packed)
    scene = start_scene(env, agent, skey)
    return Run(agent, adam, scene, key, jnp.zeros((), jnp.int32), jnp.zeros((), bool))


def decide_all(
    agent: Learner, summaries: Float[Array, "*steps size"]
) -> tuple[Float[Array, "*steps actions"], Float[Array, "*steps"]]:
    """Logits and values of many steps. An agent that decides for one step alone is refused: its
    values would be taken for those of other steps."""
    logits, value = agent.decide(summaries)
    if not logits.shape[:-1] == value.shape == summaries.shape[:-1]:
        raise BadInput(
            f"decide of {type(agent).__name__} must map rows to logits and values: of rows "
            f"{summaries.shape} it makes {logits.shape} and {value.shape}"
        )
    return logits, value


def sample(logits: Float[Array, " actions"], noise: Float[Array, " actions"]) -> Int[Array, ""]:
    """An action from the policy, given Gumbel noise."""
    return jnp.argmax(logits + noise).astype(jnp.int32)


def returns(
    rewards: Float[Array, " time"],
    valid: Bool[Array, " time"],
    bootstrap: Float[Array, ""],
    discount: Float[Array, ""] | float,
) -> Float[Array, " time"]:
    """Discounted n-step returns, counting back from `bootstrap` = V(next observation).

    Steps that are not `valid` pass the return through unchanged, so a window cut short by
    the end of an episode needs only `bootstrap = 0`.
    """

    def back(after: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        reward, valid = step
        here = jnp.where(valid, reward + discount * after, after)
        return here, here

    return jax.lax.scan(back, bootstrap, (rewards, valid), reverse=True, unroll=True)[1]


def loss_terms(
    logits: Float[Array, "time actions"],
    value: Float[Array, " time"],
    moments: Moment,
    bootstrap: Float[Array, ""],
    hyper: Hyper,
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """Policy loss, value loss and entropy of a window: sums over its steps, not means."""
    valid = moments.valid
    target = returns(moments.reward * hyper.reward_scale, valid, bootstrap, hyper.discount)
    log_policy = jax.nn.log_softmax(logits)
    taken = jnp.take_along_axis(log_policy, moments.action[:, None], axis=1)[:, 0]
    advantage = jax.lax.stop_gradient(target - value)
    error = jax.lax.stop_gradient(target) - value
    entropy = -(jnp.exp(log_policy) * log_policy).sum(1)
    policy_loss = -jnp.sum(taken * advantage, where=valid)
    value_loss = jnp.sum(jnp.square(error), where=valid)
    return policy_loss, value_loss, jnp.sum(entropy, where=valid)


def play_step(
    env: Env,
    agent: Learner,
    summary: Summary,
    scene: Scene,
    noise: Float[Array, " actions"],
    key: PRNGKeyArray,
    over: Bool[Array, ""],
) -> tuple[Scene, Bool[Array, ""], Moment]:
    """Act on what the agent makes of a scene. Where the episode was `over`, nothing changes."""
    action = sample(agent.decide(summary.vector)[0], noise)
    step = env.step(scene.state, action, key)
    after = Scene(step.state, step.observation, summary.memory)
    scene = keep_if(over, scene, after)
    moment = Moment(summary.vector, action, step.reward, ~over, step.success)
    return scene, over | step.done, moment


def window(
    env: Env,
    hyper: Hyper,
    run: Run,
    t_max: int,
    unroll: int,
    noise: Float[Array, "time actions"] | None = None,
    active: Bool[Array, ""] | bool = True,
) -> tuple[Run, Totals]:
    """Act until `t_max` steps or the episode's end, then update once.

    One forward pass acts and learns: the rollout is inside the loss. Only the decisions are
    made again, all at once, to learn from them. The memory at the window's start is a constant
    of that loss, so gradients reach past Memos within the window only. Actions are sampled with
    the `noise` given, or with the run's own. A run that is not `active` stands still.
    """
    nkey, ekey, rkey, key = jax.random.split(run.key, 4)
    time = min(t_max, env.spec.max_steps)
    if noise is None:
        noise = jax.random.gumbel(nkey, (time, env.spec.actions))
    keys = jax.random.split(ekey, time)

    def loss(rest: Learner, model_at: Any, taps: Any) -> tuple[Float[Array, ""], tuple]:
        def step(carry: tuple[Scene, Array], inputs: tuple) -> tuple[tuple, tuple]:
            scene, over = carry
            tap, noise, key = inputs
            agent, seen = model_at(tap)
            summary = agent.summarise(scene.observation, scene.memory)
            scene, over, moment = play_step(env, run.agent, summary, scene, noise, key, over)
            return (scene, over), (moment, seen())

        # In windows as long as the longest episode, episodes mostly end with the window, as in
        # Pathfinding; there, and for a single step, a scan is a little faster.
        if unroll == 1 and 1 < time < env.spec.max_steps:
            (scene, over), (moments, inputs) = until_over(step, run.scene, taps, (noise, keys))
        else:
            start = (run.scene, jnp.zeros((), bool))
            (scene, over), (moments, inputs) = jax.lax.scan(
                step, start, (taps, noise, keys), unroll=unroll
            )
        ahead = nothing = jnp.zeros(())
        if t_max < env.spec.max_steps:  # else windows end with episodes, and nothing follows
            ahead = jax.lax.cond(over, lambda: nothing, lambda: bootstrap(run.agent, scene))
        logits, value = decide_all(rest, moments.summary)
        terms = loss_terms(logits, value, moments, ahead, hyper)
        policy_loss, value_loss, entropy = terms
        total = policy_loss + 0.5 * value_loss - hyper.entropy * entropy
        return total, ((scene, over, moments, terms), inputs)

    summarise = lambda agent: agent.summarise(run.scene.observation, run.scene.memory)  # noqa: E731
    (total, (scene, over, moments, terms)), gradient = deferred.value_and_grad(
        loss, run.agent, summarise, time
    )
    agent, optimizer, norm, finite = update(run, gradient, total, hyper, active)
    scene = jax.lax.cond(over, lambda: start_scene(env, run.agent, rkey), lambda: scene)
    totals = Totals.of_window(moments, over, terms, norm)
    moves = finite & active
    scene, totals = keep_if(moves, (scene, totals), (run.scene, Totals.zeros()))
    if active is not True:
        data = jax.random.key_data
        key = jax.random.wrap_key_data(jnp.where(active, data(key), data(run.key)))
    diverged = run.diverged | (active & ~finite)
    return Run(agent, optimizer, scene, key, run.steps + totals.steps, diverged), totals


def until_over(
    step: Callable[[tuple, tuple], tuple[tuple, tuple]], scene: Scene, taps: Any, inputs: tuple
) -> tuple[tuple[Scene, Bool[Array, ""]], tuple[Moment, Any]]:
    """What a scan of a window's `step` gives, without taking the steps after the episode's end."""

    def split(scene: Scene) -> tuple[Any, tuple]:
        moving, fixed = eqx.partition(scene.memory, eqx.is_inexact_array)
        return moving, (scene.state, scene.observation, fixed)

    def join(moving: Any, rest: tuple) -> Scene:
        return Scene(rest[0], rest[1], eqx.combine(moving, rest[2]))

    def one(moving: Any, rest: tuple, tap: Any, inputs: tuple) -> loops.Outcome:
        before = (join(moving, rest), jnp.zeros((), bool))
        (scene, over), (moment, seen) = step(before, (tap, *inputs))
        moving, rest = split(scene)
        return (moving, moment.summary), (rest, over, (moment, seen))

    last, further = loops.scan_until(one, *split(scene), taps, inputs)
    (moving, summaries), (rest, over, (moments, seen)) = last, further
    # What was not taken is not learned from, but decided: on the first step's summary, since on
    # zeros a decision may have no gradient.
    summaries = jnp.where(moments.valid[:, None], summaries, summaries[0])
    moments = eqx.tree_at(lambda moments: moments.summary, moments, summaries)
    return (join(moving, rest), over), (moments, seen)


def bootstrap(agent: Agent, scene: Scene) -> Float[Array, ""]:
    """V(next observation) by the weights before the update; used as a constant."""
    return jax.lax.stop_gradient(agent(scene.observation, scene.memory).value)


def update(
    run: Run,
    gradient: Learner,
    loss: Float[Array, ""],
    hyper: Hyper,
    active: Bool[Array, ""] | bool = True,
) -> tuple[Learner, PyTree, Float[Array, ""], Bool[Array, ""]]:
    """Clip by global norm, then Adam: agent, optimizer state, norm, and whether all is finite.

    Adam runs over every parameter, also those without gradient in this window. If anything is
    not finite, or the run is not `active`, nothing changes.
    """
    packed, unpack = pack(gradient)
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(part)) for part in packed))
    finite = jnp.isfinite(norm) & jnp.isfinite(loss)
    clip = jnp.minimum(1.0, hyper.grad_clip / (norm + 1e-6))  # PyTorch's rule
    moments = optax.scale_by_adam().update([part * clip for part in packed], run.optimizer)[1]
    # The direction is made from the new moments, not from what they are made of: then each old
    # moment is read once, and overwritten in place. A large network's update is all memory.
    moves = finite & active
    adam = jax.lax.optimization_barrier(keep_if(moves, moments, run.optimizer))
    # The corrections of the moments' bias are two numbers: as such they cost no division of every
    # weight, which takes longer than to read it.
    first, second = (1 / (1 - decay**adam.count) for decay in ADAM_DECAY)
    rate, root = learning_rate(hyper, run.steps), jnp.sqrt(second)
    change = [
        jnp.where(moves, -rate * (first * m / (root * jnp.sqrt(s) + hyper.adam_eps)), 0.0)
        for m, s in zip(adam.mu, adam.nu, strict=True)
    ]
    return eqx.apply_updates(run.agent, unpack(change)), adam, norm, finite


ADAM_DECAY = 0.9, 0.999
LARGE = 65_536


def pack(tree: PyTree) -> tuple[list[Array], Callable[[list[Array]], PyTree]]:
    """The leaves of a tree as few arrays, and the way back.

    The small leaves become one vector, since dozens of small arrays would cost more than the
    arithmetic; large ones stay as they are, since copying them would.
    """
    leaves, structure = jax.tree.flatten(tree)
    small = [leaf.size < LARGE for leaf in leaves]
    vector, separate = ravel_pytree(
        [x for x, is_small in zip(leaves, small, strict=True) if is_small]
    )

    def unpack(packed: list[Array]) -> PyTree:
        parts, whole = iter(separate(packed[0])), iter(packed[1:])
        return jax.tree.unflatten(structure, [next(parts if s else whole) for s in small])

    return [vector, *(x for x, is_small in zip(leaves, small, strict=True) if not is_small)], unpack


def keep_if(condition: Bool[Array, ""], new: PyTree, old: PyTree) -> PyTree:
    """`new` where the condition holds, else `old`, leaf by leaf."""
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), new, old)


def learning_rate(hyper: Hyper, steps: Int[Array, ""]) -> Float[Array, ""]:
    """The rate after `steps`: constant, then times `anneal` at every `anneal_every` steps."""
    times = jnp.floor((steps - hyper.anneal_after) / hyper.anneal_every)
    return hyper.learning_rate * hyper.anneal ** jnp.maximum(times, 0.0)


def train_until(
    env: Env,
    hyper: Hyper,
    run: Run,
    steps: Int[Array, ""],
    t_max: int,
    unroll: int = 1,
    batch: str | None = None,
) -> tuple[Run, Totals]:
    """Windows until the first that ends at or after `steps`, and their sums.

    In a `batch`, named as the axis it is mapped over, all runs go on while any has to, and those
    that are done stand still. Left to itself, `vmap` would do the same by copying every weight.
    """

    def unfinished(run: Run) -> Bool[Array, ""]:
        return (run.steps < steps) & ~run.diverged

    def anyone(carry: tuple[Run, Totals]) -> Bool[Array, ""]:
        mine = unfinished(carry[0])
        return mine if batch is None else jax.lax.psum(mine.astype(jnp.int32), batch) > 0

    def one_more(carry: tuple[Run, Totals]) -> tuple[Run, Totals]:
        run, totals = carry
        active = True if batch is None else unfinished(run)
        run, more = window(env, hyper, run, t_max, unroll, active=active)
        return run, jax.tree.map(jnp.add, totals, more)

    return jax.lax.while_loop(anyone, one_more, (run, Totals.zeros()))
