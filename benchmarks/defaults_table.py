"""The table of docs/defaults.md, made from the files that `benchmarks/defaults.py` writes.

    python benchmarks/defaults_table.py

writes it into the page. Without any file the table has no rows.
"""

import json
import pathlib
import statistics

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, RESULTS = ROOT / "docs" / "defaults.md", ROOT / "results" / "defaults"
BEGIN, END = "<!-- results/defaults: begin -->\n", "<!-- results/defaults: end -->\n"
HEAD = (
    "| task | asked | reached, by seed | seeds that reach it | training, minutes (median) |\n"
    "|---|---|---|---|---|\n"
)


def table(folder: pathlib.Path) -> str:
    """The table of the results in a folder: one row for each environment."""
    tasks: dict[str, list[dict]] = {}
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text())
        tasks.setdefault(data["env"], []).append(data)
    return HEAD + "".join(row(env, runs) for env, runs in sorted(tasks.items()))


def row(env: str, runs: list[dict]) -> str:
    """An environment's row."""
    runs = sorted(runs, key=lambda data: data["seed"])
    share = runs[0]["measured"] == "success"
    shown = [
        f"{100 * data['reached']:.1f}%" if share else f"{data['reached']:.4g}" for data in runs
    ]
    asked = f"{100 * runs[0]['asked']:g}% solved" if share else f"a return of {runs[0]['asked']:g}"
    holds = sum(data["holds"] for data in runs)
    minutes = statistics.median(data["seconds"] for data in runs) / 60
    name = env.removeprefix("gym:")
    return f"| {name} | {asked} | {', '.join(shown)} | {holds} of {len(runs)} | {minutes:.1f} |\n"


def with_table(page: str, made: str) -> str:
    """The page with this table in its place."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(), table(RESULTS)))
