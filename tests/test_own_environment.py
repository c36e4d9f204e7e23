"""An environment from outside of the package is shown and used like the package's own."""

import base64
import dataclasses
import json
import pickle
import re
import urllib.parse
import urllib.request
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from own import Bag, BagSettings, Gazer, PaintedBag, registered
from viewer import players

from wmg import registry
from wmg.config import Config
from wmg.settings import EnvSettings
from wmg.tools import draw
from wmg.tools.errors import BadInput
from wmg.types import Env
from wmg.viewer import export, generic, recording, session
from wmg.viewer.play import Player, Track
from wmg.viewer.session import ViewerSession


@pytest.fixture
def bag():
    with registered():
        yield players.fresh.__wrapped__(BagSettings())


def gazer(env):
    return Player("gazer", Gazer(), env, Config(env=None))


def test_settings_without_a_title_are_refused():
    @dataclasses.dataclass(frozen=True)
    class Untitled(EnvSettings):
        name: ClassVar[str] = "untitled"

    with pytest.raises(BadInput, match="Untitled must have a title"):
        registry.register_env(Untitled, Bag)
    assert "untitled" not in registry.ENVS


# Gymnasium


@pytest.fixture
def gym():
    """Gymnasium with the environment, which has been registered after the import."""
    gymnasium = pytest.importorskip("gymnasium")
    from wmg.interop import gymnasium as interop

    with registered(PaintedBag):
        interop.register()
        yield gymnasium
    del interop.IDS["wmg/Bag-v0"], gymnasium.registry["wmg/Bag-v0"]


def test_gymnasium_makes_it_by_name_with_its_bounds_and_infos(gym):
    env = gym.make("wmg/Bag-v0", coins=2, render_mode="ansi").unwrapped
    seen, info = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    assert env.observation_space["coins"].high.max() == 1.0
    assert info == {"sum": pytest.approx(seen["coins"][:, 0].sum()), "name": "bag of 2"}
    assert env.render() == "2 coins"
    env.step(0)
    assert env.render() == "1 coins"
    assert pickle.loads(pickle.dumps(env)).render() == "1 coins"


def test_a_batch_tells_the_infos_of_the_episodes_that_go_on(gym):
    envs = gym.make_vec("wmg/Bag-v0", num_envs=3, coins=1)
    first, infos = envs.reset(seed=0)
    np.testing.assert_allclose(infos["sum"], first["coins"][:, 0, 0])
    assert infos["sum"].dtype == np.float64 and list(infos["name"]) == ["bag of 1"] * 3
    second, *_, infos = envs.step([0, 0, 0])
    np.testing.assert_allclose(infos["final_info"]["sum"], first["coins"][:, 0, 0])
    np.testing.assert_allclose(infos["sum"], second["coins"][:, 0, 0])
    assert len({*first["coins"][..., 0].flat, *second["coins"][..., 0].flat}) == 6


# Pictures


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (Env.picture, "Bag has no pictures: define picture(self, state)"),
        (Env.text, "Bag has no text: define text(self, state)"),
    ],
)
def test_an_environment_without_pictures_says_what_to_define(make, sentence):
    with pytest.raises(BadInput) as refused:
        make(Bag(2), None)
    assert str(refused.value) == sentence


# The viewer


def test_a_session_shows_the_numbers_that_the_agent_sees(bag):
    shown = ViewerSession([bag]).handle({"do": "show"})
    assert (shown["title"], shown["env"]["name"]) == ("Bag", "bag")
    assert shown["actions"] == [{"name": f"action {i}", "key": str(i)} for i in range(3)]
    scene = shown["episodes"][0]["tracks"][0][0]["scene"]
    assert scene["picture"] is None and scene["says"] == "Factors present: 3 of 3 coins."
    assert scene["rows"][0] == {"name": "core", "numbers": [0.25]}
    assert [row["name"] for row in scene["rows"][1:]] == ["coins"] * 3
    assert scene["places"] == [[1], [2], [3]]


def test_a_factor_that_has_gone_has_no_row(bag):
    playing = ViewerSession([bag])
    playing.handle({"do": "act", "time": 0, "action": 1, "off": [[]]})
    scene = playing.tracks[0].steps[1].scene
    assert scene["places"] == [[1], None, [2]] and len(scene["rows"]) == 3
    assert scene["rows"][2]["numbers"][1] == pytest.approx(2 / 3, abs=1e-3)


