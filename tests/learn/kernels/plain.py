"""The contract of `window.cu` in plain JAX: slow, one step after the other, for comparison."""

import jax
import jax.numpy as jnp

from wmg.learn import losses
from wmg.types import Observation


def launcher(layout, sizes, like):
    """What the kernel computes, for agents of the structure of `like`."""

    def loss_of(vector, noise, shown, answers, numbers):
        agent = layout.unpack(vector, like)
        memory, rows = agent.initial_memory(), []
        for time in range(sizes.steps):
            out = agent(Observation(shown[time, : sizes.core]), memory)
            action = jnp.argmax(out.logits + noise[time])
            right = (answers[time] > 0) & (action == answers[time] - 1)
            rows.append((out.logits, out.value, action, right.astype(jnp.float32)))
            memory = out.memory
        logits, value, action, reward = (jnp.stack(x) for x in zip(*rows, strict=True))
        discount, entropy, _, _, scale = numbers[:5]
        valid = jnp.ones(sizes.steps, bool)
        target = losses.returns(reward * scale, valid, jnp.zeros(()), discount)
        terms = losses.actor_critic_terms(logits, value, action, target, valid)
        total = terms[0] + 0.5 * terms[1] - entropy * terms[2]
        return total, jnp.stack([reward.sum(), *terms])

    def one_run(params, mu, nu, noise, shown, answers, numbers, schedule, windows):
        totals = jnp.full((len(noise), 5), jnp.nan)

        def goes_on(now):
            return (now[4] < windows[0]) & (now[5] == 0)

        def window(now):
            params, mu, nu, totals, done, _ = now
            given = noise[done], shown[done], answers[done], numbers
            (loss, terms), slope = jax.value_and_grad(loss_of, has_aux=True)(params, *given)
            norm = jnp.sqrt(jnp.square(slope).sum())
            fine = jnp.isfinite(norm) & jnp.isfinite(loss)
            slope = slope * jnp.minimum(1.0, numbers[3] / (norm + 1e-6))
            first, second = 0.9 * mu + 0.1 * slope, 0.999 * nu + 0.001 * jnp.square(slope)
            rate, one, root = schedule[done, :3]
            change = rate * one * first / (root * jnp.sqrt(second) + numbers[2])
            after = params - change, first, second, totals.at[done].set(jnp.append(terms, norm))
            kept = [jnp.where(fine, a, b) for a, b in zip(after, now[:4], strict=True)]
            return (*kept, done + fine, 1 - fine.astype(jnp.int32))

        start = (params, mu, nu, totals, jnp.int32(0), jnp.int32(0))
        *rest, done, diverged = jax.lax.while_loop(goes_on, window, start)
        return *rest[:3], jnp.zeros(1), rest[3], jnp.stack([done, diverged])

    return lambda *given: jax.vmap(one_run)(*given)
