"""A small language model that learns on this machine's GPU, from a warm start, with several seeds.

    python bench/learning.py prepare FOLDER
    python bench/learning.py train FOLDER --base-model MODEL --seeds 1,2,3,4 [--name base] \
        [--imitate random] [-p trainer.learning_rate=2e-4 -p ...]
    python bench/learning.py report FOLDER

`prepare` makes documents that no other program has seen: some to train on, each drawn at most once
or twice in a run, so that what a step earns is what unseen documents earn; some held out; and of
others the summaries to imitate, once by the embedded policy, which learns in seconds which
sentences to take, and once of random whole sentences. `train` runs the flow for each seed, side by
side on the GPU; told to end, it lets each run commit, and called again it resumes them. `report`
takes differences by document, over all seeds. Run it at the root of a checkout with `.venv` and
`.venv-gpu`.
"""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow.parquet as pq
import typer

from bench.reading.measures import correct
from bench.reading.training import summarize, trained_on
from flows.train import train as train_flow
from precis.config import DocumentsConfig, TrainConfig
from precis.environments.summaries.baselines import lead, random_sentences
from precis.records.documents import Document, load_corpus
from precis.records.ledger import Ledger, load_ledger
from precis.settings.overrides import overlay
from precis.statistics.intervals import Interval, paired_interval, ratio_interval
from precis.store import open_store
from precis.sweep.trials import nest
from precis.words import WORDS_MAX
from tools.corpus.make import corpus, table

app = typer.Typer(add_completion=False)

_DOCUMENTS_SEED, _IMITATED_SEED, _TAUGHT_SEED = 515_001, 777_001, 888_001
_TRAIN, _HELD_OUT, _IMITATED, _TAUGHT = 1024, 128, 1200, 160
_IMITATED_WORDS = 300
"""Well below the limit: few samples of a policy that imitates them are too long."""
_TAUGHT_STEPS = 30
"""Of the embedded policy: a rehearsal's."""
_WINDOW = 5
_TRAINER = ("loss/entropy", "loss/probs_corr", "loss/grad_norm")
Folder = Annotated[Path, typer.Argument(help="Of documents, runs and their stores.")]


