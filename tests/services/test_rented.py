"""The whole pipeline with its trainer on a machine that SkyPilot rents, in the lab.

Three runs at once, since most of their time is spent waiting for machines: one that loses its
machine in the middle and then its flow, one whose flow is killed for good, and one that is started
and cancelled through Prefect while its machine is still coming up. The tests look at what became
of them.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from precis.cluster.keys import cluster_name, read_keys
from precis.records.ledger import load_ledger
from precis.run.checkpoints import manifest
from precis.store import open_store
from tests.services.conftest import Precis
from tests.services.prefect_api import cancel, client_of, created, reached
from tests.services.rented import CANARY, FREE, STEPS, Rented, dump
from tests.services.s3_server import s3_server
from tests.services.slurm_lab import SlurmLab, slurm_lab

pytestmark = pytest.mark.long

_PATIENCE_S = 2400.0
"""For all of it; a quiet machine with two cores takes an eighth of that."""


@dataclass
class Story:
    """What was seen of the three runs."""

    precis: Precis
    lab: SlurmLab
    lost_at: int = 0
    noticed_after_s: float = 0
    cancelled_as: str = ""
    logs: dict[str, str] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    digests: dict[str, list[str]] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    listening: list[str] = field(default_factory=list)
    refused: int = 0
    gone_after_s: dict[str, float] = field(default_factory=dict)
    queue: str = ""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with slurm_lab() as lab, s3_server() as s3:
        rented = Rented(tmp_path_factory.mktemp("rented"), lab, s3)
        with rented.up():
            seen = Story(rented.precis, lab)
            asyncio.run(_tell(rented, seen))
            yield seen


async def _tell(rented: Rented, seen: Story) -> None:
    async with asyncio.timeout(_PATIENCE_S), asyncio.TaskGroup() as runs:
        runs.create_task(_undisturbed(rented, seen))
        runs.create_task(_lost(rented, seen))
        runs.create_task(_killed(rented, seen))
        runs.create_task(_cancelled(rented, seen))
    seen.queue = await asyncio.to_thread(rented.lab.run, "sky", "status", "-v")


async def _undisturbed(rented: Rented, seen: Story) -> None:
    """The same run as the one that is lost, on this machine, with nothing going wrong."""
    store = str(rented.precis.home / "undisturbed")
    config = {**rented.config("lost"), "cluster": {}, "store": store, "benchmark": False}
    async with _running(rented, seen, "undisturbed", config) as process:
        assert await process.wait() == 0, _log(rented, "undisturbed").read_text()
    _note(seen, "undisturbed", open_store(store))


async def _lost(rented: Rented, seen: Story) -> None:
    """The first place has no machine; the second's is lost in mid-step; the flow is killed too."""
    config = rented.config("lost", infra=["slurm/lab/full", "slurm/lab/gpu"], client_lost_s=120)
    async with _running(rented, seen, "lost", config) as process:
        await _until(lambda: rented.committed("lost") >= 1, process)
        await _look_around(rented, seen)
        await asyncio.to_thread(rented.lab.lose, cluster_name("lost", rented.store))
        began = time.monotonic()
        seen.lost_at = await asyncio.to_thread(rented.committed, "lost")
        await _until(lambda: "It is brought up again" in _log(rented, "lost").read_text(), process)
        seen.noticed_after_s = time.monotonic() - began
        await _until(lambda: rented.committed("lost") > seen.lost_at + 1, process)
        process.kill()
    async with _running(rented, seen, "lost", config) as process:
        seen.codes["lost"] = await process.wait()
    seen.gone_after_s["lost"] = await _gone(rented, "lost")
    _note(seen, "lost", rented.bucket_store())


async def _killed(rented: Rented, seen: Story) -> None:
    """Nobody comes back to the machine."""
    async with _running(rented, seen, "killed", rented.config("killed")) as process:
        await _until(lambda: rented.committed("killed") >= 1, process)
        process.kill()
    seen.gone_after_s["killed"] = await _gone(rented, "killed")


async def _cancelled(rented: Rented, seen: Story) -> None:
    """Cancelled in Prefect while its machine is coming up."""
    with client_of(rented.precis.api) as api:
        config = {**rented.config("cancelled"), **FREE}
        run = await asyncio.to_thread(created, api, "train/h100", config)

        def is_coming_up() -> bool:
            state = api.get(f"/flow_runs/{run}").raise_for_status().json()["state"]
            assert state["type"] not in ("FAILED", "CRASHED"), state["message"]
            return bool(rented.machines("cancelled"))

        await _until(is_coming_up)
        await asyncio.to_thread(cancel, api, run)
        ended = await asyncio.to_thread(reached, api, run, "CANCELLED", "CRASHED", "FAILED")
    seen.cancelled_as = ended["state_type"]
    seen.gone_after_s["cancelled"] = await _gone(rented, "cancelled")


