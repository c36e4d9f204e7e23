"""The page in a real browser: Debian's Chromium, where there is one."""

import contextlib
import dataclasses
import itertools
import json
import re
import shutil

import jax
import numpy as np
import pytest
from viewer import players

from wmg.viewer import export, recording, session

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

MARKUP = '<img src=x onerror="document.title=1"><b>bold</b>'
OWN_LEVEL = "######\n#@ $.#\n######"
MAKERS = {
    "pathfinding": players.pathfinding,
    "babyai": players.babyai,
    "sokoban": players.sokoban,
}
EACH = pytest.mark.parametrize("name", list(MAKERS))
MAKERS["wide"] = players.wide
MAKERS["extended"] = players.extended


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def served():
    """A live viewer for each environment, started when it is first asked for."""
    with contextlib.ExitStack() as stack:
        started = {}

        def serve(name):
            if name not in started:
                started[name] = stack.enter_context(players.serving(MAKERS[name]()))
            return started[name]

        yield serve


@pytest.fixture
def visit(browser):
    """Opens an address; at the end, nothing may have gone wrong or been asked for elsewhere."""
    contexts, complaints, requests = [], [], []

    def visit(address, offline=False, **settings):
        context = browser.new_context(offline=offline, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append((address, request.url)))
        page.goto(address)
        page.wait_for_selector("body[data-ready]")
        return page

    yield visit
    for context in contexts:
        context.close()
    # Chromium reports a message that is refused or lost; the page shows it as well.
    expected = "status of 400", "ERR_CONNECTION_REFUSED"
    assert [text for text in complaints if not any(one in text for one in expected)] == []
    for address, url in requests:
        assert url.startswith((address.rpartition("/")[0] + "/", "data:")), url


@pytest.fixture
def live(visit, served):
    """A page that shows an episode from its start, and the session behind it."""

    def live(name, seed=0, **settings):
        address, behind = served(name)
        behind.handle({"do": "begin", "choice": "seed", "value": seed})
        return visit(address, **settings), behind

    return live


def settle(page):
    page.wait_for_selector("body[data-busy=false]")


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
        settle(page)


def time_of(page):
    return int(page.locator("body").get_attribute("data-time"))


def board(page):
    return page.locator(".board").first.evaluate("board => board.outerHTML")


def policy(page):
    rows = page.locator(".track").first.locator(".action").all()
    return [float(row.get_attribute("data-share")) for row in rows]


def squares(page):
    """The area of each node's square, as a share of what a cell stands for."""
    gain = 2 ** int(page.locator("#gain").input_value())
    drawn = (
        page.locator(".track")
        .first.locator("rect.attention")
        .evaluate_all(
            "all => all.map(one => [one.dataset.node, one.getAttribute('width'),"
            " one.getAttribute('height')].map(Number))"
        )
    )
    cell = page.locator(".track .core rect").first.evaluate("one => one.width.baseVal.value")
    return {int(node): width * height / (gain * cell**2) for node, width, height in drawn}


@jax.jit
def attention_of(agent, observation, memory):
    """What the model itself attends to, without anything of the viewer."""
    return agent(observation, memory).attention


def expected(behind, time, layers=slice(1, None), heads=slice(None)):
    track = behind.tracks[0]
    moment = track.snapshots[time]
    attention = attention_of(track.player.agent, moment.observation, moment.memory)
    return np.asarray(attention)[layers, heads].mean((0, 1))


@EACH
def test_squares_have_the_areas_that_the_models_attention_says(live, name):
    page, behind = live(name)
    press(page, "l", "l")
    assert time_of(page) == 2
    wanted, drawn = expected(behind, 2), squares(page)
    assert set(drawn) == set(np.flatnonzero(wanted))  # what is absent has none
    np.testing.assert_allclose(
        [drawn[node] for node in sorted(drawn)], wanted[sorted(drawn)], rtol=1e-3, atol=1e-6
    )
    assert np.isclose(sum(drawn.values()), 1, atol=1e-3)


def test_a_single_layer_and_head_can_be_shown(live):
    page, behind = live("pathfinding")
    page.select_option("[data-pick=layer]", label="1")
    page.select_option("[data-pick=head]", label="4")
    wanted, drawn = expected(behind, 0, slice(0, 1), slice(3, 4)), squares(page)
    np.testing.assert_allclose([drawn[i] for i in range(17)], wanted, rtol=1e-3, atol=1e-6)


