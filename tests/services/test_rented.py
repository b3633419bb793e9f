"""The pipeline on machines that SkyPilot rents, in the lab.

Five runs at once, since most of their time is spent waiting for machines. Three rent a machine for
their trainer: one loses it in the middle and then its flow, one's flow is killed for good, and one
is started and cancelled through Prefect while its machine is still coming up. Two are managed jobs:
one is launched, twice, by a worker that is killed then, and in the middle is told to end, goes on
on another machine, loses that and its disk, and ends on a third; the other is an agent, whose file
goes with it, and is cancelled by its flow run's button in Prefect. The tests look at what became of
them.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from precis.records.ledger import load_ledger
from precis.runs.checkpoints import manifest
from precis.store import open_store
from tests.services.conftest import Up
from tests.services.patience import LONG_S
from tests.services.prefect_api import (
    PASSWORD,
    cancel,
    client_of,
    created,
    logs_of,
    reached,
    states_of,
)
from tests.services.rented import CANARY, FREE, STEPS, Jobs, Rented, dump
from tests.services.s3_server import s3_server
from tests.services.slurm_lab import slurm_lab

pytestmark = pytest.mark.long

_LOOK_S = 2.0
"""Between two looks at the jobs."""
_PATIENCE_S = 2400.0
"""For all of it; a quiet machine with two cores takes a quarter of that."""


@dataclass
class Story:
    """What was seen of the runs; of a machine by its run's model, of a job likewise."""

    rented: Rented
    jobs: Jobs
    api: httpx.Client
    lost_at: int = 0
    noticed_after_s: float = 0
    job_lost_at: tuple[int, ...] = ()
    gone_after_s: dict[str, float] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    listening: list[str] = field(default_factory=list)
    refused: int = 0
    launches: list[dict[str, Any]] = field(default_factory=list)
    told: list[list[str]] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    executed: dict[str, Any] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    cancelled_as: dict[str, str] = field(default_factory=dict)
    left: str = ""

    @property
    def home(self) -> Path:
        return self.rented.precis.home

    def log(self, name: str) -> Path:
        return self.home / f"flow-{name}.log"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with slurm_lab() as lab, s3_server() as s3:
        home = tmp_path_factory.mktemp("rented")
        rented, jobs = Rented(home, lab, s3), Jobs(home, lab, s3)
        rented.precis.serve()
        try:
            with client_of(rented.precis.api) as api:
                seen = Story(rented, jobs, api)
                asyncio.run(_tell(seen))
                yield seen
        finally:
            rented.precis.run("stop")


async def _tell(seen: Story) -> None:
    async with asyncio.timeout(_PATIENCE_S), asyncio.TaskGroup() as watched:
        async with asyncio.TaskGroup() as runs:
            runs.create_task(_undisturbed(seen))
            runs.create_task(_lost(seen))
            runs.create_task(_killed(seen))
            await _use_worker_and_shut(seen)
            watch = watched.create_task(_watch(seen.jobs))
            runs.create_task(_job_lost(seen))
            runs.create_task(_job_cancelled(seen))
        await _until(lambda: not seen.rented.lab.jobs())
        watch.cancel()
    seen.left = await asyncio.to_thread(seen.rented.lab.run, "sky", "status", "-v")


async def _watch(jobs: Jobs) -> None:
    """Look at the jobs until cancelled; one that fails ends all other waiting."""
    while True:
        await asyncio.to_thread(jobs.queue)
        await asyncio.sleep(_LOOK_S)


async def _undisturbed(seen: Story) -> None:
    """The same run as those that are lost, on this machine, with nothing going wrong."""
    config = {**seen.rented.config("lost"), "cluster": {}, "benchmark": False}
    config["store"] = str(seen.home / "undisturbed")
    async with _running(seen, "undisturbed", config) as process:
        assert await process.wait() == 0, seen.log("undisturbed").read_text()


