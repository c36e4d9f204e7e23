"""What further tries and steps of thinking add to a model's solved share of Sokoban levels.

    wmg data boxoban
    python benchmarks/sokoban_thinking.py sokoban-wmg --levels unfiltered-valid --episodes 1000 \\
        --out results/sokoban-thinking

Runs `wmg eval` once for each number of steps of thinking, 0 with up to 8 tries, and writes the
outcome of every level and a table, `tables.md`. A file that is there already is not made again.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

from wmg.tools import files, machine, stats

SHOWN = (1, 2, 4, 8)
"""Numbers of tries in the report."""
THINKING = (0, 2, 5, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--levels", required=True, help="a split or bank, as of wmg eval")
    parser.add_argument("--episodes", type=int, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder")
    options = parser.parse_args()
    what = [options.model, "--levels", options.levels, "--episodes", str(options.episodes)]
    found = []
    for thinking in THINKING:
        path = options.out / f"thinking-{thinking}.json"
        how = ["--tries", str(SHOWN[-1])] if thinking == 0 else ["--thinking", str(thinking)]
        args = [*what, *how]
        if not path.exists():
            measure(args, path)
        found.append(files.read_json(path))
        if found[-1]["command"] != command(args):
            raise SystemExit(f"{path} is of another command: {found[-1]['command']}")
    text = report(found)
    (options.out / "tables.md").write_text(text)
    print(text, end="")


def command(args: list[str]) -> str:
    """The command as a user would type it."""
    return f"wmg eval {' '.join(args)}"


def measure(args: list[str], path: pathlib.Path) -> None:
    """Play the levels, and write their outcomes with command, hardware and time."""
    about = {"command": command(args), "hardware": machine.describe()}
    began, started = time.monotonic(), machine.now()
    outcome = path.with_suffix(".tmp")
    outcome.unlink(missing_ok=True)
    subprocess.run([sys.executable, "-m", "wmg", "eval", *args, "--out", str(outcome)], check=True)
    about |= {"started": started, "seconds": round(time.monotonic() - began, 1)}
    path.write_text(json.dumps({**about, **files.read_json(outcome)}) + "\n")
    outcome.unlink()


def report(found: list[dict]) -> str:
    """Both tables. The first file has several tries; later ones are compared with its first."""
    first = [tried == 1 for tried in found[0]["try_each"]]
    count = len(first)
    lines = ["| tries | solved | 95% interval |", "|---|---|---|"]
    for tries in SHOWN:
        solved = found[0]["solved_by_try"][tries - 1]
        low, high = stats.wilson(solved, count)
        lines.append(f"| {tries} | {solved / count:.1%} | {low:.1%} to {high:.1%} |")
    lines += [
        "",
        "| thinking | solved | 95% interval | difference in points | p | mean steps if solved |",
        "|---|---|---|---|---|---|",
    ]
    for each in found:
        solved = [tried == 1 for tried in each["try_each"]]
        low, high = stats.wilson(sum(solved), count)
        lengths = [length for length, ok in zip(each["length_each"], solved, strict=True) if ok]
        compared = stats.paired_rates(solved, first)
        by = "{:+.1f} ({:+.1f} to {:+.1f})".format(compared["difference"], *compared["interval"])
        by, p = (by, f"{compared['p_value']:.2g}") if each["thinking"] else ("", "")
        lines.append(
            f"| {each['thinking']} | {sum(solved) / count:.1%} | {low:.1%} to {high:.1%} | {by} | "
            f"{p} | {sum(lengths) / len(lengths):.1f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
