"""The `wmg` command. Each subcommand is a module of `wmg.cli`: it parses, calls the library,
and prints.

Only the module of the command that is asked for is imported, and it imports jax only when it needs
to, so that `wmg --help` is instant.
"""

import contextlib
import importlib
import io
import os
import sys
from typing import NoReturn

from wmg import __version__
from wmg.tools.errors import LONGEST_SENTENCE, BadInput, cut, quote

COMMANDS = {
    "train": "train a preset, on the CPU or hundreds of runs at once on a GPU",
    "eval": "play held-out episodes with a trained agent",
    "view": "watch an agent think, in the browser, as a page or a video",
    "reproduce": "run a table or figure of the paper, and compare",
    "list": "presets with their parameter counts, targets, shipped models",
    "convert": "to and from the authors' .pth files",
    "bench": "measure training speed",
    "data": "import the Boxoban levels, list level banks",
    "tune": "search for hyperparameters, as the paper did, on one core or a cluster",
}
"""What each command does. It is `run` in the module of its name."""
INTERRUPTED = 130
SUMMARY = """\
usage: wmg COMMAND ...

Working Memory Graphs: a Transformer agent with working memory, for reinforcement learning.

{}

`wmg COMMAND --help` shows every option with its default.
"""


def summary() -> str:
    """What `wmg --help` prints."""
    return SUMMARY.format("\n".join(f"  {name:10} {does}" for name, does in COMMANDS.items()))


def command() -> NoReturn:
    """What the shell calls. Modules in the current folder can be imported, after all others."""
    sys.path.append("")
    code = main()
    if code == INTERRUPTED:
        # Python would wait for the compiled program that still runs, which may take an hour.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def main(argv: list[str] | None = None) -> int:
    """Run a command. 0: done, 1: failed, 2: bad input, said in one sentence; 130: interrupted."""
    args = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names may be more than a terminal can show
            stream.reconfigure(errors="backslashreplace")
    if not args or args[0] in ("-h", "--help"):
        print(summary(), end="")
        return 0
    if args[0] == "--version":
        print(f"wmg {__version__}")
        return 0
    try:
        if args[0] not in COMMANDS:
            raise BadInput(f"there is no command {quote(args[0])}; there are {', '.join(COMMANDS)}")
        return importlib.import_module(f"wmg.cli.{args[0]}").run(args[1:])
    except BadInput as error:
        print(f"wmg: {error}", file=sys.stderr)
    except BrokenPipeError:  # whoever read our output has seen enough
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        print("wmg: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        name = cut(str(error.filename or "a file"), LONGEST_SENTENCE)
        print(f"wmg: {name}: {error.strerror}", file=sys.stderr)
    return 2