async def _lost(seen: Story) -> None:
    """The first place has no machine; the second's is lost in mid-step; the flow is killed too."""
    rented, log = seen.rented, seen.log("lost")
    config = rented.config("lost", infra=["slurm/lab/full", "slurm/lab/gpu"], client_lost_s=120)
    async with _running(seen, "lost", config) as process:
        await _until(lambda: rented.committed("lost") >= 1, process)
        await _look_around(seen)
        await asyncio.to_thread(rented.lab.lose, rented.name("lost"))
        began = time.monotonic()
        seen.lost_at = await asyncio.to_thread(rented.committed, "lost")
        await _until(lambda: "It is started again" in log.read_text(), process)
        seen.noticed_after_s = time.monotonic() - began
        await _until(lambda: rented.committed("lost") > seen.lost_at + 1, process)
        process.kill()
    async with _running(seen, "lost", config) as process:
        seen.codes["lost"] = await process.wait()
    seen.gone_after_s["lost"] = await _gone(rented, "lost")


async def _killed(seen: Story) -> None:
    """Nobody comes back to the machine."""
    rented = seen.rented
    async with _running(seen, "killed", rented.config("killed")) as process:
        await _until(lambda: rented.committed("killed") >= 1, process)
        process.kill()
    seen.gone_after_s["killed"] = await _gone(rented, "killed")


async def _use_worker_and_shut(seen: Story) -> None:
    """Launch the jobs, cancel what comes up, and kill the worker; the server stays."""
    up = await asyncio.to_thread(Up, seen.rented.precis, seen.home / "up.txt", "--limit", "2")
    try:
        await asyncio.to_thread(up.prints, "Ctrl-C waits")
        async with asyncio.TaskGroup() as through_it:
            through_it.create_task(_cancelled(seen))
            through_it.create_task(asyncio.to_thread(_launch, seen))
    finally:
        up.process.kill()
        up.process.wait()


async def _cancelled(seen: Story) -> None:
    """Cancelled in Prefect while its machine is coming up."""
    rented, api = seen.rented, seen.api
    config = {**rented.config("cancelled"), **FREE}
    run = await asyncio.to_thread(created, api, "train/h100", config)

    def is_coming_up() -> bool:
        state = api.get(f"/flow_runs/{run}").raise_for_status().json()["state"]
        assert state["type"] not in ("FAILED", "CRASHED"), state["message"]
        return bool(rented.machines("cancelled"))

    await _until(is_coming_up)
    await asyncio.to_thread(cancel, api, run)
    seen.cancelled_as["machine"] = await _state_of(api, run)
    seen.gone_after_s["cancelled"] = await _gone(rented, "cancelled")


async def _state_of(api: httpx.Client, run: str) -> str:
    """The type of the state in which a run ends."""
    ended = await asyncio.to_thread(reached, api, run, "CANCELLED", "CRASHED", "FAILED")
    return str(ended["state_type"])


def _launch(seen: Story) -> None:
    for model in ("cancelled", "lost", "lost"):
        run = created(seen.api, "train/managed", seen.jobs.config(model))
        ended = reached(seen.api, run, "COMPLETED", "FAILED", "CRASHED")
        assert ended["state_type"] == "COMPLETED", ended["state"]["message"]
        seen.launches.append(ended)
        seen.told.append(logs_of(seen.api, run, "sky jobs cancel"))


