"""A small language model that learns to play Tic Tac Toe by tool calls, on this machine's GPU.

    .venv-gpu/bin/python bench/acting.py prepare FOLDER --base-model MODEL
    .venv-gpu/bin/python bench/acting.py train FOLDER --seeds 1,2
    .venv-gpu/bin/python bench/acting.py report FOLDER

The game is `examples/tic_tac_toe.py`; its opponent takes any free cell. `prepare` has a player that
does the same play some games, which are what the warm start imitates: legal calls, and no skill.
Any run takes them as they are: `precis train examples/tic_tac_toe.py` with the setting
`warm_start: {source: file, file: FOLDER/games.jsonl}`.
`train` takes each seed through a warm start and steps of GRPO, each in a process of its own beside
a trainer of its own: games are played through the recorder, and vLLM's tool parser reads the calls.
Step 0 is the warm start. Held-out games are played greedily, before it, after it, and every so many
steps. Run it at the root of a checkout.
"""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import art
import typer
from art.utils.sft import create_lr_schedule
from openai.types.chat import ChatCompletion

from bench.gpu import Usage
from precis.config import RolloutsConfig, WarmStartConfig
from precis.environments.demonstrations import read_demonstrations
from precis.environments.protocol import Environment
from precis.environments.python import load_python
from precis.environments.recorder import Recorder
from precis.environments.trajectories import group_of
from precis.processes.child import child_service, is_running
from precis.records.rollout import Rollout, Scenario, Score
from precis.rollouts.filter import refuse_too_many_unscored, reward_spread, split_groups
from precis.rollouts.sample import adapter_policy, sample_each, sample_groups, sampled
from precis.settings.trainer import ArtTrainer, EngineConfig
from precis.statistics.intervals import paired_interval, share_interval
from precis.trainer.client import RemoteTrainer
from precis.training.demonstrations import trajectories

app = typer.Typer(add_completion=False)

GAME = "examples/tic_tac_toe.py"
SHOWN = "games.jsonl"
"""The games to imitate, as `warm_start: {source: file}` of an agent reads them."""
_TRAINING, _HELD_OUT, _SHOWN = range(10_000), range(10_000, 10_400), range(100_000, 100_400)
"""Seeds of games: to learn from, held out, and to imitate."""
_IMITATED_AT_ONCE = 2
"""Games of an update: about seven calls."""
_IMITATION_RATE = 2e-4
_OF_STEP = ("time/step_update_s", "data/step_num_gradient_steps", "data/step_trainer_tokens")
_OF_LOSS = ("loss/probs_corr", "loss/entropy", "loss/grad_norm")

Folder = Annotated[Path, typer.Argument(help="Of the model, the games to imitate, and the runs.")]
Json = dict[str, Any]

TEMPLATE = """{%- if tools -%}
<|im_start|>system
{{ messages[0]['content'] }}

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>{% for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}{{ '\\n' }}</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% set said = messages[1:] %}
{%- else -%}
{% set said = messages %}
{%- endif -%}
{%- for message in said -%}
<|im_start|>{{ 'user' if message['role'] == 'tool' else message['role'] }}
{% if message['role'] == 'tool' -%}
<tool_response>
{{ message['content'] }}
</tool_response>
{%- elif message['tool_calls'] -%}
{%- for call in message['tool_calls'] -%}
<tool_call>
{"name": "{{ call['function']['name'] }}", "arguments": \
{{ call['function']['arguments'] if call['function']['arguments'] is string \
else call['function']['arguments'] | tojson }}}
</tool_call>
{%- endfor -%}
{%- else -%}
{{ message['content'] }}
{%- endif -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}"""
"""Calls as Hermes and Qwen2.5 write them, with a system message first where there are tools. The
template of SmolLM2-135M-Instruct knows no tools."""