def test_larger_squares_still_have_proportional_areas(live):
    page, behind = live("pathfinding")
    page.locator("#gain").fill("4")
    drawn = squares(page)
    np.testing.assert_allclose([drawn[i] for i in range(17)], expected(behind, 0), rtol=1e-3)


def test_factors_are_drawn_on_their_cells(live):
    page, behind = live("sokoban")
    places = behind.tracks[0].steps[0].scene["places"]
    for node in (1, 5, 9):
        square = page.locator(f"rect.attention[data-node='{node}']")
        x, side = (float(square.get_attribute(name)) for name in ("x", "width"))
        assert np.isclose((x + side / 2) // 32, places[node - 1][0])


@EACH
def test_an_episode_plays_step_by_step_and_by_itself(live, name):
    page, behind = live(name)
    press(page, "l")
    assert time_of(page) == 1 and len(behind.tracks[0].steps) == 2
    page.locator("#forward").click()
    settle(page)
    assert time_of(page) == 2
    page.select_option("#speed", "16")
    page.locator("#play").click()
    page.wait_for_selector("body:not([data-time='2']):not([data-time='3'])")
    page.locator("#play").click()
    settle(page)
    stopped = time_of(page)
    page.wait_for_timeout(200)
    assert time_of(page) == stopped == len(behind.tracks[0].steps) - 1


@EACH
def test_back_and_scrub_restore_the_exact_state(live, name):
    page, behind = live(name)
    seen = [board(page)]
    for _ in range(4):
        press(page, "l")
        seen.append(board(page))
    assert len(set(seen)) == 5
    press(page, "j", "j")
    assert board(page) == seen[2]
    page.locator("#scrub").fill("0")
    assert board(page) == seen[0]
    page.locator("#scrub").fill("3")
    assert board(page) == seen[3]
    press(page, "Home")
    page.locator("#scrub").blur()
    press(page, "Space", "Space", "Space", "Space")  # from the start, once more
    assert board(page) == seen[4]
    assert len(behind.tracks[0].steps) == 5


def test_turning_and_walking_in_a_room_is_as_the_rules_say(live):
    page, _ = live("babyai", seed=1)
    agent = page.locator(".agent").first

    def where():
        return [int(agent.get_attribute(f"data-{name}")) for name in ("x", "y", "direction")]

    x, y, direction = where()
    press(page, "ArrowRight")
    assert where() == [x, y, (direction + 1) % 4]
    press(page, "ArrowLeft", "ArrowLeft")
    assert where() == [x, y, (direction + 3) % 4]
    assert "You did" not in page.locator(".marks").first.inner_text()  # not in this step yet
    press(page, "j")
    assert "The agent would have done" in page.locator(".marks").first.inner_text()
    assert page.locator(".action.human").first.get_attribute("data-action") == "0"


def test_an_answer_to_a_quiz_is_paid_as_the_rules_say(live):
    page, _ = live("pathfinding")
    press(page, "ArrowLeft")
    yes = page.locator(".path").count() > 0  # the path that answers is drawn if there is one
    assert page.locator(".answer").inner_html().startswith("yes" if yes else "no")
    press(page, "ArrowRight" if yes else "ArrowLeft", "j")
    assert "Reward 1." in page.locator(".marks").first.inner_text()
    press(page, "ArrowLeft" if yes else "ArrowRight", "j")
    assert "Reward" not in page.locator(".marks").first.inner_text()


def test_a_level_of_ones_own_is_solved_by_pushing_the_box(live):
    page, _ = live("sokoban")
    page.locator("textarea").fill(OWN_LEVEL)
    page.locator("form", has=page.locator("textarea")).locator("button").click()
    settle(page)

    def rows():
        return page.locator(".warehouse").get_attribute("data-board").split("/")

    assert rows()[1].startswith("#@ $.#")
    page.locator("body").click(position={"x": 2, "y": 2})
    press(page, "ArrowLeft")
    assert rows()[1].startswith("#@ $.#")  # a wall
    press(page, "ArrowRight", "ArrowRight")
    assert rows()[1].startswith("#  @*#")
    assert "solved" in page.locator(".marks").inner_text()
    press(page, "r")
    assert rows()[1].startswith("#@ $.#") and time_of(page) == 0


def test_episodes_are_chosen_by_seed_level_and_key(live):
    page, behind = live("sokoban")
    page.locator("input[name=level]").fill("12")
    page.locator("input[name=level]").press("Enter")
    settle(page)
    assert page.locator("#title").inner_text().endswith("level 12")
    page.locator("input[name=seed]").fill("4")
    page.locator("input[name=seed]").press("Enter")
    settle(page)
    assert behind.seed == 4
    page.locator("body").click(position={"x": 2, "y": 2})
    press(page, "n")
    assert behind.seed == 5 and page.locator("#title").inner_text().endswith("seed 5")


def test_an_episode_is_chosen_by_its_mission(live):
    page, _ = live("babyai")
    page.locator("input[name=mission]").fill("grey box")
    page.locator("input[name=mission]").press("Enter")
    settle(page)
    assert page.locator("#says").inner_text() == "go to the grey box"


def test_a_memo_that_is_switched_off_changes_the_policy_by_keyboard_alone(live):
    page, behind = live("pathfinding")
    press(page, *"lllllll")
    before = policy(page)
    memo = page.locator(".node[data-node='1']")
    page.locator("#gain").focus()
    for _ in range(40):
        page.keyboard.press("Tab")
        if memo.evaluate("one => one === document.activeElement"):
            break
    press(page, "Enter")
    after = policy(page)
    assert np.abs(np.subtract(before, after)).max() > 1e-3
    thought = behind.tracks[0].think(7, (1,))
    np.testing.assert_allclose(after, thought.policy, atol=1e-5)
    assert page.locator("rect.attention[data-node='1']").count() == 0
    assert memo.get_attribute("aria-pressed") == "false"
    press(page, "Enter")
    assert policy(page) == before


def test_a_memo_stays_off_while_the_agent_goes_on(live):
    page, behind = live("pathfinding")
    press(page, *"lll")
    page.locator(".node[data-node='1']").click()  # the Memo of step 2
    settle(page)
    page.locator("body").click(position={"x": 2, "y": 2})
    press(page, "Space", "Space")
    offs = [step.thought.off for step in behind.tracks[0].steps]
    assert offs == [(), (), (), (1,), (2,), ()]  # it grows older; the last step is not yet taken
    page.locator(".all-on").click()
    assert page.locator(".off").count() == 0


def test_another_move_from_an_earlier_step_is_asked_about_anew(live):
    page, behind = live("babyai")
    press(page, *"lll")
    page.locator(".node[data-node='1']").click()
    settle(page)
    abandoned = policy(page)
    taken = behind.tracks[0].steps[2].action
    page.locator("body").click(position={"x": 2, "y": 2})
    press(page, "j")
    page.locator(f".action:not([data-action='{taken}'])").first.click()
    page.wait_for_selector("body[data-time='3'][data-busy=false]")
    expected = behind.tracks[0].think(3, (1,)).policy
    assert np.abs(np.subtract(abandoned, expected)).max() > 1e-3
    np.testing.assert_allclose(policy(page), expected, atol=1e-5)


def test_a_factor_can_be_switched_off(live):
    page, behind = live("sokoban")
    page.locator(".node[data-node='3']").click()
    settle(page)
    value = behind.tracks[0].think(0, (3,)).value
    assert f"Value {value:.3f}" in page.locator(".marks").inner_text()


def test_memos_stand_under_the_step_that_wrote_them_until_they_are_overwritten(live):
    page, behind = live("sokoban")  # which keeps three
    press(page, *"lllll")
    read = page.locator(".memo[data-read='5']").evaluate_all(
        "all => all.map(one => [Number(one.dataset.written), Number(one.dataset.share)])"
    )
    slots = expected(behind, 5)[-3:]
    assert sorted(written for written, _ in read) == [2, 3, 4]
    for written, share in read:
        assert np.isclose(share, slots[4 - written], atol=1e-5)
    gone = page.locator(".gone").evaluate_all("all => all.map(one => Number(one.dataset.written))")
    assert gone == [0, 1]
    earlier = page.locator(".memo[data-read='2']")
    assert earlier.count() == 2


def test_memos_that_are_kept_stand_under_their_steps_and_dropped_ones_are_marked(live):
    page, behind = live("extended")
    press(page, *"lllllll")
    track, time = behind.tracks[0], 7
    memos = track.snapshots[time].memory.memos
    kept = {
        time - age for age, there in zip(memos.ages.tolist(), memos.present, strict=True) if there
    }
    gone = page.locator(".gone").evaluate_all("all => all.map(one => Number(one.dataset.written))")
    assert 0 < len(kept) < 3 and set(gone) == set(range(time)) - kept
    vectors = page.locator(f".memo.vector[data-read='{time}']").evaluate_all(
        "all => all.map(one => Number(one.dataset.written))"
    )
    assert vectors == list(track.steps[time].thought.written[-2:])


def test_edges_are_drawn_on_demand_from_the_node_that_is_chosen(live):
    page, behind = live("extended")
    press(page, *"lllll")
    assert page.locator("line.edge").count() == 0
    page.locator("select[data-pick='edges of']").select_option("0")
    page.wait_for_selector("line.edge", state="attached")
    drawn = page.locator("line.edge").evaluate_all("all => all.map(one => Number(one.dataset.to))")
    present = behind.tracks[0].snapshots[5].memory.memos.present
    assert drawn == [1 + slot for slot in range(3) if present[slot]]


def test_two_agents_are_shown_side_by_side_also_without_attention(visit):
    both = players.random(), players.gru()
    with players.serving(*both) as (address, behind):
        page = visit(address)
        assert page.locator(".track").count() == 2
        press(page, "l", "ArrowRight")
        assert [track.steps[1].action for track in behind.tracks] == [1, 1]
        assert page.locator("rect.attention").count() == 0
        assert page.locator(".action").count() == 4
        assert page.locator(".curve").count() == 2


def test_a_page_does_not_mix_its_episode_with_that_of_another_page(live, visit, served):
    page, behind = live("sokoban")
    other = visit(served("sokoban")[0])
    press(other, "n", "l", "l")
    press(page, "l")
    assert "another page has changed" in page.locator("#error").inner_text()
    assert page.locator("#title").inner_text().endswith("seed 0") and time_of(page) == 0
    page.reload()
    settle(page)
    press(page, "End", "l")
    assert page.locator("#title").inner_text().endswith("seed 1") and time_of(page) == 3
    assert len(behind.tracks[0].steps) == 4


def test_a_viewer_that_was_ended_is_one_sentence(visit):
    with players.serving(players.random()) as (address, _):
        page = visit(address)
    press(page, "l")
    assert page.locator("#error").inner_text().startswith("wmg view does not answer")
    assert time_of(page) == 0


def test_markup_is_shown_as_text(visit):
    named = dataclasses.replace(players.random(), name=MARKUP)
    with players.serving(named) as (address, behind):
        behind.label = MARKUP
        page = visit(address)
        assert page.locator("h2").inner_text().startswith(MARKUP)
        assert MARKUP in page.locator("#title").inner_text()
        assert page.locator("img, b").count() == 0 and page.title() == "wmg viewer"


def test_a_mission_or_level_full_of_markup_is_refused_as_text(live):
    page, _ = live("babyai")
    page.locator("input[name=mission]").fill(MARKUP)
    page.locator("input[name=mission]").press("Enter")
    settle(page)
    assert "episodes has the words" in page.locator("#error").inner_text()
    assert MARKUP.split()[0] in page.locator("#error").inner_text()
    page, _ = live("sokoban")
    page.locator("textarea").fill(f"#{MARKUP}#")
    page.locator("form", has=page.locator("textarea")).locator("button").click()
    settle(page)
    assert "'<' is none of the characters" in page.locator("#error").inner_text()
    assert page.locator("img, b").count() == 0


@pytest.mark.parametrize("width", [320, 700, 1400])
def test_nothing_is_cut_off_in_a_narrow_window(live, width):
    page, _ = live("pathfinding", viewport={"width": width, "height": 700})
    page.locator("summary").click()
    wide = page.evaluate("document.scrollingElement.scrollWidth")
    assert wide <= width


@pytest.mark.parametrize("name", MAKERS)
def test_on_a_laptop_board_policy_value_and_memos_are_seen_without_scrolling(live, name):
    page, _ = live(name, viewport={"width": 1280, "height": 800})
    press(page, *"lllllllll")
    for part in (".board", ".policy", ".marks", ".history"):
        box = page.locator(part).bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 800, (part, box)
        assert box["x"] >= 0 and box["x"] + box["width"] <= 1280, (part, box)
    assert page.locator(".board").bounding_box()["height"] > 300
    assert page.evaluate("document.scrollingElement.scrollHeight") <= 800


def test_many_numbers_of_a_factor_do_not_make_all_else_tiny(live):
    page, _ = live("wide", viewport={"width": 1280, "height": 800})
    assert min(one.bounding_box()["width"] for one in page.locator(".board .slot").all()) > 14
    assert page.locator(".board .row").count() == 6 and page.locator(".row .number").count() == 240
    board = page.locator(".board").bounding_box()
    for cell in page.locator(".row .number").all()[:40]:
        assert cell.bounding_box()["x"] > board["x"]


def boxes(found):
    return [one.bounding_box() for one in found.all()]


def test_names_of_nodes_do_not_lie_on_patches(live):
    page, _ = live("pathfinding", viewport={"width": 1280, "height": 800})
    press(page, *"lllllllllll")
    names = boxes(page.locator(".graph > text:not(.answer)"))
    patches = boxes(page.locator(".graph > g:has(rect)"))
    assert len(names) == len(patches) == 7
    for name in names:
        for patch in patches:
            apart = [
                name[side] + name[length] <= patch[side]
                or patch[side] + patch[length] <= name[side]
                for side, length in (("x", "width"), ("y", "height"))
            ]
            assert any(apart), (name, patch)


def test_what_a_square_marks_can_be_seen_through_it(live):
    page, _ = live("babyai")
    opacity = page.locator("rect.attention").first.evaluate("s => getComputedStyle(s).fillOpacity")
    assert float(opacity) < 0.2


def test_squares_do_not_cover_the_names_of_core_and_memos(live):
    page, _ = live("babyai")
    press(page, "l", "l", "l")
    over = "one => one.parentNode.lastElementChild === one && one.textContent.includes('Memos')"
    assert page.locator(".board .names").evaluate(over)


@pytest.mark.parametrize("width", [320, 640, 1280])
def test_what_happened_in_steps_is_written_without_overlap(live, width):
    page, _ = live("pathfinding", viewport={"width": width, "height": 800})
    press(page, *"lllllllllll")
    boxes = [one.bounding_box() for one in page.locator(".brief").all()]
    assert len(boxes) == 12
    for line in {box["y"] for box in boxes}:
        row = [box for box in boxes if box["y"] == line]
        for before, after in itertools.pairwise(row):
            assert before["x"] + before["width"] < after["x"]


def test_no_bars_are_shown_where_nothing_is_asked(live):
    page, _ = live("pathfinding")
    percents = page.locator(".percent")
    assert not percents.first.is_visible()
    assert "Nothing is asked" in page.locator(".marks").inner_text()
    press(page, "l")
    assert percents.first.is_visible() and "asked" not in page.locator(".marks").inner_text()


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return np.dot(linear, (0.2126, 0.7152, 0.0722))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_light_and_dark(live, scheme):
    page, _ = live("pathfinding", color_scheme=scheme)
    colour = "one => getComputedStyle(one)."
    for text, ground in (("body", "body"), (".marks", ".track"), (".settings", ".track")):
        ink = page.locator(text).first.evaluate(colour + "color")
        paper = page.locator(ground).first.evaluate(colour + "backgroundColor")
        dark, light = sorted([luminance(ink), luminance(paper)])
        assert (light + 0.05) / (dark + 0.05) > 4.5, (text, ink, paper)
        assert (luminance(paper) > 0.5) == (scheme == "light")


def test_an_exported_page_works_from_a_file_without_network(visit, tmp_path):
    played = [players.pathfinding(), players.random()]
    recorded = [episode for episode, _ in session.record(played, 0, 2)]
    file = recording.to_json(session.about(played), recorded, "sqrt8")
    path = tmp_path / "a page.html"
    path.write_text(export.export(json.loads(json.dumps(file)), played[0].scenery.drawing))
    page = visit(path.as_uri(), offline=True)
    assert page.locator(".track").count() == 2
    press(page, *"llll")
    assert time_of(page) == 4
    exact = recording.shares(recorded[0].tracks[0][4].thought.attention)
    for node, share in squares(page).items():
        assert abs(np.sqrt(share) - np.sqrt(exact[node])) < 0.01
    np.testing.assert_allclose(policy(page), recorded[0].tracks[0][4].thought.policy, atol=1e-5)
    press(page, "n")
    assert page.locator("#title").inner_text().endswith("seed 1") and time_of(page) == 0
    told = page.locator("#keys").text_content()
    assert "to the last step" in told and "let the agent choose" not in told
    press(page, "ArrowRight", "Space")
    assert time_of(page) == 0  # nobody is there to make a move
    press(page, "End")
    assert page.locator(".marks").first.inner_text() in ("solved", "failed")
