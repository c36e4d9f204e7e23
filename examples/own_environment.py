"""An environment of your own, with Factors, and a WMG agent trained on it.

In the first step of an episode the agent sees a shelf: two to four balls, each on the left
or on the right. In the second step the shelf is gone and the agent is asked about one of
the balls by its colour. The balls are a set, so they are Factors; what is asked comes
through the Core; and the answer needs memory.

Run this file, or in its folder `wmg train own_environment:CONFIG --out shelf` and
`wmg view shelf`.
"""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray

import wmg
from wmg.settings import EnvSettings

LEFT, RIGHT = range(2)


@dataclasses.dataclass(frozen=True)
class ShelfSettings(EnvSettings):
    """What a config says of the environment."""

    name: ClassVar[str] = "shelf"
    title: ClassVar[str] = "Shelf"

    colours: int = 4
    """The most balls on the shelf."""


class State(eqx.Module):
    """Which balls there are, on which side each is, and which one will be asked about."""

    present: Bool[Array, " colours"]
    sides: Int[Array, " colours"]
    asked: Int[Array, ""]
    time: Int[Array, ""]


class Shelf(wmg.Env[State]):
    """See the module's docstring. Actions: 0 left, 1 right. A right answer pays 1."""

    colours: int = eqx.field(static=True)

    @property
    def spec(self) -> wmg.EnvSpec:
        balls = ("balls", self.colours, self.colours + 1)
        return wmg.EnvSpec(
            observation=wmg.ObservationSpec(core=self.colours, factors=(balls,)),
            actions=2,
            max_steps=2,
            metric="success",
        )

    def reset(self, key: PRNGKeyArray) -> tuple[State, wmg.Observation]:
        okey, ckey, skey = jax.random.split(key, 3)
        order = jax.random.permutation(okey, self.colours)
        count = jax.random.randint(ckey, (), 2, self.colours + 1)
        state = State(
            present=order < count,
            sides=jax.random.randint(skey, (self.colours,), LEFT, RIGHT + 1),
            asked=jnp.argmin(order).astype(jnp.int32),  # always one of those present
            time=jnp.zeros((), jnp.int32),
        )
        return state, observe(state)

    def step(self, state: State, action: Int[Array, ""], key: PRNGKeyArray) -> wmg.Step[State]:
        del key  # all chance was in the reset
        after = eqx.tree_at(lambda s: s.time, state, state.time + 1)
        right = (state.time == 1) & (action == state.sides[state.asked])
        return wmg.Step(
            state=after,
            observation=observe(after),
            reward=right.astype(jnp.float32),
            terminated=after.time == 2,
            truncated=jnp.zeros((), bool),
            success=right,
        )


def observe(state: State) -> wmg.Observation:
    """The balls in the first step; the colour that is asked about in the second."""
    shown = state.time == 0
    colours = len(state.sides)
    question = jnp.where(shown, 0.0, jax.nn.one_hot(state.asked, colours))
    side = jnp.where(state.sides == RIGHT, 1.0, -1.0)
    balls = jnp.concatenate([jnp.eye(colours), side[:, None]], axis=1)
    return wmg.Observation(question, {"balls": wmg.Factors(balls, state.present & shown)})


def four_colours() -> Shelf:
    """A shelf for `wmg train --env own_environment:four_colours`, with settings by default."""
    return Shelf(colours=4)


wmg.register_env(ShelfSettings, Shelf)

CONFIG = wmg.Config(
    env=ShelfSettings(),
    agent=wmg.WMGSettings(slots=1, memo_size=16, layers=2, heads=2, head_size=16, hidden=16),
    hyper=wmg.Hyper(learning_rate=3e-4, discount=0.9, entropy=0.02),
    steps=100_000,
    report_every=20_000,
)


def main() -> None:
    result = wmg.train(
        CONFIG, show=lambda at: print(f"{at.steps:7,} steps, {at.scores[0]:5.1f}% right")
    )
    score = result.evaluate(episodes=1000).score
    print(f"1,000 new episodes: {score:.1f}% right (guessing: 50%)")


if __name__ == "__main__":
    main()
