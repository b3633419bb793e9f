"""The benchmark as a process: killed in the middle, run again, and night after night."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest

from precis.environments.summaries.baselines import baselines
from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.llm.server import ApiError, ChatRequest, Completion, completions_app
from precis.records.results import TRAINED, scan_results
from precis.rehearsal.judges.judge import lexical_judge
from precis.report.nights import REGRESSION
from precis.runs.checkpoints import committed_steps
from precis.store import Store, open_store
from tests.services.conftest import ROOT, Precis
from tests.services.patience import patience_s, until
from tests.services.prefect_api import client_of
from tests.support.faulty import FaultyServer

_RUN = """
import asyncio, json, sys
from flows.benchmark import benchmark
from precis.config import BenchmarkConfig

report = asyncio.run(benchmark(BenchmarkConfig.model_validate_json(sys.argv[1])))
print(json.dumps({"regressions": report.regressions, "lines": report.standings}))
"""
KEY = "a-key-that-must-not-be-seen"
HOSTED = {"good": "lead-350", "better": "centroid"}
HELD_OUT = 12


class Hosts:
    """Judge and hosted models behind one address: counts what was paid for, by its request.

    Attributes:
        answers: how many are given before all others are held; None for no end.
        paid: how often each request was answered.
    """

    def __init__(self) -> None:
        self.answers: int | None = None
        self.paid: Counter[str] = Counter()
        self.models = {name: baselines()[rule] for name, rule in HOSTED.items()}
        self.models |= {LEXICAL_MODEL: lexical_judge}
        self._released = asyncio.Event()

    async def __call__(self, request: ChatRequest) -> Completion:
        if self.answers == 0:
            await self._released.wait()
            raise ApiError(503, "The client that asked this is gone.", "gone")
        if self.answers is not None:
            self.answers -= 1
        completion = await self.models[request.model](request)
        self.paid[request.model_dump_json()] += 1
        return replace(completion, prompt_tokens=1000)

    def release(self) -> None:
        """Refuse what is held, and answer everything from now on."""
        self.answers = None
        self._released.set()


@pytest.fixture
async def hosts() -> Hosts:
    return Hosts()


@pytest.fixture
async def url(hosts: Hosts) -> AsyncIterator[str]:
    async with FaultyServer(completions_app(hosts, lambda: [], KEY)) as address:
        yield address


def config(url: str, store: Path, **settings: Any) -> dict[str, Any]:
    quick = {"provider": "url", "base_url": url, "backoff_s": 0.01, "prices": [1.0, 1.0]}
    # Hedging asks twice on purpose.
    judge = {"provider": "url", "base_url": url, "model": LEXICAL_MODEL, "hedge_quantile": 0}
    limits = {"requests_per_minute": 100_000, "tokens_per_minute": 10**9}
    return {
        "model": "nightly",
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 160, "val_size": HELD_OUT},
        "checkpoints": "none",
        "baselines": ["empty", "random-350"],
        "judge": {**judge, "limits": limits, "prices": {LEXICAL_MODEL: [1.0, 1.0]}},
        "contenders": [{"model": name, **quick} for name in HOSTED],
        **settings,
    }


async def start(precis: Precis, config: dict[str, Any], home: Path) -> asyncio.subprocess.Process:
    keys = {"JUDGE_API_KEY": KEY, "CONTENDER_API_KEY": KEY, "PRECIS_HOME": str(home)}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _RUN, json.dumps(config)),
        cwd=ROOT,
        env={**precis.environment, "PREFECT_API_URL": precis.api, **keys},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def finished(process: asyncio.subprocess.Process) -> tuple[dict[str, Any], str]:
    try:
        output, _ = await asyncio.wait_for(process.communicate(), patience_s())
    finally:
        if process.returncode is None:
            process.kill()
    told = output.decode()
    assert process.returncode == 0, told
    return json.loads(told.splitlines()[-1]), told


@pytest.mark.long  # three benchmarks; tests/unit/report/test_nights.py says who is worse
async def test_killed_and_run_again_it_pays_for_nothing_twice_and_says_who_became_worse(
    precis: Precis, hosts: Hosts, url: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    settings = config(url, store)
    hosts.answers = 30
    killed = await start(precis, settings, tmp_path / "a")
    await until(lambda: hosts.answers == 0, "the last answer that is given")
    await settled(store)
    children = psutil.Process(killed.pid).children(recursive=True)
    os.kill(killed.pid, signal.SIGKILL)
    await killed.communicate()
    _, alive = psutil.wait_procs(children, timeout=patience_s())
    assert not alive, "a child outlived the benchmark"
    assert sum(hosts.paid.values()) == 30
    hosts.release()
    report, output = await finished(await start(precis, settings, tmp_path / "a"))
    assert len(hosts.paid) > 60
    assert re.search(r"; kept: [1-9]", output) and KEY not in output
    assert set(hosts.paid.values()) == {1}, "something was paid for twice"
    assert {line[0] for line in report["lines"]} == {*HOSTED, "empty", "random-350"}
    assert report["regressions"] == []
    # Another night on another machine, whose cache of replies is empty.
    hosts.models["good"] = baselines()["empty"]
    settings["contenders"][0]["reasoning"] = True  # other parameters: what is kept is no answer
    again, output = await finished(await start(precis, settings, tmp_path / "b"))
    assert set(hosts.paid.values()) == {1}, "the new night has paid for what was kept"
    frame = scan_results(open_store(str(store)), "nightly").collect()
    newest = frame.filter((pl.col("run") == pl.col("run").max()) & (pl.col("usd") > 0))
    assert frame["run"].n_unique() == 2
    assert newest.filter(pl.col("model") == "better")["kept"].to_list() == [True] * HELD_OUT
    (worse,) = again["regressions"]
    assert worse.startswith("good: -") and worse in output.replace("\n", " ")
    event = await the_event(precis, "nightly")
    assert worse in event["payload"]["message"]
    assert "flow-run" in [one["prefect.resource.role"] for one in event["related"]]


@pytest.mark.long
async def test_a_lost_trainer_is_brought_up_again(precis: Precis, url: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    opened = open_store(str(store))
    settings = config(url, store, model="served", judge={"provider": "lexical"})
    shared = {name: settings[name] for name in ("model", "store", "documents", "judge")}
    trained = {**shared, "steps": 4, "benchmark": True}
    training = await precis.start_training(trained, log := tmp_path / "training.log")
    await until(lambda: committed_steps(opened, "served")[1:], "the first step")
    shutil.rmtree(store / "ceilings")  # preflight's: the next one is the benchmark's
    await until(lambda: list(store.glob("ceilings/*")), "the benchmark's ceiling")
    trainer_of(precis, "served").kill()
    assert await asyncio.wait_for(training.wait(), patience_s()) == 0, log.read_text()
    assert "It is started again" in log.read_text()
    assert_all_scored(opened, "served")
    # And one that the benchmark has started itself.
    shutil.rmtree(store / "ceilings")
    alone = await start(precis, {**shared, "baselines": [], "every": 1}, precis.home)
    await until(lambda: list(store.glob("ceilings/*")), "the benchmark's ceiling")
    trainer_of(precis, "served").kill()
    _, output = await finished(alone)
    assert "It is started again" in output
    assert_all_scored(opened, "served")


def assert_all_scored(store: Store, model: str) -> None:
    """The newest benchmark has measured all checkpoints, and left nothing unscored."""
    frame = scan_results(store, model).collect()
    newest = frame.filter(pl.col("night") == pl.col("night").max())
    steps = newest.filter(pl.col("model") == TRAINED)["step"].unique().sort().to_list()
    assert steps == committed_steps(store, model)
    assert newest["cause"].drop_nulls().to_list() == []


async def the_event(precis: Precis, model: str) -> Any:
    """The regression of the model that the Prefect server knows of."""
    of_model = {"event": {"name": [REGRESSION]}, "resource": {"id": [f"precis.model.{model}"]}}
    with client_of(precis.api) as api:

        def events() -> Any:
            answer = api.post("/events/filter", json={"filter": of_model, "limit": 1})
            return answer.raise_for_status().json()["events"]

        (event,) = await until(events, f"the event that {model} has got worse", pause_s=0.2)
    return event


def trainer_of(precis: Precis, model: str) -> psutil.Process:
    """The process that trains a model in this home, which its folder names."""
    found = []
    for process in precis.processes(f"{precis.home}/work/{model}-"):
        command = " ".join(process.cmdline())
        if "precis.trainer.server" in command and "supervisor" not in command:
            found.append(process)
    (trainer,) = found
    return trainer


async def settled(store: Path) -> None:
    """Return once nothing has been written for three seconds: all answers are kept."""
    quiet_since, seen = time.monotonic(), -1
    while time.monotonic() - quiet_since < 3:
        now = sum(1 for _ in store.rglob("*.json"))
        if now != seen:
            quiet_since, seen = time.monotonic(), now
        await asyncio.sleep(0.05)
