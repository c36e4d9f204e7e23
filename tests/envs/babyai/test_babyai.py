"""The whole environment, step by step against the real minigrid, and what else it promises."""

import collections
import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from envs.babyai import live
from plain import chi_square, chi_square_limit

from wmg.envs.babyai import encode, missions
from wmg.envs.babyai.env import BabyAI, Layout
from wmg.envs.babyai.observe import FORMATS
from wmg.envs.babyai.settings import LEVELS
from wmg.envs.babyai.vocabulary import DONE, DROP, FORWARD, PICKUP
from wmg.envs.babyai.world import ABSENT, CARRIED, LYING

QUICK = {"xla_backend_optimization_level": 0}
"""To compile in a third of the time what runs once."""
TODAY = [level for level in LEVELS if level != "GoToRedBallGreyBoxes"]


@functools.cache
def player(level):
    """A function that plays given actions from given states and says all there is to say.

    The level matters only in how many things it can show.
    """
    envs = {form: BabyAI(level, form, "minigrid") for form in FORMATS}

    @jax.jit
    @jax.vmap
    def play(state, actions):
        def one(state, action):
            step = envs["image"].step(state, action, jax.random.key(0))
            said = step.reward, step.terminated, step.truncated, step.success
            return step.state, (step.state, said)

        _, (states, said) = jax.lax.scan(one, state, actions)
        all_states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), state, states)
        seen = {form: jax.vmap(env.observe)(all_states) for form, env in envs.items()}
        return all_states, seen, said

    return lambda states, actions: jax.tree.map(np.asarray, play(states, actions))


def stacked(layouts):
    with live.without_keys():
        states = [jax.tree.map(np.asarray, one.state()) for one in layouts]
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *states)


def compare(level, recording, every=3):
    """Assert that the compiled environment says what was recorded, and return its states.

    Images are compared in all moments, what is made of them in one of `every` few.
    """
    shows = "GoToObj" if level == "GoToObj" else "GoToLocal"
    states, seen, said = player(shows)(stacked(recording.layouts), recording.actions)
    reward, terminated, truncated, success = said
    steps = np.arange(64) < recording.lengths[:, None]
    moments = np.arange(65) <= recording.lengths[:, None]
    assert (reward == recording.rewards.astype(np.float32))[steps].all()
    assert (terminated == recording.terminated)[steps].all()
    assert (truncated == recording.truncated)[steps].all()
    assert (success == recording.terminated)[steps].all()
    assert (states.direction == recording.directions)[moments].all()
    assert (seen["image"].image == recording.images)[moments].all()
    for episode, time in np.argwhere(moments)[::every]:
        before = recording.actions[episode, time - 1] if time else -1
        compare_encodings(
            encode.AgentView(
                recording.images[episode, time],
                int(recording.directions[episode, time]),
                missions.encode(missions.parse(recording.missions[episode])),
                int(before),
            ),
            *(at(seen[form], episode, time) for form in FORMATS if form != "words"),
        )
        words = at(seen["words"], episode, time)
        assert (words.image == recording.images[episode, time]).all()
        said = [missions.WORDS[int(number) - 1] for number in words.core if number > 0]
        assert " ".join(said) == recording.missions[episode]
    return states


def at(tree, *index):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def compare_encodings(view, factored, flat, image, flattened):
    """Assert that these four formats are what the authors' encoders make of the same image."""
    factors = factored.factors["objects"]
    values, present = encode.things(view, limit=factors.present.shape[0])
    assert (factored.core == encode.core(view)).all()
    assert (factors.present == present).all() and (factors.values == values).all()
    assert (flat.core == encode.flat(view)).all()
    assert (image.core == encode.vector(view)).all()
    assert (flattened.core == encode.flattened(view)).all()


