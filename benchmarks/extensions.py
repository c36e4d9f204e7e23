"""bsuite's MemoryChain (gymnax): plain WMG against WMG with an extension.

    python benchmarks/extensions.py --length 60 --out results/extensions/memory-chain-60.json

The agent sees a bit first, then nothing for a number of steps, and must then name it. A run stops
at its first report at which it answers 95% of fresh episodes rightly; one that never does has
needed more than the budget. All variants have the package's default settings, apart from two:
gradients reach over the whole episode (t_max), since nothing else teaches an agent what to write,
and the learning rate is not annealed.

Runs that the file already has are left out. Each takes a few minutes on one core.
"""

import argparse
import dataclasses
import importlib
import json
import pathlib
import platform
import time
from typing import Any

import jax
import numpy as np

import wmg
from wmg import registry
from wmg.agents.gru.settings import GRUSettings
from wmg.api.defaults import config_for
from wmg.interop.gymnax import wrap
from wmg.learn.ppo import PPO
from wmg.tools.stats import wilson
from wmg.types import Env

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "lifetimes": {"lifetimes": "attention"},
    "edges": {"edges": "memos"},
    "store": {"store": 16},
}
"""Settings of WMG in each."""
GOAL, TESTED = 0.95, 400


def memory_chain(length: int) -> Env:
    """MemoryChain with a bit that must be remembered for `length` steps."""
    env, params = importlib.import_module("gymnax").make("MemoryChain-bsuite")
    return wrap(env, params.replace(memory_length=length), max_steps=length + 2)


def train(length: int, variant: str, seed: int, steps: int, t_max: int) -> dict[str, Any]:
    """One run: the steps it needed, or None, and its learning curve."""
    env = memory_chain(length)
    default = config_for(env, None, steps)
    if variant == "gru":
        agent: Any = GRUSettings()
    else:
        agent = dataclasses.replace(default.agent, **VARIANTS[variant])
    result = wmg.train(
        env=env,
        agent=agent,
        steps=steps,
        seed=seed,
        t_max=t_max,
        hyper={"anneal": 1.0},
        goal={"success": GOAL, "episodes": TESTED},
        show=False,
    )
    fresh = result.evaluate(1000)
    return {
        "variant": variant,
        "seed": seed,
        "budget": steps,
        "needed": None if result.crossings[0] is None else round(result.crossings[0]),
        "curve": [
            [int(at), round(float(y), 3)]
            for at, y in zip(result.steps, result.scores[0], strict=True)
        ],
        "right_of_1000": round(1000 * fresh.success),
    }


def speed(length: int, t_max: int) -> dict[str, float]:
    """Steps of training in a second of processor time, by variant: the median of three."""
    env, found = memory_chain(length), {}
    default = config_for(env, None)
    for variant, changes in VARIANTS.items():
        agent = registry.make_agent(
            dataclasses.replace(default.agent, **changes), env.spec, jax.random.key(0)
        )
        rule = PPO(t_max, default.batched)
        advance = jax.jit(
            lambda run, until, rule=rule: rule.advance(env, default.hyper, run, until)
        )
        run, rates = rule.start(env, agent, jax.random.key(1)), []
        for _ in range(4):
            before, since = int(run.steps), time.process_time()
            run, _ = jax.block_until_ready(advance(run, run.steps + 5000))
            rates.append((int(run.steps) - before) / (time.process_time() - since))
        found[variant] = round(float(np.median(rates[1:])))
    return found


def table(runs: list[dict[str, Any]]) -> str:
    """The results as Markdown: solved runs and steps needed, by variant."""
    rows = [
        "| WMG | runs solved (95% interval) | median steps needed | right answers |",
        "|---|---|---|---|",
    ]
    for variant in dict.fromkeys(run["variant"] for run in runs):
        some = [run for run in runs if run["variant"] == variant]
        solved = sum(run["needed"] is not None for run in some)
        low, high = wilson(solved, len(some))
        needed = [np.inf if run["needed"] is None else run["needed"] for run in some]
        median = np.median(needed)
        steps = f"{median:,.0f}" if np.isfinite(median) else f"> {some[0]['budget']:,}"
        right = np.mean([run["right_of_1000"] for run in some]) / 10
        rows.append(
            f"| {variant} | {solved} of {len(some)} ({100 * low:.0f}% to {100 * high:.0f}%) "
            f"| {steps} | {right:.1f}% |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--length", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--t-max", type=int, help="by default an episode")
    parser.add_argument("--variants", nargs="+", default=["plain", "lifetimes", "store"])
    parser.add_argument("--speed", action="store_true", help="measure speed, and nothing else")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    given = parser.parse_args()
    t_max = given.t_max or given.length + 2
    if given.speed:
        rates = speed(given.length, t_max)
        about = {"length": given.length, "t_max": t_max, "steps_per_processor_second": rates}
        given.out.write_text(json.dumps(about, indent=1) + "\n")
        return print(rates)
    done = json.loads(given.out.read_text())["runs"] if given.out.exists() else []
    for seed in range(given.runs):
        for variant in given.variants:
            if any((run["variant"], run["seed"]) == (variant, seed) for run in done):
                continue
            done.append(train(given.length, variant, seed, given.steps, t_max))
            about = {
                "length": given.length,
                "t_max": t_max,
                "goal": GOAL,
                "settings": VARIANTS,
                "jax": jax.__version__,
                "python": platform.python_version(),
                "device": jax.devices()[0].platform,
                "runs": done,
            }
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(about, indent=1) + "\n")
            last = {k: v for k, v in done[-1].items() if k != "curve"}
            print(last, done[-1]["curve"][-1], flush=True)
    print(table(done))


if __name__ == "__main__":
    main()