def test_nodes_are_switched_off_by_an_agent_that_can(bag):
    thought = ViewerSession([bag]).handle({"do": "think", "track": 0, "time": 0, "off": [2]})
    shape = bag.attention_shape
    assert shape == (2, 2, 1 + 3 + 3) and bag.about()["attention"]["switchable"]
    attention = recording.unpack(thought["attention"], shape, "float32")
    assert (attention[..., 2] == 0).all() and (attention[..., [1, 3]] > 0).all()


def test_the_attention_of_any_agent_is_shown_and_its_nodes_stay_on():
    playing = ViewerSession([gazer(Bag(3))])
    shown = playing.handle({"do": "show"})
    about = shown["agents"][0]["attention"]
    assert about["factors"] == [["coins", 3]] and about["slots"] == 0 and not about["switchable"]
    playing.handle({"do": "act", "time": 0, "action": 2, "off": [[]]})
    thought = playing.tracks[0].steps[1].thought
    assert thought is not None and thought.attention is not None
    assert thought.present.tolist() == [True, True, True, False]
    np.testing.assert_allclose(thought.attention[0, 0], [1 / 3, 1 / 3, 1 / 3, 0])
    with pytest.raises(BadInput, match="off must be a list of at most 0 nodes"):
        playing.handle({"do": "think", "track": 0, "time": 0, "off": [1]})


def test_an_environment_that_is_not_registered_is_shown_by_its_class():
    shown = ViewerSession([gazer(Bag(2))]).handle({"do": "show"})
    assert (shown["title"], shown["env"]) == ("Bag", None)


def test_attention_to_fewer_nodes_than_there_are_is_refused():
    class Blind(Gazer):
        def __call__(self, observation, memory):
            output = super().__call__(observation, memory)
            return eqx.tree_at(lambda o: o.attention, output, jnp.ones((1, 1, 1)))

    with pytest.raises(BadInput, match="blind attends to 1 nodes, and Core and Factors are 3"):
        Track(Player("blind", Blind(), Bag(2), Config(env=None)), 0)


def test_its_picture_is_shown_if_it_has_one():
    env = PaintedBag(2)
    state, observation = jax.device_get(env.reset(jax.random.key(0)))
    scene = generic.describe(env, state, observation)
    assert (scene["picture"]["width"], scene["picture"]["height"]) == (32, 8)
    kind, _, data = scene["picture"]["data"].partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data) == draw.png(env.picture(state))
    assert scene["places"] == [[0], [1]]  # in the table, which has no row of the Core


def test_its_own_drawing_reaches_the_page(tmp_path):
    class DrawnBag(Bag):
        def scene(self):
            return generic.Scenery(
                drawing=tmp_path / "bag.js",
                actions=(("take", "t"),),
                describe=lambda state, observation: {"says": "", "brief": "", "places": [None]},
            )

    script = (
        'import { svg } from "./make.js";\n\nexport const drawing = { draw: () => svg("g") };\n'
    )
    (tmp_path / "bag.js").write_text(script)
    with players.serving(gazer(DrawnBag(1))) as (address, _):
        got = urllib.request.urlopen(urllib.parse.urljoin(address, "scene.js")).read()
    assert got.decode() == script
    page = export.export({}, tmp_path / "bag.js")
    assert 'modules["scene.js"] = (() => {\nconst { svg } = modules["make.js"];' in page


def test_recorded_episodes_are_exported_with_the_generic_drawing():
    by = [gazer(Bag(2))]
    episodes = [episode for episode, _ in session.record(by, 0, 2)]
    assert [len(episode.tracks[0]) for episode in episodes] == [3, 3]
    file = recording.to_json(session.about(by), episodes, "sqrt8")
    page = export.export(json.loads(json.dumps(file)), by[0].scenery.drawing)
    assert generic.DRAWING.read_text().splitlines()[0] in page


def test_wmg_view_exports_it_and_says_what_a_video_needs(capsys, tmp_path):
    with registered():
        args = ["view", "random", "--env.coins", "1", "--episodes", "1"]
        code, out, err = tiny.command(capsys, *args, "--export", tmp_path / "a.html")
        assert (code, err) == (0, "") and out.startswith("wrote ")
        assert re.search(r'id="episodes">\w', (tmp_path / "a.html").read_text())
        code, out, err = tiny.command(capsys, *args, "--video", tmp_path / "a.gif")
        assert (code, err) == (2, "wmg: Bag has no pictures: define picture(self, state)\n")
