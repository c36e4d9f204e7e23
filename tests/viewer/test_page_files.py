"""The page is small, asks for nothing from outside, and never takes text for markup."""

import re

import pytest

from wmg.viewer.page_files import page_files

FILES = page_files()
SCRIPTS = [name for name in FILES if name.endswith(".js")]


def test_page_and_scripts_are_under_150_kilobytes():
    assert sum(len(text.encode()) for text in FILES.values()) < 150_000


@pytest.mark.parametrize("name", FILES)
def test_no_address_outside_is_named(name):
    addresses = re.findall(r"\b(?:https?|wss?|ftp)?://[^\s\"'`]+", FILES[name])
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "@import" not in FILES[name] and not re.search(r"url\((?!data:)", FILES[name])


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_or_code_of_text(name):
    danger = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc"
    assert not re.search(danger, FILES[name])
    assert not re.search(r"setAttribute\(\s*[\"'`]on", FILES[name])


def test_every_script_that_is_imported_is_there():
    for name in SCRIPTS:
        folder = name.rpartition("/")[0]
        for path in re.findall(r'from "([^"]+)"', FILES[name]):
            inner = f"{folder}/{path.removeprefix('./')}".lstrip("/")
            assert (path.removeprefix("../") if path.startswith("../") else inner) in FILES