@app.command()
def prepare(
    folder: Folder,
    base_model: Annotated[str, typer.Option(help="A folder with Transformers' files.")],
) -> None:
    """Make the model that is asked, which knows of tools, and the games to imitate."""
    model = folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    for file in Path(base_model).resolve().iterdir():
        (model / file.name).unlink(missing_ok=True)
        (model / file.name).symlink_to(file)
    own = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").unlink()
    (model / "tokenizer_config.json").write_text(json.dumps({**own, "chat_template": TEMPLATE}))
    write_games(folder / SHOWN, _SHOWN)


@app.command()
def train(
    folder: Folder,
    seeds: Annotated[str, typer.Option(help="One run for each.")] = "1,2",
    name: Annotated[str, typer.Option(help="Of these settings.")] = "base",
    steps: Annotated[int, typer.Option(help="Of GRPO.")] = 40,
    learning_rate: Annotated[float, typer.Option()] = 1e-4,
    groups: Annotated[int, typer.Option(help="Boards of a step.")] = 16,
    share: Annotated[float, typer.Option(help="trainer.engine.gpu_memory_share")] = 0.2,
) -> None:
    """Train with each seed, each in a process of its own, started one after the other.

    Engines that start at the same moment count each other's memory as their own.
    """
    running = []
    for seed in seeds.split(","):
        home = folder / f"{name}-{seed}"
        home.mkdir()
        options = [str(home), seed, str(steps), str(learning_rate), str(groups), str(share)]
        with (home / "log").open("a") as log:
            command = [sys.executable, "-m", "bench.acting", "one", *options]
            running.append(subprocess.Popen(command, stdout=log, stderr=log))
        while not (home / "steps.jsonl").exists() and is_running(running[-1].pid):
            time.sleep(0.5)
    codes = [process.wait() for process in running]
    report(folder)
    raise typer.Exit(max(map(abs, codes)))


@app.command(hidden=True)
def one(home: Path, seed: int, steps: int, learning_rate: float, groups: int, share: float) -> None:
    """Train with one seed; `train` starts one for each."""
    settings = ArtTrainer(
        base_model=str(home.parent / "model"),
        learning_rate=learning_rate,
        trajectories_per_update=16,
        engine=EngineConfig(lora_rank=16, gpu_memory_share=share, tokens_max=2048),
    )
    rollouts = RolloutsConfig(
        groups_per_step=groups, rollouts_per_group=8, in_flight=16 * 8, timeout_s=120, turns_max=6
    )
    asyncio.run(_learn(home, seed, steps, settings, rollouts))