async def _job_lost(seen: Story) -> None:
    """Its first machine is told to end and stays up for a while, its second is gone at once."""
    jobs = seen.jobs
    await _until(lambda: jobs.committed("lost") >= 1)
    await asyncio.to_thread(jobs.lab.give_notice, jobs.name("lost"), "cli.managed_run")
    await _until(lambda: jobs.status("lost") not in {"STARTING", "RUNNING"}, pause_s=1)
    assert jobs.status("lost") == "RECOVERING", jobs.controller_said(2)
    noticed_at = await asyncio.to_thread(jobs.committed, "lost")
    await _until(lambda: jobs.committed("lost") > noticed_at)
    await asyncio.to_thread(jobs.lab.lose, jobs.name("lost"))
    seen.job_lost_at = (noticed_at, await asyncio.to_thread(jobs.committed, "lost"))
    seen.ended["lost"] = await _end_of(jobs, "lost")
    assert seen.ended["lost"] == "SUCCEEDED", jobs.controller_said(2)
    run = _executed_by(seen.api, "lost")
    seen.executed = await asyncio.to_thread(reached, seen.api, run, "COMPLETED")
    seen.states = [f"{one['type']} {one['name']}" for one in states_of(seen.api, run)]


async def _job_cancelled(seen: Story) -> None:
    await _until(lambda: seen.jobs.committed("cancelled") >= 1)
    run = _executed_by(seen.api, "cancelled")
    await asyncio.to_thread(cancel, seen.api, run)
    # Before the job's end the run is Crashed for a moment: its process was told to end.
    seen.ended["cancelled"] = await _end_of(seen.jobs, "cancelled")
    seen.cancelled_as["job"] = await _state_of(seen.api, run)


def _executed_by(api: httpx.Client, model: str) -> str:
    """The one flow run that a job of the model executes."""
    query = {"flow_runs": {"tags": {"all_": ["managed"]}, "deployment_id": {"is_null_": True}}}
    found = api.post("/flow_runs/filter", json=query).raise_for_status().json()
    [run] = [one for one in found if one["parameters"]["config"]["model"] == model]
    return str(run["id"])


async def _end_of(jobs: Jobs, model: str) -> str:
    """Return what became of a job that does not fail."""
    await _until(lambda: jobs.status(model) in {"SUCCEEDED", "CANCELLED"}, pause_s=1)
    return await asyncio.to_thread(jobs.status, model)


async def _look_around(seen: Story) -> None:
    """What a stranger on the machine's network would find."""
    keys = seen.home / "clusters" / f"{seen.rented.name('lost')}.json"
    port = json.loads(keys.read_text())["port"]
    sockets = await asyncio.to_thread(seen.rented.lab.run, "ss", "-Hltnp")
    trainer = [line for line in sockets.splitlines() if f":{port} " in line]
    seen.listening = [line.split()[3] for line in trainer]
    async with httpx.AsyncClient(timeout=60) as http:
        wrong = {"authorization": "Bearer wrong"}
        reply = await http.get(f"http://127.0.0.1:{port}/healthz", headers=wrong)
    seen.refused = reply.status_code