@app.command()
def prepare(folder: Folder) -> None:
    """Make the documents and the summaries to imitate; the same on every machine."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(corpus(_TRAIN + _HELD_OUT, _DOCUMENTS_SEED)), folder / "fresh.parquet")
    pq.write_table(table(corpus(_TAUGHT + 1, _TAUGHT_SEED)), folder / "taught.parquet")
    settings = DocumentsConfig(
        source=str(folder / "taught.parquet"), train_size=_TAUGHT, val_size=1
    )
    taught = trained_on(load_corpus(settings).train, _TAUGHT_STEPS, seed=1)
    writers: dict[str, Callable[[str, int], str]] = {
        "embedded": partial(summarize, taught),
        "random": random_sentences,
    }
    imitated = corpus(_IMITATED, _IMITATED_SEED)
    for name, write in writers.items():
        lines = []
        for one in imitated:
            summary = write(one.text, _IMITATED_WORDS)
            lines.append(json.dumps({"text": one.text, "summary": summary}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines))


@app.command()
def train(
    folder: Folder,
    base_model: Annotated[str, typer.Option(help="A name on the Hub or a folder.")],
    seeds: Annotated[str, typer.Option(help="One run for each.")] = "1,2,3,4",
    name: Annotated[str, typer.Option(help="Of these settings.")] = "base",
    gpus: Annotated[int, typer.Option(help="Of this machine; the runs take turns on them.")] = 1,
    imitate: Annotated[str, typer.Option(help="embedded or random: who wrote it.")] = "embedded",
    p: Annotated[list[str] | None, typer.Option("-p", help="setting=value")] = None,
) -> None:
    """Train with each seed, side by side, each in a process of its own."""
    changes: dict[str, Any] = {}
    for given in p or []:
        setting, _, value = given.partition("=")
        changes[setting] = json.loads(value)
    running = []
    for place, seed in enumerate(map(int, seeds.split(","))):
        run = f"{name}-{seed}"
        home = folder / run
        home.mkdir(parents=True, exist_ok=True)
        settings = overlay(
            TrainConfig, _settings(folder, base_model, run, seed, imitate), nest(changes)
        )
        (home / "config.json").write_text(json.dumps(settings, indent=1))
        own = {
            "PRECIS_HOME": str(home / "home"),
            "PREFECT_HOME": str(home / "prefect"),
            "CUDA_VISIBLE_DEVICES": str(place % gpus),
        }
        command = [sys.executable, "-m", "bench.learning", "flow", str(home / "config.json")]
        with (home / "flow.log").open("a") as log:
            process = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log)
        running.append(process)

    def end(*_: object) -> None:
        for process in running:
            process.terminate()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    codes = [process.wait() for process in running]
    report(folder)
    raise typer.Exit(max(map(abs, codes)))


@app.command()
def flow(config: Path) -> None:
    """Run the training flow with the settings of a file; `train` starts one for each seed."""
    asyncio.run(train_flow(TrainConfig.model_validate_json(config.read_text())))


@app.command()
def report(folder: Folder) -> None:
    """Print each run's validations and steps, and each setting's gain over all of its seeds."""
    ledgers: dict[str, dict[int, Ledger]] = {}
    for file in sorted(folder.glob("*/store/*/ledger.json")):
        run = file.parent.name
        ledger = load_ledger(open_store(str(file.parents[1])), run)
        print(f"\n{run}: {ledger.next_step} steps, {_options(ledger)}")
        _print_validations(ledger)
        _print_steps(ledger)
        name, _, seed = run.rpartition("-")
        ledgers.setdefault(name, {})[int(seed)] = ledger
    for name, runs in ledgers.items():
        _print_gain(name, runs)


def _settings(folder: Path, base_model: str, run: str, seed: int, imitate: str) -> dict[str, Any]:
    """The settings that are shown to work (docs/measurements.md)."""
    return {
        "model": run,
        "seed": seed,
        "steps": 81,
        "documents": {
            "source": str(folder / "fresh.parquet"),
            "train_size": _TRAIN,
            "val_size": _HELD_OUT,
        },
        "trainer": {
            "kind": "art",
            "base_model": base_model,
            "learning_rate": 5e-5,
            "trajectories_per_update": 16,
            "engine": {"lora_rank": 16, "gpu_memory_share": 0.25, "tokens_max": 3072},
        },
        "rollouts": {"groups_per_step": 16, "rollouts_per_group": 8, "in_flight": 128},
        "warm_start": {
            "source": "file",
            "file": str(folder / f"{imitate}.jsonl"),
            "epochs": 1,
            "measured_scenarios": 1,
        },
        "validate_every": 20,
        "judge_patience_s": 0,
        "retention": {"keep_last": 2, "keep_every": 20},
        "store": str(folder / run / "store"),
        "take_over": True,
        "benchmark": False,
    }


def _options(ledger: Ledger) -> str:
    settings = ledger.settings
    trainer = {k: v for k, v in settings["trainer"].items() if k not in ("engine", "base_model")}
    return f"{trainer} {settings['rollouts']}"


def _held_out(ledger: Ledger) -> tuple[Document, ...]:
    return load_corpus(DocumentsConfig.model_validate(ledger.settings["documents"])).validation


def _print_validations(ledger: Ledger) -> None:
    for one in ledger.validations:
        others = [f"{name} {metric}" for name, metric in one.metrics.items()]
        print(f"  step {one.step:3}: held out {one.score.with_interval}; {', '.join(others)}")


def _print_steps(ledger: Ledger) -> None:
    """Means of a few steps at a time; their documents were not seen before."""
    taken = [one for one in ledger.steps if one.warm_start is None]
    for start in range(0, len(taken), _WINDOW):
        part = taken[start : start + _WINDOW]
        figures = {
            "reward": statistics.fmean(one.reward for one in part),
            "std": statistics.fmean(one.reward_std for one in part),
            **_means([one.metrics for one in part]),
            **_means([{k: one.trainer.get(k, np.nan) for k in _TRAINER} for one in part]),
            **_means([dict(one.seconds) for one in part]),
        }
        shown = ", ".join(f"{key} {value:.3g}" for key, value in figures.items())
        print(f"  steps {part[0].step} to {part[-1].step}: {shown}")


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: statistics.fmean(row.get(name, 0.0) for row in rows) for name in rows[0]}


def _print_gain(name: str, runs: Mapping[int, Ledger]) -> None:
    """The last validation that all seeds have, over that of the warm start and over baselines."""
    held_out = _held_out(next(iter(runs.values())))
    steps = [{one.step for one in ledger.validations} for ledger in runs.values()]
    shared = sorted(set.intersection(*steps))
    if len(shared) < 2:
        print(f"\n{name}: no two validations that all seeds have")
        return
    asked = np.array([document.asked for document in held_out])
    warm = 1 if 1 in shared else shared[0]
    before = _totals(runs, warm)
    print(f"\n{name}, seeds {', '.join(map(str, runs))}, {len(held_out)} held-out documents:")
    for step in shared:
        after = _totals(runs, step)
        whole = ratio_interval(after, asked * len(runs))
        gain = paired_interval(after, before, asked * len(runs))
        print(f"  step {step:3}: {whole}; over the warm start {_points(gain)}")
    last = _totals(runs, shared[-1])
    for label, baseline in (("random-350", random_sentences), ("lead-350", lead)):
        theirs = [correct(document, baseline(document.text, WORDS_MAX)) for document in held_out]
        ahead = paired_interval(last, np.array(theirs) * len(runs), asked * len(runs))
        print(
            f"  {label} {ratio_interval(theirs, asked)}; step {shared[-1]} over it {_points(ahead)}"
        )


def _totals(runs: Mapping[int, Ledger], step: int) -> Any:
    """Questions of each held-out document that are answered right, over all seeds."""
    counts = []
    for ledger in runs.values():
        (found,) = (one for one in ledger.validations if one.step == step)
        counts.append([one or 0 for one in found.score.scores])
    return np.sum(counts, axis=0)


def _points(gain: Interval) -> str:
    return f"{100 * gain.mean:+.1f} points ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"


if __name__ == "__main__":
    app()
