"""The viewer's page in Chromium: random clicks, keys, texts, boards and navigation, in two tabs.

What a person does must be carried out, or refused in one sentence that the page shows. Wrong are
an error in the browser's console, an answer 5xx, a page that shows another episode than the
server has, and a server that is gone.
"""

import contextlib
import functools
import pathlib
import random
import shutil
import urllib.parse
from collections.abc import Iterator
from typing import Any

from viewer import players

from campaigns import requests
from campaigns.damage import damage_bytes
from campaigns.tally import Hung, Tally
from wmg.tools.errors import BadInput

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SHOWS = (
    lambda: [players.pathfinding()],
    lambda: [players.babyai()],
    lambda: [players.sokoban()],
    lambda: [players.random(), players.gru()],
)
"""What is shown, one after the other."""
PATIENCE = 7_000
"""Milliseconds that a page may take for one thing: five seconds more than right ones took."""
KEYS = (*"jklnrpdtx.0", "Home", "End", "Space", "Enter", "Tab", "Shift+Tab", "Escape", "Delete")
KEYS += ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Control+a", "Control+z", "PageDown")
TEXTS = (
    "",
    "-1",
    "3",
    "1e400",
    "1.5",
    "4294967296",
    "9" * 400,
    "blue key",
    "<b>x</b>",
    "ü\u202e\0",
)
TEXTS += ("null", '{"do": "show"}', "%s%n", "a" * 9_000, "é" * 9_000, "red ball " * 50)
BOARD = "#######\n#@ $ .#\n#  $  #\n#   . #\n#######"
PARTS = "button, select, summary, input[type=range], .node[tabindex], svg.history, h1"
ELSEWHERE = ("about:blank", "message", "nothing.html", "style.css", "../", "../wrong/", "?x#y")
SIZES = ((1280, 800), (400, 800), (320, 240), (2000, 300))


class Tab:
    """A page, and what it and the server said since it was last asked."""

    def __init__(self, context: Any, address: str) -> None:
        self.address = address
        self.errors: list[str] = []
        self.statuses: list[int] = []
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self.errors.append(f"raised {error}"))
        self.page.on("crash", lambda _: self.errors.append("crashed"))
        self.page.on("response", lambda response: self.statuses.append(response.status))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "the server responded with a status of 4" not in text:
            self.errors.append(f"logged {text[:200]}")

    def open(self) -> None:
        """Go to the viewer's page, unless it is there."""
        if self.page.url.partition("#")[0].partition("?")[0] != self.address:
            self.page.goto(self.address)
        self.settle()

    def settle(self) -> None:
        """Wait until the page has done what it was asked to."""
        self.page.wait_for_selector("body[data-ready][data-busy=false]")