def happened(states, recording):
    """How often things were picked up, dropped and destroyed, and how often in vain tried."""
    valid = (np.arange(64) < recording.lengths[:, None])[..., None]
    before, after = states.status[:, :-1], states.status[:, 1:]
    changed = {
        "picked": (before == LYING) & (after == CARRIED),
        "dropped": (before == CARRIED) & (after == LYING),
        "opened": (before == LYING) & (after == ABSENT),
    }
    counts = {name: int((valid & change).sum()) for name, change in changed.items()}
    carried = valid[..., 0] & (before == CARRIED).any(-1)
    unchanged = carried & (before == after).all(-1)
    counts["drop blocked"] = int((unchanged & (recording.actions == DROP)).sum())
    counts["picked while carrying"] = int((unchanged & (recording.actions == PICKUP)).sum())
    moved = (states.agent[:, :-1] != states.agent[:, 1:]).any(-1)
    forward = valid[..., 0] & (recording.actions == FORWARD)
    counts["move blocked"] = int((forward & ~moved).sum())
    return counts


@pytest.mark.parametrize("level", TODAY)
def test_every_step_is_that_of_minigrid(level):
    pytest.importorskip("minigrid")
    recording = live.record(level, 45)
    states = compare(level, recording, every=7)
    assert recording.steps >= 2000
    if level != "GoToObj":  # there, nothing but the target can be met
        assert min(happened(states, recording).values()) >= 5


@pytest.mark.parametrize("level", TODAY)
def test_recorded_steps_of_minigrid_come_out_again(level):
    recording = live.load(level)
    compare(level, recording)
    assert recording.steps > 400


@pytest.mark.parametrize("level", TODAY)
def test_steps_are_minigrids_too_if_something_is_faced_from_the_start(level):
    pytest.importorskip("minigrid")
    recording = live.record(level, 24, 700_000, facing=True)
    compare(level, recording)
    assert (recording.lengths <= 2).any()


@pytest.mark.slow
@pytest.mark.parametrize("level", TODAY)
def test_a_hundred_thousand_steps_are_those_of_minigrid(level):
    pytest.importorskip("minigrid")
    steps, seed, counts = 0, 1_000_000, collections.Counter()
    while steps < 100_000:
        recording = live.record(level, 90, seed)
        counts.update(happened(compare(level, recording, every=1), recording))
        steps += recording.steps
        seed += 90
    print(f"{level}: {steps:,} steps, {dict(counts)}")


@functools.cache
def random_play(level, episodes=8192):
    """Whether each episode of random play succeeds, and its length."""
    env = BabyAI(level, "factored", "binary")

    @functools.partial(jax.jit, compiler_options=QUICK)
    @jax.vmap
    def play(key):
        rkey, akey, skey = jax.random.split(key, 3)
        state, _ = env.reset(rkey)

        def one(carry, inputs):
            state, length, success, over = carry
            step = env.step(state, *inputs)
            now = length + ~over, success | (~over & step.success), over | step.done
            return (step.state, *now), None

        inputs = jax.random.randint(akey, (64,), 0, 7), jax.random.split(skey, 64)
        start = (state, jnp.int32(0), jnp.array(False), jnp.array(False))
        return jax.lax.scan(one, start, inputs)[0][1:]

    length, success, over = play(jax.random.split(jax.random.key(3), episodes))
    assert over.all()
    return np.asarray(success), np.asarray(length)


@pytest.mark.parametrize(
    ("level", "success", "length"),
    [
        ("GoToObj", 0.230, 56.0),
        ("GoToRedBallGrey", 0.204, 56.8),
        ("GoToRedBallGreyBoxes", 0.213, 56.8),
        ("GoToRedBall", 0.270, 54.4),
        ("GoToLocal", 0.271, 54.4),
        ("PickupLoc", 0.148, 59.1),
    ],
)
def test_random_play_is_as_good_as_elsewhere(level, success, length):
    """Measured with another implementation, with the same number of episodes."""
    got_success, got_length = random_play(level)
    assert abs(got_success.mean() - success) < 4 * 2**0.5 * got_success.std() / 8192**0.5
    assert abs(got_length.mean() - length) < 4 * 2**0.5 * got_length.std() / 8192**0.5 + 0.05


