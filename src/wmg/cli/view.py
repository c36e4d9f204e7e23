"""`wmg view`: watch an agent live, or save episodes as a page or a video."""

import dataclasses
import pathlib
from typing import Any

from wmg.cli.models import find_model, kind, remark_on_folder
from wmg.cli.options import parse
from wmg.cli.start import require_new, split_name
from wmg.settings import EnvSettings
from wmg.tools import files
from wmg.tools.errors import BadInput
from wmg.viewer import LARGEST_SEED


@dataclasses.dataclass(frozen=True)
class ViewOptions:
    """Watch an agent in the browser and play along; MODEL is a file, a run folder, a shipped
    name, random or depth-N."""

    env: EnvSettings
    versus: str | None = None
    """A second model, side by side on the same episodes."""
    run: int | None = None
    """Which run of a run folder (default: the best)."""
    seed: int = 0
    """First episode; N is episode N of `wmg eval`, except in Sokoban. Of an environment that runs
    in Python, only the start and greedy actions are the same."""
    greedy: bool = False
    """Take the most likely action instead of sampling."""
    export: pathlib.Path | None = None
    """Write a page with recorded episodes inside to this .html file, and show nothing."""
    video: pathlib.Path | None = None
    """Write recorded episodes to this .mp4 or .gif file, and show nothing."""
    episodes: int = 10
    """How many episodes are recorded."""
    solved: bool = False
    """Record only episodes that the agent solves."""
    fps: float = 3.0
    """Steps per second of a video."""
    host: str = "127.0.0.1"
    """Where to listen. On another address than this, others can reach the viewer."""
    port: int = 0
    """0 for any that is free."""
    browser: bool = True
    """Whether to open a browser."""


def run(args: list[str]) -> int:
    """`wmg view MODEL ...`"""
    name, args = split_name(args)
    agent, settings, shown = find_model(name, args)
    options = parse(ViewOptions, args, "wmg view MODEL", env=shown)
    check(options)
    import jax

    from wmg.viewer.session import ViewerSession

    # The viewer's programs are many and small: kept, they halve the time until it shows.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    options = dataclasses.replace(options, env=options.env.pinned())
    players = [make_player(name or "", agent, settings, options.env, options.greedy)]
    if options.versus is not None:
        players.append(find_rival(options))
    if options.export is None and options.video is None:
        from wmg.viewer import server

        server.serve(
            ViewerSession(players, options.seed), options.host, options.port, options.browser
        )
        return 0
    save(players, options)
    return 0


def check(options: ViewOptions) -> None:
    """Refuse numbers and names that make no sense, before anything is done."""
    limits = {"episodes": (1, 1000), "seed": (0, LARGEST_SEED), "port": (0, 65535)}
    for name, (least, most) in limits.items():
        value = getattr(options, name)
        if not least <= value <= most:
            raise BadInput(f"{name} must be from {least} to {most:,}, got {value}")
    if not 0.1 <= options.fps <= 60:
        raise BadInput(f"fps must be from 0.1 to 60, got {options.fps}")
    for path, endings in ((options.export, (".html",)), (options.video, (".mp4", ".gif"))):
        if path is not None and path.suffix not in endings:
            raise BadInput(f"the file must end in {' or '.join(endings)}, got {str(path)!r}")
        if path is not None and not path.parent.is_dir():
            raise BadInput(f"there is no folder {path.parent}")
        require_new(path)
    if not options.host:
        raise BadInput("host must name an address: 127.0.0.1 is this machine alone")


def make_player(name: str, agent: Any, settings: Any, env: EnvSettings, greedy: bool) -> Any:
    """An agent that is ready to play."""
    from wmg.play.source import HostSource
    from wmg.runs import models
    from wmg.viewer.chance import TEST_SEED
    from wmg.viewer.hosted import HostedEpisodes
    from wmg.viewer.play import Player

    made, fitted = models.fit(agent, settings, env)
    if isinstance(made, HostSource):
        made = HostedEpisodes(made, TEST_SEED)
    return Player(name, fitted, made, dataclasses.replace(settings, env=env), greedy)


def find_rival(options: ViewOptions) -> Any:
    """The second agent. It may see another form of the same episodes, as it was trained to."""
    from wmg.runs import models

    assert options.versus is not None
    agent, settings = models.find(options.versus)
    remark_on_folder(options.versus)
    baseline = not settings.agent.learns
    same = settings.env is not None and kind(settings.env) == kind(options.env)
    if not baseline and not same:
        raise BadInput(f"{options.versus} plays another environment than {kind(options.env)}")
    env = options.env
    observation = getattr(settings.env, "observation", None)
    if not baseline and observation is not None:
        env = dataclasses.replace(env, **{"observation": observation})
    return make_player(options.versus, agent, settings, env, options.greedy)


def save(players: list[Any], options: ViewOptions) -> None:
    """Record episodes, and write them."""
    from wmg.viewer import export, recording, session, video

    recorded = session.record(players, options.seed, options.episodes, options.solved)
    if options.export is not None:
        episodes = [episode for episode, _ in recorded]
        file = recording.to_json(session.about(players), episodes, "sqrt8")
        page = export.export(file, players[0].scenery.drawing)
        files.write_atomically(options.export, page.encode())
        print(f"wrote {options.export} ({options.export.stat().st_size / 1e6:.2f} MB)")
    if options.video is not None:
        video.save(options.video, [tracks for _, tracks in recorded], options.fps)
        print(f"wrote {options.video}")