def campaign(
    cases: int, seed: int, folder: pathlib.Path, shows: tuple[Any, ...] = SHOWS
) -> dict[str, Tally]:
    """Do random things in a browser, as often with each show."""
    tallies = {kind: Tally() for kind in DOES}
    with browsing() as browser:
        for number, show in enumerate(shows):
            share = range(number * cases // len(shows), (number + 1) * cases // len(shows))
            with players.serving(*show()) as (address, session):
                warm(session)
                fuzz(seed, browser, address, session, share, tallies)
                place = urllib.parse.urlsplit(address)
                still = requests.request(place, requests.MESSAGES[0])
                ask = functools.partial(requests.ask, place, still, True)
                tallies["navigation"].attempt(f"a last request to {number}", ask)
    return tallies


def warm(session: Any) -> None:
    """Compile what odd texts may need, which takes seconds with right ones, too."""
    if "mission" in session.choices:
        session.handle({"do": "begin", "choice": "mission", "value": "key"})


@contextlib.contextmanager
def browsing() -> Iterator[Any]:
    """Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def fuzz(
    seed: int,
    browser: Any,
    address: str,
    session: Any,
    cases: range,
    tallies: dict[str, Tally],
) -> None:
    """Do random things in two tabs that show the same session; new ones if one hangs."""
    tabs: list[Tab] = []
    for case in cases:
        if not tabs:
            context = browser.new_context()
            tabs = [Tab(context, address), Tab(context, address)]
        draw = random.Random(f"{seed} {case}")
        tab, kind = draw.choice(tabs), draw.choice(list(DOES))
        faults = len(tallies[kind].faults)
        do = functools.partial(attempt, draw, tab, session, kind)
        tallies[kind].attempt(f"{kind} {case} of seed {seed}", do, limit=60.0)
        if len(tallies[kind].faults) > faults:
            tab.page.context.close()
            tabs = []


def attempt(draw: random.Random, tab: Tab, session: Any, kind: str) -> str | None:
    """What is wrong after one thing was done, if anything. Raises `BadInput` if it is refused."""
    from playwright.sync_api import TimeoutError as TooLong

    try:
        tab.open()
        tab.errors.clear()
        tab.statuses.clear()
        done = DOES[kind](draw, tab.page)
        tab.open()
        said = tab.page.locator("#error").text_content()
        hidden = tab.page.locator("#error").is_hidden()
        fault = difference(tab, session) if hidden and 200 in tab.statuses else None
    except TooLong as error:
        raise Hung from error
    faults = tab.errors + [f"was answered {status}" for status in tab.statuses if status >= 500]
    if fault or faults:
        return f"{done}: {fault or faults[0]}"
    if not hidden and said.startswith("wmg view"):
        return f"{done}: the page says {said!r}"
    if any(400 <= status < 500 for status in tab.statuses):
        raise BadInput(f"{tab.statuses}" if hidden else said)
    return None


def difference(tab: Tab, session: Any) -> str | None:
    """How an episode that the server has just told of differs from the server's, if it does."""
    before = session.turn
    title = tab.page.locator("#title").text_content()
    clock = tab.page.locator("#clock").text_content()
    wanted = session.label, max(len(track.steps) for track in session.tracks) - 1
    if session.turn != before:  # a tab that plays went on meanwhile
        return None
    shown = title.rpartition(" · ")[2], int(clock.split(" of ")[1].split()[0])
    return None if shown == wanted else f"the page shows {shown}, the server has {wanted}"


def click(draw: random.Random, page: Any) -> str:
    """A click on some part of the page, or anywhere; or a part's value is chosen."""
    if draw.random() < 0.3:
        size = page.viewport_size
        at = draw.randrange(size["width"]), draw.randrange(size["height"])
        page.mouse.click(*at, click_count=draw.choice((1, 1, 2)))
        return f"click at {at}"
    parts = page.locator(PARTS).filter(visible=True)
    number = draw.randrange(parts.count())
    part = parts.nth(number)
    kind = part.evaluate("one => one.matches('select') ? one.length : one.type === 'range'")
    if kind is True:
        part.fill(part.get_attribute(draw.choice(("min", "max"))))
    elif kind is not False:
        part.select_option(index=draw.randrange(kind))
    else:
        part.click(force=True, no_wait_after=True)
    return f"part {number} with {kind}"


def press(draw: random.Random, page: Any) -> str:
    """Some keys, quickly."""
    keys = draw.choices(KEYS, k=draw.choice((1, 1, 3, 20)))
    for key in keys:
        page.keyboard.press(key)
    return " ".join(keys)


def write(draw: random.Random, page: Any, text: str | None = None) -> str:
    """An odd text in a field, as if pasted, and Enter or the button beside it."""
    forms = page.locator("form")
    form = forms.nth(draw.randrange(forms.count())) if text is None else forms.last
    field = form.locator("input, textarea")
    text = draw.choice(TEXTS) if text is None else text
    field.focus()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    if field.evaluate("one => one.matches('input')") and draw.random() < 0.5:
        page.keyboard.press("Enter")
    else:
        form.locator("button").click()
    return f"text {text[:60]!r}"


def paste(draw: random.Random, page: Any) -> str:
    """A board, right, damaged or too large, in the last field."""
    side = draw.choice((3, 64, 65, 90))
    walls = "\n".join("#" + "".join(draw.choices("# .$", k=side - 2)) + "#" for _ in range(side))
    damaged = damage_bytes(draw, BOARD.encode()).decode("utf-8", "replace")
    return write(draw, page, draw.choice((BOARD, damaged, damaged, walls)))


def navigate(draw: random.Random, page: Any) -> str:
    """Away, back, forward, again, or another size of the window."""
    do = draw.choice(("reload", "back", "forward", "elsewhere", "halfway", "size"))
    if do == "reload":
        page.reload()
    elif do == "back":
        page.go_back()
    elif do == "forward":
        page.go_forward()
    elif do == "size":
        width, height = draw.choice(SIZES)
        page.set_viewport_size({"width": width, "height": height})
    elif do == "halfway":  # a message is on its way
        page.keyboard.press("l")
        page.reload(wait_until="commit")
    else:
        page.goto(urllib.parse.urljoin(page.url, draw.choice(ELSEWHERE)))
        page.go_back()
    return do


DOES = {"clicks": click, "keys": press, "texts": write, "boards": paste, "navigation": navigate}
