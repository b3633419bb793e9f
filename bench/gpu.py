"""The time that a training step of a language model takes on this GPU, phase by phase.

    .venv-gpu/bin/python bench/gpu.py Qwen/Qwen2.5-3B-Instruct
    .venv-gpu/bin/python bench/gpu.py Qwen/Qwen2.5-3B-Instruct --gpus 2 --overlap

The trainer, its server, vLLM and the recorder are those of a run; only the reward is made up, since
nothing is judged. Prompts are the words of the bundled corpus, about as long as asked for, and each
summary has exactly as many tokens as asked for. No other program may use the GPU.
"""

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import art

from precis.config import DocumentsConfig, RolloutsConfig
from precis.environments.protocol import Environment, Split
from precis.environments.recorder import Recorder
from precis.environments.summaries.prompt import summary_messages
from precis.environments.trajectories import group_of
from precis.processes.child import child_service
from precis.records.documents import read_documents
from precis.records.rollout import Scenario
from precis.rollouts.sample import sampled
from precis.settings.trainer import ArtTrainer, EngineConfig
from precis.store import open_store
from precis.trainer.client import RemoteTrainer
from precis.trainer.protocol import StoredModel
from precis.training.stages import greedy_policy

_TOKENS_A_WORD = 1.4


@dataclass
class Usage:
    """The use and memory of the GPUs, four times a second, while the program runs.

    Attributes:
        gpus: how many of the GPUs that the trainer sees, from the first.
        samples: the time, and for each GPU its use in per cent and its memory in MiB.
    """

    gpus: int
    samples: list[tuple[float, list[tuple[int, int]]]] = field(default_factory=list)

    def watch(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        query = "--query-gpu=utilization.gpu,memory.used"
        command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible:
            command.append(f"--id={visible}")
        while True:
            lines = subprocess.check_output(command, text=True).splitlines()[: self.gpus]
            seen = []
            for line in lines:
                busy, used = line.split(",")
                seen.append((int(busy), int(used)))
            self.samples.append((time.perf_counter(), seen))
            time.sleep(0.25)

    def idle_s(self, start: float, end: float) -> list[float]:
        """Return the seconds of a span in which each GPU was idle."""
        seen = [gpus for at, gpus in self.samples if start <= at <= end]
        if not seen:
            return [float("nan")] * self.gpus
        idle = [sum(gpus[gpu][0] == 0 for gpus in seen) for gpu in range(self.gpus)]
        return [(end - start) * count / len(seen) for count in idle]

    def busy_share(self, start: float, end: float) -> float:
        """Return the mean use of the first GPU in a span, from 0 to 1."""
        seen = [gpus[0][0] for at, gpus in self.samples if start <= at <= end]
        return statistics.fmean(seen) / 100 if seen else float("nan")

    @property
    def peak_gib(self) -> float:
        return max(used for _, gpus in self.samples for _, used in gpus) / 1024


@dataclass(frozen=True)
class Sampled:
    """The summaries of a step, and the cost of sampling them.

    Attributes:
        adapter: the step of the adapter that wrote them.
        busy: share of the time in which the first GPU computed.
    """

    adapter: int
    groups: list[art.TrajectoryGroup]
    seconds: float
    tokens: int
    prompt_tokens: int
    busy: float


@dataclass(frozen=True)
class Step:
    """The phases of a step, in seconds, and the work done in them.

    Attributes:
        commit: of the previous checkpoint, which overlaps with the next phases.
        whole: from the end of the training before to the end of this one.
        overlapped: of its sampling, beside the training before.
        idle: of each GPU in `whole`.
    """

    sampled: Sampled
    train: float
    commit: float
    whole: float
    overlapped: float
    idle: list[float]
    metrics: dict[str, float]


async def measure(options: argparse.Namespace, folder: Path) -> None:
    usage = Usage(options.gpus)
    usage.watch()
    _words()  # kept out of a step's time
    start = time.perf_counter()
    arguments = ["--path", str(folder / "trainer"), "--with-parent", "--backend", "local"]
    log = folder / "trainer.log"
    async with child_service("precis.trainer.server", arguments, log, supervised=True) as service:
        started = time.perf_counter()
        trainer = RemoteTrainer(service.url, service.token, folder / "art")
        settings = _settings(options)
        model: art.TrainableModel[Any, Any] = art.TrainableModel(
            name="bench",
            project="precis",
            base_model=options.model,
            base_path=str(folder / "art"),
            report_metrics=[],
            _internal_config=settings.internal_config,  # type: ignore[arg-type]
        )
        await trainer.begin(model, "bench")
        await model.register(trainer)
        registered = time.perf_counter()
        print(f"start {started - start:.1f} s, register {registered - started:.1f} s", flush=True)
        steps: list[Step] = []
        async with Recorder() as recorder:
            taken = _take_steps(recorder, model, trainer, settings, options, folder, usage)
            async for step in taken:
                _print_step(len(steps), step)
                steps.append(step)
        _print_summary(steps[1:] or steps, options, usage)
        await trainer.close()


def _settings(options: argparse.Namespace) -> ArtTrainer:
    return ArtTrainer(
        base_model=options.model,
        engine=EngineConfig(
            lora_rank=options.rank,
            adapted_layers=options.layers,
            gpu_memory_share=options.share,
            gpus=options.gpus,
            sleep_while_training=options.sleep,
            load_in_4bit=options.load_in_4bit,
        ),
    )


async def _take_steps(
    recorder: Recorder,
    model: art.TrainableModel[Any, Any],
    trainer: RemoteTrainer,
    settings: ArtTrainer,
    options: argparse.Namespace,
    folder: Path,
    usage: Usage,
) -> AsyncIterator[Step]:
    """Take the steps; with `overlap` each but the first is sampled while the one before trains."""
    ahead: asyncio.Task[Sampled] | None = None
    committing: asyncio.Task[float] | None = None
    for number in range(options.steps):
        start = time.perf_counter()
        sampled = await (ahead or _sample(recorder, model, number, number, options, usage))
        gathered = time.perf_counter()
        commit = await committing if committing else 0.0
        begun = time.perf_counter()
        ahead = None
        if options.overlap and number + 1 < options.steps:
            ahead = asyncio.create_task(
                _sample(recorder, model, number + 1, number, options, usage)
            )
        result = await trainer.train(
            model, sampled.groups, step=number, run="bench", **settings.options
        )
        trained = time.perf_counter()
        committing = asyncio.create_task(_commit(model, trainer, number + 1, folder))
        yield Step(
            sampled,
            train=trained - begun,
            commit=commit,
            whole=trained - start,
            overlapped=max(0.0, sampled.seconds - (gathered - start)),
            idle=usage.idle_s(start, trained),
            metrics=result.metrics,
        )
    if committing:
        await committing


class Writing(Environment):
    """Requests answers of a given length in tokens, give or take `spread`, each with all earlier
    ones in its prompt; the reward is made up."""

    name = "writing"

    def __init__(self, tokens: int, spread: int, turns: int) -> None:
        self._tokens = tokens
        self._spread = spread
        self._turns = turns

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        return ()

    async def rollout(self, model: "art.Model[Any, Any]", scenario: Scenario) -> float:
        messages = list(scenario.data["messages"])
        for turn in range(self._turns):
            answer = await model.openai_client().chat.completions.create(
                model=model.get_inference_name(),
                messages=messages,
                max_tokens=self._tokens + random.randint(-self._spread, self._spread),
                extra_body={"ignore_eos": True},
            )
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
            messages.append({"role": "user", "content": f"Go on, for the {turn + 2}. time."})
        return random.randint(0, 5) / 5


async def _sample(
    recorder: Recorder,
    model: art.TrainableModel[Any, Any],
    number: int,
    adapter: int,
    options: argparse.Namespace,
    usage: Usage,
) -> Sampled:
    """Sample the summaries of step `number`, as a run does."""
    at_once = options.groups * options.rollouts
    config = RolloutsConfig(
        in_flight=at_once,
        timeout_s=600,
        tokens_max=(options.tokens + options.spread) * options.turns,
    )
    environment = Writing(options.tokens, options.spread, options.turns)
    scenarios = [
        Scenario(str(at), {"messages": summary_messages(prompt)})
        for at, prompt in enumerate(_prompts(number, options))
    ]
    start = time.perf_counter()
    async with greedy_policy(model, adapter, config) as greedy:
        policy = sampled(greedy, 0, number, temperature=1.0)
        groups = await asyncio.gather(
            *[
                asyncio.gather(
                    *[
                        recorder.run(policy, environment, scenario, index)
                        for index in range(options.rollouts)
                    ]
                )
                for scenario in scenarios
            ]
        )
    seconds = time.perf_counter() - start
    usages = [call.usage for group in groups for rollout in group for call in rollout.calls]
    return Sampled(
        adapter,
        [group_of(group) for group in groups],
        seconds,
        tokens=sum(one.completion_tokens for one in usages),
        prompt_tokens=usages[0].prompt_tokens,
        busy=usage.busy_share(start, start + seconds),
    )


async def _commit(
    model: art.TrainableModel[Any, Any], trainer: RemoteTrainer, checkpoint: int, folder: Path
) -> float:
    """Commit a checkpoint to a folder; return the seconds it took."""
    start = time.perf_counter()
    store = open_store(str(folder / "store"))
    stored = StoredModel(store=store.url, name="bench", run="bench")
    await trainer.commit(model, checkpoint, stored)
    return time.perf_counter() - start


def _prompts(number: int, options: argparse.Namespace) -> list[str]:
    """Return texts of about the length asked for in tokens, one for each group of each step."""
    words = _words()
    length = round(options.prompt_tokens / _TOKENS_A_WORD)
    starts = range(number * options.groups, (number + 1) * options.groups)
    return [" ".join(words[at * length : (at + 1) * length]) for at in starts]


@cache
def _words() -> list[str]:
    return " ".join(one.text for one in read_documents(DocumentsConfig())).split()


def _print_step(number: int, step: Step) -> None:
    sampled = step.sampled
    print(
        f"step {number}: {step.whole:.2f} s; sample {sampled.seconds:.2f} ({sampled.tokens} tokens "
        f"of adapter {sampled.adapter}, {step.overlapped:.2f} beside training), "
        f"train {step.train:.2f}, commit before it {step.commit:.2f}; "
        + ", ".join(f"{name} {value:.3g}" for name, value in sorted(step.metrics.items())),
        flush=True,
    )


def _print_summary(steps: Sequence[Step], options: argparse.Namespace, usage: Usage) -> None:
    def median(values: Sequence[float]) -> str:
        return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"

    named = [("update", "time/step_update_s"), ("save", "time/step_save_s")]
    named.append(("serve", "time/step_serve_s"))
    sampled = [step.sampled for step in steps]
    print(f"\n{options.model}: {options.groups} x {options.rollouts} rollouts of", end=" ")
    print(f"{options.turns} x {options.tokens} tokens", end=" ")
    print(f"from prompts of {sampled[0].prompt_tokens}; median (range)")
    print(f"  whole step      {median([step.whole for step in steps])} s")
    print(f"  sample          {median([one.seconds for one in sampled])} s")
    print(f"    beside train  {median([step.overlapped for step in steps])} s")
    print(f"  tokens a second {median([one.tokens / one.seconds for one in sampled])}")
    print(f"  GPU 0 busy      {median([100 * one.busy for one in sampled])} % of that")
    print(f"  train           {median([step.train for step in steps])} s, of that")
    for title, key in named:
        print(f"    {title:13} {median([step.metrics.get(key, 0.0) for step in steps])} s")
    switches = [step.train - step.metrics.get("time/step_update_s", 0.0) for step in steps]
    print(f"    all but update {median(switches)} s")
    print(f"  commit, beside  {median([step.commit for step in steps])} s")
    updates = steps[-1].metrics.get("data/step_num_gradient_steps", float("nan"))
    print(f"  updates         {updates:.0f}")
    for gpu in range(options.gpus):
        print(f"  GPU {gpu} idle      {median([step.idle[gpu] for step in steps])} s a step")
    print(f"  memory at peak  {usage.peak_gib:.1f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("model", help="a name on the Hub, or a folder")
    parser.add_argument("--groups", type=int, default=5, help="documents a step")
    parser.add_argument("--rollouts", type=int, default=8, help="summaries a document")
    parser.add_argument("--prompt-tokens", type=int, default=1500)
    parser.add_argument("--tokens", type=int, default=450, help="tokens a summary")
    parser.add_argument("--spread", type=int, default=0, help="tokens more or less, as agents do")
    parser.add_argument("--turns", type=int, default=1, help="calls a rollout, as agents make them")
    parser.add_argument("--layers", default="all", help="trainer.engine.adapted_layers")
    parser.add_argument("--steps", type=int, default=5, help="the first is left out of the medians")
    parser.add_argument("--rank", type=int, default=8, help="of the adapter")
    parser.add_argument("--share", type=float, default=0.4, help="trainer.engine.gpu_memory_share")
    parser.add_argument("--sleep", action="store_true", help="sleep_while_training")
    parser.add_argument("--load-in-4bit", action="store_true", help="train on weights of 4 bits")
    parser.add_argument("--gpus", type=int, default=1, choices=(1, 2))
    parser.add_argument("--overlap", action="store_true", help="off_policy_steps 1, for two GPUs")
    parser.add_argument("--folder", type=Path, help="for the trainer's files and logs, to be kept")
    options = parser.parse_args()
    if options.overlap and options.gpus == 1:
        parser.error("--overlap samples while it trains: add --gpus 2")
    if options.folder is not None:
        options.folder.mkdir(parents=True)
        asyncio.run(measure(options, options.folder))
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(options, Path(folder)))


if __name__ == "__main__":
    main()