async def _look_around(rented: Rented, seen: Story) -> None:
    """What a stranger on the machine's network would find."""
    name = cluster_name("lost", rented.store)
    keys = read_keys(rented.precis.home, name)
    assert keys is not None
    sockets = await asyncio.to_thread(rented.lab.run, "ss", "-Hltnp")
    trainer = [line for line in sockets.splitlines() if f":{keys.port} " in line]
    seen.listening = [line.split()[3] for line in trainer]
    async with httpx.AsyncClient() as http:
        wrong = {"authorization": "Bearer wrong"}
        reply = await http.get(f"http://127.0.0.1:{keys.port}/healthz", headers=wrong)
    seen.refused = reply.status_code


@asynccontextmanager
async def _running(
    rented: Rented, seen: Story, model: str, config: dict[str, Any]
) -> AsyncIterator[asyncio.subprocess.Process]:
    log = _log(rented, model)
    process = await rented.precis.start_training(config, log)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        seen.logs[model] = log.read_text()


def _log(rented: Rented, model: str) -> Path:
    return rented.precis.home / f"rented-{model}.log"


async def _until(
    condition: Callable[[], bool], process: asyncio.subprocess.Process | None = None
) -> None:
    while not await asyncio.to_thread(condition):
        assert process is None or process.returncode is None, "the run ended too early"
        await asyncio.sleep(0.5)


async def _gone(rented: Rented, model: str) -> float:
    began = time.monotonic()
    await _until(lambda: not rented.machines(model))
    return time.monotonic() - began


def _note(seen: Story, name: str, store: Any) -> None:
    ledger = load_ledger(store, "lost")
    newest = manifest(store, "lost", ledger.next_step)
    assert newest is not None
    seen.digests[name] = [step.digest for step in ledger.steps]
    seen.weights[name] = {
        file.path: file.sha256 for file in newest.files if file.path == "policy.json"
    }


def test_a_lost_machine_changes_nothing_of_the_result(story: Story) -> None:
    assert story.codes["lost"] == 0, story.logs["lost"]
    assert 0 < story.lost_at < STEPS - 1, "the run was over before its machine was lost"
    assert "It is brought up again" in story.logs["lost"]
    assert len(story.digests["lost"]) == STEPS
    assert story.digests["lost"] == story.digests["undisturbed"]
    assert story.weights["lost"] and story.weights["lost"] == story.weights["undisturbed"]


def test_the_loss_of_a_machine_is_noticed(story: Story) -> None:
    assert 0 < story.noticed_after_s < 120


def test_the_second_place_is_asked_where_the_first_has_no_machine(story: Story) -> None:
    assert "Launching on Slurm lab (full)" in story.logs["lost"]
    assert "(slurm/lab/gpu), at $0.00 an hour" in story.logs["lost"]


def test_a_machine_that_is_up_is_found_again(story: Story) -> None:
    found = re.findall(r"Found the trainer .* after ([0-9.]+) s", story.logs["lost"])
    assert found and float(found[-1]) < 60


def test_nothing_is_left_behind_by_a_run_that_succeeded_or_was_cancelled(story: Story) -> None:
    assert story.gone_after_s["lost"] < 30
    assert story.cancelled_as == "CANCELLED"
    assert story.gone_after_s["cancelled"] < 240
    assert not list((story.precis.home / "clusters").glob("*-lost-*.json"))


def test_a_machine_whose_flow_is_gone_for_good_takes_itself_down(story: Story) -> None:
    # Twenty seconds without a client, a minute without a job, and a minute between two looks; on a
    # machine with much else to do it is some minutes, and without an end of its own it is never.
    assert 0 < story.gone_after_s["killed"] < 600


def test_nothing_listens_beyond_the_loopback(story: Story) -> None:
    assert story.listening
    assert all(address.startswith("127.0.0.1:") for address in story.listening)


def test_a_wrong_token_is_refused(story: Story) -> None:
    assert story.refused == 401


def test_no_secret_is_written_down_where_others_may_look(story: Story) -> None:
    assert CANARY not in story.queue + "".join(story.logs.values())
    for database in (*story.lab.home.rglob("*.db"), *story.precis.home.rglob("*.db")):
        assert CANARY not in dump(database), database
    for log in (*story.lab.home.rglob("*.log"), *story.precis.home.rglob("*.log")):
        assert CANARY not in log.read_text(errors="replace"), log
