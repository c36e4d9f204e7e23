"""How many times as fast training is as a plain loop in PyTorch, in the same minutes.

Speeds of a shared machine change from hour to hour; the ratio of two programs measured in turns
changes less. The loop is written as the authors' code is known to work: one step at a time in the
real minigrid, the autograd graph of a window kept, an update after `t_max` steps or at an episode's
end, Adam over all parameters. It stands in for that code, and is not it: theirs made 81 (WMG) and
235 (GRU) steps/s on level 4 on a quiet machine with two cores, with a minigrid of its own time.

    pip install torch==2.13.0 '.[minigrid]'
    python benchmarks/pytorch_loop.py
"""

import json
import math
import statistics
import subprocess
import sys
import time
from typing import Any

import gymnasium
import torch
from torch import nn

from wmg import paper
from wmg.agents.gru.settings import GRUSettings
from wmg.agents.wmg.settings import WMGSettings
from wmg.interop.minigrid import Factored
from wmg.tools import machine

PRESETS = ("babyai/level4/wmg-factored", "babyai/level4/gru-factored")
ROUNDS, SECONDS, WARM_UP = 5, 8.0, 100


def linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.zeros_(layer.bias)
    return layer


class Norm(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x - x.mean(-1, keepdim=True)
        return self.gain * x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-12) + self.bias


class Layer(nn.Module):
    def __init__(self, heads: int, head_size: int, hidden: int):
        super().__init__()
        size = heads * head_size
        self.shape = heads, head_size
        self.query, self.key, self.value, self.mix = (linear(size, size) for _ in range(4))
        self.widen, self.narrow = linear(size, hidden), linear(hidden, size)
        self.attention_norm, self.feedforward_norm = Norm(size), Norm(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            layer(x).view(len(x), *self.shape).transpose(0, 1)
            for layer in (self.query, self.key, self.value)
        )
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(self.shape[1]), -1)
        mixed = (weights @ v).transpose(0, 1).reshape(len(x), -1)
        x = self.attention_norm(x + self.mix(mixed))
        return self.feedforward_norm(x + self.narrow(torch.relu(self.widen(x))))


class Heads(nn.Module):
    """Actor and critic, two layers each."""

    def __init__(self, size: int, hidden: int, actions: int):
        super().__init__()
        self.actor = nn.Sequential(linear(size, hidden), nn.ReLU(), linear(hidden, actions))
        self.critic = nn.Sequential(linear(size, hidden), nn.ReLU(), linear(hidden, 1))
        nn.init.zeros_(self.actor[2].weight)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.actor(x), self.critic(x)[0]


class WMG(nn.Module):
    """Memory is a list of Memos, the newest first."""

    def __init__(self, of: WMGSettings, core: int, factor: int, actions: int):
        super().__init__()
        size = of.heads * of.head_size
        self.core, self.factor = linear(core, size), linear(factor, size)
        self.memo = linear(of.memo_size + of.slots, size)
        self.layers = nn.Sequential(
            *(Layer(of.heads, of.head_size, of.hidden) for _ in range(of.layers))
        )
        self.new_memo = linear(size, of.memo_size)
        self.heads = Heads(size, of.actor_critic, actions)
        self.ages = torch.eye(of.slots).roll(-1, 0)  # an age's column is age mod S

    def initial_memory(self) -> list[torch.Tensor]:
        return [torch.zeros(self.new_memo.out_features) for _ in self.ages]

    def forward(self, core: torch.Tensor, factors: torch.Tensor, memory: list[torch.Tensor]):
        memos = self.memo(torch.cat([torch.stack(memory), self.ages], 1))
        nodes = torch.cat([self.core(core)[None], self.factor(factors), memos])
        out = self.layers(nodes)[0]
        return *self.heads(out), [torch.tanh(self.new_memo(out)), *memory[:-1]]