LAYOUT = Layout((2, 3), 0, (("ball", "red", 4, 3), ("box", "blue", 2, 5)), "go to the red ball")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("level", ["GoToObj", "PickupLoc"])
def test_observations_have_the_shapes_of_the_spec(level, form):
    env = BabyAI(level, form, "binary")
    _, seen = jax.eval_shape(env.reset, jax.random.key(0))
    spec = env.spec.observation
    assert seen.core.shape == (spec.core,)
    assert (seen.image is None and spec.image is None) or seen.image.shape == spec.image
    assert {(n, *f.values.shape) for n, f in seen.factors.items()} == set(spec.factors)


def test_sizes_of_the_formats_are_the_papers():
    def spec(form, level="GoToLocal"):
        return BabyAI(level, form, "binary").spec.observation

    assert spec("factored").core == 63 and spec("factored").factors == (("objects", 8, 29),)
    assert spec("factored", "GoToObj").factors == (("objects", 1, 29),)
    assert (spec("flat").core, spec("image").core, spec("flattened").core) == (929, 47, 411)
    assert spec("image").image == (7, 7, 3)


def test_success_pays_one_or_as_minigrid_pays():
    def paid(reward):
        env = BabyAI("GoToLocal", "image", reward).with_layouts([LAYOUT])
        state, _ = env.reset(jax.random.key(0))
        step = env.step(state, jnp.int32(FORWARD), jax.random.key(0))
        assert step.terminated and step.success and not step.truncated
        return float(step.reward)

    assert paid("binary") == 1.0
    assert paid("minigrid") == pytest.approx(1 - 0.9 / 64)


def test_success_in_the_last_step_is_both_termination_and_truncation():
    env = BabyAI("GoToLocal", "image", "binary").with_layouts([LAYOUT])
    state, _ = env.reset(jax.random.key(0))
    last = eqx.tree_at(lambda s: s.time, state, jnp.int32(63))
    won = env.step(last, jnp.int32(FORWARD), jax.random.key(0))
    assert won.terminated and won.truncated and won.success and won.reward == 1
    lost = env.step(last, jnp.int32(DONE), jax.random.key(0))
    assert not lost.terminated and lost.truncated and not lost.success and lost.reward == 0


def test_layouts_are_drawn_equally_often():
    layouts = [dataclasses.replace(LAYOUT, agent=(x, 1)) for x in (1, 2, 3)]
    env = BabyAI("GoToRedBall", "flat", "binary").with_layouts(layouts)
    state, _ = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(1), 3000))
    counts = np.bincount(state.agent[:, 0], minlength=4)[1:]
    assert chi_square(counts, [1000] * 3) < chi_square_limit(2)


def test_a_level_of_one_thing_takes_no_layout_of_two():
    with pytest.raises(ValueError, match="GoToObj shows no more than 1"):
        BabyAI("GoToObj", "factored", "binary").with_layouts([LAYOUT])


def test_an_environment_without_layouts_is_refused():
    with pytest.raises(ValueError, match="at least one layout"):
        BabyAI("GoToObj", "factored", "binary").with_layouts([])


@pytest.mark.parametrize("which", range(3))
def test_what_there_is_not_is_refused_by_name(which):
    settings = ["GoToObj", "factored", "binary"]
    settings[which] = "nonsense"
    with pytest.raises(ValueError, match=r"must be one of .*, got 'nonsense'"):
        BabyAI(*settings)


def test_the_same_key_gives_the_same_level_and_another_another():
    env = BabyAI("PickupLoc", "flattened", "binary")
    keys = jnp.array([1, 1, 2])
    reset = jax.jit(jax.vmap(lambda seed: env.reset(jax.random.key(seed))), compiler_options=QUICK)
    _, seen = reset(keys)
    assert (seen.core[0] == seen.core[1]).all() and (seen.core[0] != seen.core[2]).any()
