"""Runs one campaign at full length and writes its counts."""

import argparse
import pathlib
import sys
import tempfile
import time

from campaigns import (
    browser,
    commands,
    damage,
    kills,
    memory,
    reproduce_kills,
    requests,
    tally,
    tuner_kills,
)

CAMPAIGNS = {
    "files": damage.campaign,
    "commands": commands.campaign,
    "requests": requests.campaign,
    "browser": browser.campaign,
    "kills": kills.campaign,
    "host-kills": kills.on_host,
    "memory": memory.campaign,
    "tuner-kills": tuner_kills.campaign,
    "reproduce-kills": reproduce_kills.campaign,
}


def main() -> int:
    """Run the campaign that is asked for. 1 if anything was wrong or hung."""
    parser = argparse.ArgumentParser(prog="campaigns", description=__doc__)
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("--cases", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results/campaigns"))
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = CAMPAIGNS[options.campaign]
        tallies = run(options.cases, options.seed, pathlib.Path(folder))
    command = f"python -m campaigns {options.campaign} --cases {options.cases}"
    command += f" --seed {options.seed}"
    seconds = time.monotonic() - began
    tally.write(tallies, options.campaign, command, seconds, options.out)
    print(tally.table(tallies), *(each.note for each in tallies.values()), sep="\n")
    faults = [fault for each in tallies.values() for fault in each.faults]
    print("\n".join(faults[:40]), file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
