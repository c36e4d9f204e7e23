import pathlib

from wmg.tools import cache


def test_the_folder_is_the_users_choice_or_the_usual_one(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache.folder() == pathlib.Path("/somewhere/wmg")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache.folder() == pathlib.Path.home() / ".cache" / "wmg"