@app.command()
def report(folder: Folder) -> None:
    """Print each run's steps and held-out games, and all runs' together."""
    together: dict[str, list[dict[int, Json]]] = {}
    for file in sorted(folder.glob("*/steps.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        held_out = {row["step"]: row for row in rows if "won" in row}
        together.setdefault(file.parent.name.rpartition("-")[0], []).append(held_out)
        print(f"\n{file.parent.name}")
        for row in rows:
            shown = {key: value for key, value in row.items() if isinstance(value, float | int)}
            print(" ", ", ".join(f"{key} {value:.4g}" for key, value in shown.items()))
            if "won" in row:
                print(f"    held out: won {_share(row['won'])}, legal {_share(row['legal'])}")
    for name, runs in together.items():
        print(f"\n{name}, {len(runs)} seeds, {len(_HELD_OUT)} held-out games each")
        shared = sorted(set.intersection(*map(set, runs)))
        for step in shared:
            won, legal = (
                [sum(each) for each in zip(*[run[step][key] for run in runs], strict=True)]
                for key in ("won", "legal")
            )
            line = f"  step {step:3}: won {sum(won) / len(won) / len(runs):.1%}"
            line += f", legal {sum(legal) / len(legal) / len(runs):.1%}"
            if step > 1 and 1 in shared:
                start = [sum(each) for each in zip(*[run[1]["won"] for run in runs], strict=True)]
                gain = paired_interval(won, start, [len(runs)] * len(won))
                line += f"; won over step 1 {100 * gain.mean:+.1f} points "
                line += f"({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"
            print(line)


def write_games(file: Path, seeds: Sequence[int]) -> None:
    """Write games of a random player to imitate, one of each seed, and say how many calls."""
    game = load_python(GAME)
    lines = []
    calls = 0
    for seed in seeds:
        player = _RandomPlayer(random.Random(seed))
        asyncio.run(game.rollout(player, _scenario(seed)))  # type: ignore[arg-type]
        asked, tools, answer = player.calls[-1]
        calls += len(player.calls)
        shown = {"id": f"game-{seed}", "tools": tools, "messages": [*asked, answer]}
        lines.append(json.dumps(shown))
    file.write_text("\n".join(lines))
    print(f"{calls} calls of {len(lines)} games to imitate; the last game:\n{lines[-1]}")


@dataclass
class _RandomPlayer:
    """Stands in for a model: it calls `play` with any free cell of the board that it is shown."""

    chance: random.Random
    calls: list[tuple[list[Json], list[Json], Json]] = field(default_factory=list)

    def openai_client(self) -> Any:
        return self

    @property
    def chat(self) -> Any:
        return self

    @property
    def completions(self) -> Any:
        return self

    def get_inference_name(self) -> str:
        return "random"

    async def create(self, model: str, messages: list[Json], tools: list[Json]) -> ChatCompletion:
        free = [cell for cell in messages[-1]["content"] if cell.isdigit()]
        arguments = json.dumps({"cell": int(self.chance.choice(free))})
        function = {"name": "play", "arguments": arguments}
        call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        self.calls.append((list(messages), tools, message))
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        known = {"id": "random", "object": "chat.completion", "created": 0, "model": model}
        return ChatCompletion.model_validate({**known, "choices": [choice]})


async def _learn(
    home: Path, seed: int, steps: int, settings: ArtTrainer, rollouts: RolloutsConfig
) -> None:
    """A run: held-out games, the warm start, then steps of GRPO."""
    arguments = ["--path", str(home / "trainer"), "--seed", str(seed)]
    arguments += ["--with-parent", "--backend", settings.backend]
    log = home / "trainer.log"
    async with (
        child_service("precis.trainer.server", arguments, log, supervised=True) as service,
        Recorder() as recorder,
    ):
        updates: list[Json] = []
        trainer = RemoteTrainer(service.url, service.token, home / "art", updates.append)
        model: art.TrainableModel[Any, Any] = art.TrainableModel(
            name=home.name,
            project="precis",
            base_model=settings.base_model,
            base_path=str(home / "art"),
            report_metrics=[],
            _internal_config=settings.internal_config,  # type: ignore[arg-type]
        )
        await trainer.begin(model, home.name)
        await model.register(trainer)
        usage = Usage(1)
        usage.watch()
        game = load_python(GAME)
        run = _Run(home, seed, settings, rollouts, game, recorder, trainer, model, usage)
        run.write(step=0, **await run.play_held_out(0))
        run.write(step=0, **await run.imitate())
        run.write(step=1, **await run.play_held_out(1))
        for step in range(1, 1 + steps):
            updates.clear()
            row = await run.take_step(step)
            first = {f"first {key}": updates[0].get(key) for key in _OF_LOSS[:1] if updates}
            run.write(step=step, **row, **first)
            if step % 10 == 0:
                run.write(step=step + 1, **await run.play_held_out(step + 1))
        await trainer.close()


@dataclass
class _Run:
    """The parts of a run; each method says what it measured."""

    home: Path
    seed: int
    settings: ArtTrainer
    rollouts: RolloutsConfig
    game: Environment
    recorder: Recorder
    trainer: RemoteTrainer
    model: art.TrainableModel[Any, Any]
    usage: Usage

    def write(self, **row: Any) -> None:
        with (self.home / "steps.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")

    async def imitate(self) -> Json:
        """Step 0: likelier calls are those of the random player."""
        file = self.home.parent / SHOWN
        shown = trajectories(read_demonstrations(WarmStartConfig(source="file", file=str(file))))
        updates = len(shown) // _IMITATED_AT_ONCE
        rates = create_lr_schedule(updates, _IMITATION_RATE, warmup_steps=updates // 10)
        start = time.perf_counter()
        done = await self.trainer.train_sft(
            self.model,
            shown,
            step=0,
            run=self.home.name,
            batch_size=_IMITATED_AT_ONCE,
            learning_rates=rates,
        )
        loss = done.metrics.get("loss/train", float("nan"))
        return {"imitation_s": time.perf_counter() - start, "games": len(shown), "loss": loss}

    async def take_step(self, step: int) -> Json:
        """Play games of each of some boards, and learn from those that differ."""
        chance = random.Random(f"{self.seed}/{step}")
        boards = chance.sample(_TRAINING, self.rollouts.groups_per_step)
        start = time.perf_counter()
        name = f"{self.model.name}@{step}"
        client = self.model.openai_client()
        async with adapter_policy(client, name, step, self.rollouts) as greedy:
            policy = sampled(greedy, self.seed, step, self.rollouts.temperature)
            scenarios = list(map(_scenario, boards))
            played = await sample_groups(self.recorder, policy, self.game, scenarios, self.rollouts)
        gathered = time.perf_counter()
        groups, _ = split_groups(played, self.rollouts)
        done = await self.trainer.train(
            self.model,
            [group_of(group) for group in groups],
            step=step,
            run=self.home.name,
            **self.settings.options,
        )
        everyone = [rollout for group in played for rollout in group]
        return {
            "reward": statistics.fmean(one.reward or 0.0 for one in everyone),
            "std": reward_spread(played),
            **_counts(everyone),
            "flat": 1 - len(groups) / len(played),
            **{key: done.metrics[key] for key in _OF_LOSS if key in done.metrics},
            **{key: value for key, value in done.metrics.items() if "prefix" in key},
            **{key: done.metrics[key] for key in _OF_STEP if key in done.metrics},
            "gather_s": gathered - start,
            "gpu_busy": self.usage.busy_share(start, gathered),
            "train_s": time.perf_counter() - gathered,
            "at": time.time(),
        }

    async def play_held_out(self, step: int) -> Json:
        """One greedy game of each held-out board."""
        start = time.perf_counter()
        name = f"{self.model.name}@{step}"
        client = self.model.openai_client()
        async with adapter_policy(client, name, step, self.rollouts) as greedy:
            scenarios = list(map(_scenario, _HELD_OUT))
            played = await sample_each(self.recorder, greedy, self.game, scenarios, self.rollouts)
        refuse_too_many_unscored(played, self.rollouts)
        return {
            "reward": statistics.fmean(one.reward or 0.0 for one in played),
            **_counts(played),
            "seconds": time.perf_counter() - start,
            "won": [int(_is_won(one)) for one in played],
            "legal": [int(_is_legal(one)) for one in played],
        }


def _scenario(seed: int) -> Scenario:
    return Scenario(f"game-{seed}", {"seed": seed})


def _counts(played: Sequence[Rollout]) -> Json:
    return {
        "wins": statistics.fmean(_is_won(one) for one in played),
        "legals": statistics.fmean(_is_legal(one) for one in played),
        "unscored": sum(one.reward is None for one in played),
        "calls": statistics.fmean(len(one.calls) for one in played),
        "parsed": statistics.fmean(
            bool(call.message.get("tool_calls")) for one in played for call in one.calls
        ),
        "tokens": statistics.fmean(
            sum(len(call.token_ids) or call.usage.completion_tokens for call in one.calls)
            for one in played
        ),
    }


def _is_won(one: Rollout) -> bool:
    return isinstance(one.score, Score) and bool(one.score.success)


def _is_legal(one: Rollout) -> bool:
    return isinstance(one.score, Score) and not one.metrics["illegal"]


def _share(counts: Sequence[int]) -> str:
    interval = share_interval(sum(counts), len(counts))
    return f"{interval.mean:.1%} ({interval.low:.1%} to {interval.high:.1%})"


if __name__ == "__main__":
    app()