@asynccontextmanager
async def _running(
    seen: Story, name: str, config: dict[str, Any]
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await seen.rented.precis.start_training(config, seen.log(name))
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        seen.logs[name] = seen.log(name).read_text()


async def _until(
    condition: Callable[[], bool],
    process: asyncio.subprocess.Process | None = None,
    pause_s: float = 0.5,
) -> None:
    while not await asyncio.to_thread(condition):
        assert process is None or process.returncode is None, "the run ended too early"
        await asyncio.sleep(pause_s)


async def _gone(rented: Rented, model: str) -> float:
    began = time.monotonic()
    await _until(lambda: not rented.machines(model))
    return time.monotonic() - began


def test_lost_machines_and_their_disks_change_nothing_of_the_result(story: Story) -> None:
    assert story.codes["lost"] == 0, story.logs["lost"]
    assert 0 < story.lost_at < STEPS - 1, "the run was over before its machine was lost"
    assert "It is started again" in story.logs["lost"]
    assert 0 < story.noticed_after_s < 120
    noticed_at, lost_at = story.job_lost_at
    assert 1 <= noticed_at < lost_at < STEPS - 1, "the job was over before a loss"
    undisturbed = _result_in(open_store(str(story.home / "undisturbed")))
    assert len(undisturbed[0]) == STEPS
    assert _result_in(story.rented.bucket_store()) == undisturbed
    assert _result_in(story.jobs.bucket_store()) == undisturbed


def _result_in(store: Any) -> tuple[list[str], str]:
    """The digest of each step, and that of the last weights."""
    ledger = load_ledger(store, "lost")
    newest = manifest(store, "lost", ledger.next_step)
    assert newest is not None
    [weights] = [file.sha256 for file in newest.files if file.path == "policy.json"]
    return [step.digest for step in ledger.steps], weights


def test_the_second_place_is_asked_where_the_first_has_no_machine(story: Story) -> None:
    assert "Launching on Slurm lab (full)" in story.logs["lost"]
    assert "(slurm/lab/gpu) costs $0.00 an hour" in story.logs["lost"]
    found = re.findall(r"Found the trainer .* after ([0-9.]+) s", story.logs["lost"])
    assert found and float(found[-1]) < 60


def test_nothing_is_left_behind_by_a_run_that_succeeded_or_was_cancelled(story: Story) -> None:
    assert story.gone_after_s["lost"] < 30
    assert story.cancelled_as["machine"] == "CANCELLED"
    assert story.gone_after_s["cancelled"] < 240
    assert not list((story.home / "clusters").glob("*-lost-*.json"))
    assert not story.rented.lab.jobs()
    # The machine that took itself down is listed until SkyPilot asks for it again.
    assert not re.search("precis-(lost|cancelled)", story.left)


def test_a_machine_whose_flow_is_gone_for_good_takes_itself_down(story: Story) -> None:
    # Twenty seconds without a client, a minute without a job, and a minute between two looks;
    # beside four runs and other tests it took eleven minutes. Without its own end it is never.
    assert 0 < story.gone_after_s["killed"] < LONG_S


def test_nothing_listens_beyond_the_loopback_and_a_wrong_token_is_refused(story: Story) -> None:
    assert story.listening
    assert all(address.startswith("127.0.0.1:") for address in story.listening)
    assert story.refused == 401


def test_a_launch_says_how_to_follow_and_end_it_and_is_found_again(story: Story) -> None:
    told = "\n".join(story.told[1])
    assert "It executes the flow run" in told
    assert "sky jobs logs 2" in told
    assert "sky jobs cancel 2" in told
    assert "while this machine is off, a lost one is not started again" in told
    told = "\n".join(story.told[2])
    assert "The managed job 2 " in told
    assert "It executes the flow run" not in told
    assert len(story.jobs.queue()) == 2


def test_all_machines_of_a_job_execute_one_flow_run(story: Story) -> None:
    assert story.ended["lost"] == "SUCCEEDED"
    assert story.states.count("PENDING Recovering") == 2
    assert story.states[-1] == "COMPLETED Completed"


def test_the_cancel_button_ends_the_job_and_its_machine(story: Story) -> None:
    """It has trained an agent until then: its file was there."""
    assert story.cancelled_as["job"] == "CANCELLED"
    assert story.ended["cancelled"] == "SUCCEEDED"
    assert 1 <= story.jobs.committed("cancelled") < 10 * STEPS


def test_no_secret_is_written_down_where_others_may_look(story: Story) -> None:
    """SkyPilot keeps those of a job where it needs them to start it again, and nowhere else."""
    lab = story.rented.lab
    words = lab.run("sky", "jobs", "queue", "--verbose") + story.left
    words += str(story.executed) + str(story.launches) + str(story.told)
    for log in (*lab.home.rglob("*.log"), *story.home.rglob("*.log")):
        words += log.read_text(errors="replace")
    words += dump(story.home / "prefect" / "prefect.db")
    for secret in (CANARY, PASSWORD):
        assert secret not in words
    keeping = set()
    for database in (*lab.home.rglob("*.db"), *story.home.rglob("*.db")):
        if CANARY in dump(database):
            keeping.add(database.name)
    assert keeping == {"spot_jobs.db"}