class GRU(nn.Module):
    """Memory is a list of one vector."""

    PLACES = 12

    def __init__(self, of: GRUSettings, core: int, factor: int, actions: int):
        super().__init__()
        self.embedding = linear(core + self.PLACES * factor, of.embedding)
        self.cell = nn.GRUCell(of.embedding, of.size)
        self.heads = Heads(of.size, of.actor_critic, actions)

    def initial_memory(self) -> list[torch.Tensor]:
        return [torch.zeros(self.cell.hidden_size)]

    def forward(self, core: torch.Tensor, factors: torch.Tensor, memory: list[torch.Tensor]):
        places = torch.zeros(self.PLACES, factors.shape[1])
        places[: len(factors)] = factors
        embedded = self.embedding(torch.cat([core, places.flatten()]))
        state = self.cell(embedded[None], memory[0][None])[0]
        return *self.heads(state), [state]


def observe(seen: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The Core, and the Factors that are there."""
    factors = seen["objects"][seen["objects_present"].astype(bool)]
    return torch.from_numpy(seen["core"]), torch.from_numpy(factors)


class Loop:
    """A training run, one window after the other."""

    def __init__(self, preset: str):
        self.settings = settings = paper.find_preset(preset)
        self.env = Factored(gymnasium.make("BabyAI-GoToLocal-v0", disable_env_checker=True))
        kind = {"wmg": WMG, "gru": GRU}[settings.agent.name]
        widths = [self.env.observation_space[name].shape[-1] for name in ("core", "objects")]
        self.model = kind(settings.agent, *widths, int(self.env.action_space.n))
        self.adam = torch.optim.Adam(
            self.model.parameters(), settings.hyper.learning_rate, eps=settings.hyper.adam_eps
        )
        self.start_episode(seed=0)

    def start_episode(self, seed: int | None = None) -> None:
        self.observation = observe(self.env.reset(seed=seed)[0])
        self.memory = self.model.initial_memory()

    def window(self) -> int:
        """Takes the steps of one window, learns from them, and says how many they were."""
        hyper, moments, over = self.settings.hyper, [], False
        while not over and len(moments) < self.settings.t_max:
            logits, value, self.memory = self.model(*self.observation, self.memory)
            log, chances = torch.log_softmax(logits, 0), torch.softmax(logits, 0)
            action = int(torch.multinomial(chances, 1))
            seen, reward, terminated, truncated, _ = self.env.step(action)
            self.observation, over = observe(seen), terminated or truncated
            reward *= hyper.reward_scale
            moments.append((log[action], value, -(log * chances).sum(), reward))
        future = torch.zeros(())
        if not over:
            with torch.no_grad():
                future = self.model(*self.observation, self.memory)[1]
        loss = torch.zeros(())
        for log, value, entropy, reward in reversed(moments):
            future = reward + hyper.discount * future
            advantage = future - value
            loss = loss - log * advantage.detach() + advantage**2 / 2 - hyper.entropy * entropy
        self.adam.zero_grad(set_to_none=False)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), hyper.grad_clip)
        self.adam.step()
        self.memory = [vector.detach() for vector in self.memory]
        if over:
            self.start_episode()
        return len(moments)

    def speed(self, seconds: float) -> float:
        """Steps per second, after some to warm up."""
        steps = 0
        while steps < WARM_UP:
            steps += self.window()
        steps, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            steps += self.window()
        return steps / passed


def measure(*command: str) -> float:
    """What a process of its own says: idle threads of one library would slow the other."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["steps_per_second"])


def compare(preset: str) -> dict[str, Any]:
    """The loop with one and two threads, and `wmg bench`, in turns."""
    ours = "-m", "wmg", "bench", preset, "--seconds", str(SECONDS), "--json"
    turns = [
        [*(measure(__file__, preset, str(threads)) for threads in (1, 2)), measure(*ours)]
        for _ in range(ROUNDS)
    ]
    ratios = [mine / max(loops) for *loops, mine in turns]
    return {
        "pytorch_1_thread_2_threads_and_wmg_in_turns": [[round(x, 1) for x in t] for t in turns],
        "times_as_fast": round(statistics.median(ratios), 2),
        "times_as_fast_each_turn": [round(ratio, 2) for ratio in ratios],
    }


if __name__ == "__main__":
    if len(sys.argv) == 3:
        torch.set_num_threads(int(sys.argv[2]))
        print(json.dumps({"steps_per_second": Loop(sys.argv[1]).speed(SECONDS)}))
    else:
        found = {preset: compare(preset) for preset in PRESETS}
        hardware = {**machine.describe(), "torch": torch.__version__}
        print(json.dumps({"presets": found, "hardware": hardware}, indent=1))
