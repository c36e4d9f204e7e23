"""The `wmg` command. Each subcommand is a module of `wmg.cli`: it parses, calls the library,
and prints.

Only the module of the command that is asked for is imported, and it imports jax only when it needs
to, so that `wmg --help` is instant.
"""

import contextlib
import importlib
import io
import os
import select
import signal
import sys
import threading
import time
import traceback
from typing import NoReturn

from wmg import __version__
from wmg.tools import signals
from wmg.tools.errors import LONGEST_SENTENCE, BadInput, FailedCode, cut, did_you_mean, quote

COMMANDS = {
    "train": "train a preset, on the CPU or hundreds of runs at once on a GPU",
    "eval": "play held-out episodes with a trained agent",
    "compare": "two agents in the same episodes: difference, interval and p-value",
    "plot": "learning curves of several run folders in one figure",
    "view": "watch an agent think, in the browser, as a page or a video",
    "reproduce": "run a table or figure of the paper, and compare",
    "inspect": "what an agent sees of an environment: Core, Factors, image, actions",
    "list": "presets with their parameter counts, targets, shipped models",
    "convert": "the model of a run folder as a file; to and from the authors' .pth files",
    "bench": "measure training speed",
    "data": "import the Boxoban levels, list level banks",
    "tune": "search for hyperparameters, as the paper did, on one core or a cluster",
}
"""What each command does. The module of the same name has its function `run`."""
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
    """The entry point `wmg` of the shell. The current folder comes last on the import path."""
    sys.path.append("")
    watch_interrupts("stopping after this report" if sys.argv[1:2] == ["train"] else "stopping")
    code = main()
    if code == INTERRUPTED:
        # Python would wait for the compiled program that still runs, which may take an hour.
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def watch_interrupts(does: str) -> None:
    """Acknowledge Ctrl-C at once, and end the process soon after a second one.

    Python's own handlers run in the main thread, and only once the compiled program that it waits
    for has ended. So another thread reads the signals, from a pipe that Python writes them to.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def read_signal() -> None:
        while os.read(reader, 1)[0] != signal.SIGINT:
            pass

    def watch() -> None:
        read_signal()
        time.sleep(signals.ONE_SIGNAL)  # most commands have ended by then
        if select.select([reader], [], [], 0)[0]:  # a scheduler may have sent the signal twice
            os.read(reader, select.PIPE_BUF)
        print(f"wmg: {does}; Ctrl-C again ends at once", file=sys.stderr, flush=True)
        read_signal()
        time.sleep(signals.ONE_SIGNAL)
        os._exit(INTERRUPTED)

    threading.Thread(target=watch, daemon=True).start()


def main(argv: list[str] | None = None) -> int:
    """Run a command. 0: done, 1: failed, 2: bad input, said in one sentence; 130: interrupted."""
    args = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may lack a character
            stream.reconfigure(errors="backslashreplace")
    if not args or args[0] in ("-h", "--help"):
        print(summary(), end="")
        return 0
    if args[0] == "--version":
        print(f"wmg {__version__}")
        return 0
    try:
        if args[0] not in COMMANDS:
            hint = did_you_mean(args[0], COMMANDS, f"there are {', '.join(COMMANDS)}")
            raise BadInput(f"there is no command {quote(args[0])}; {hint}")
        return importlib.import_module(f"wmg.cli.{args[0]}").run(args[1:])
    except BadInput as error:
        if isinstance(error, FailedCode):
            traceback.print_exception(error.__cause__)
        print(f"wmg: {error}", file=sys.stderr)
    except BrokenPipeError:  # the reader of our output, say `head`, has closed it
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        print("wmg: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        name = cut(str(error.filename or "a file"), LONGEST_SENTENCE)
        print(f"wmg: {name}: {error.strerror}", file=sys.stderr)
    return 2
