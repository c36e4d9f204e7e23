"""WMG beyond the paper: its presets are those of other files, with `--agent.` options."""

from wmg.config import Config

PRESETS: dict[str, Config] = {}
