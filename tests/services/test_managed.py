"""A run as a managed job of SkyPilot's, in the lab, with the laptop shut.

Two runs at once: one is launched, twice, by a worker that is killed then, and in the middle is told
to end, goes on on another machine, loses that and its disk, and ends on a third; the other is an
agent, whose file goes with it, and is cancelled by its flow run's button in Prefect. The tests look
at what became of them.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from precis.cluster.keys import cluster_name
from precis.records.ledger import load_ledger
from precis.run.checkpoints import manifest
from precis.store import open_store
from tests.services.conftest import Up
from tests.services.prefect_api import (
    PASSWORD,
    cancel,
    client_of,
    created,
    logs_of,
    reached,
    states_of,
)
from tests.services.rented import CANARY, FREE, STEPS, Rented, dump
from tests.services.s3_server import s3_server
from tests.services.slurm_lab import SlurmLab, slurm_lab
from tests.support.examples import EXAMPLES

pytestmark = pytest.mark.long

_QUEUE = (
    "SELECT spot_job_id, job_info.name, spot.status FROM spot JOIN job_info USING (spot_job_id)"
)
"""What is asked of SkyPilot's own database: its command takes seconds of a core for each look."""
_LOOK_S = 2.0
"""Between two looks at the jobs."""
_PATIENCE_S = 2400.0
"""For all of it; a quiet machine with two cores takes a sixth of that."""


class Laptop(Rented):
    """Launches managed jobs; the Prefect server is elsewhere, and stays."""

    def config(self, model: str, **cluster: Any) -> dict[str, Any]:
        given = super().config(model, spot="never", **cluster)
        # The one that is cancelled must not end before that.
        steps = STEPS if model == "lost" else 10 * STEPS
        at_ends = {"steps": steps, "validate_every": steps, "benchmark": False}
        settings = {**given, **FREE, **at_ends, "prefect_api_url": self.precis.api}
        if model == "cancelled":
            game = {"environment": str(EXAMPLES / "tic_tac_toe.py")}
            settings |= {**game, "trainer": {"kind": "tool_calls"}}
        return settings

    def launch(self, api: httpx.Client, model: str) -> tuple[dict[str, Any], list[str]]:
        """The launching run once it has ended, and its log."""
        run = created(api, "train/managed", self.config(model))
        ended = reached(api, run, "COMPLETED", "FAILED", "CRASHED")
        assert ended["state_type"] == "COMPLETED", ended["state"]["message"]
        return ended, logs_of(api, run, "sky jobs cancel")

    def queue(self) -> list[tuple[int, str, str]]:
        """Return number, name and status of each managed job that there ever was.

        A job that has failed fails the test, with what was logged of it: nothing else that the
        test waits for would then come.
        """
        file = f"file:{self.lab.home}/.sky/spot_jobs.db?mode=ro"
        with closing(sqlite3.connect(file, uri=True)) as database:
            jobs: list[tuple[int, str, str]] = database.execute(_QUEUE).fetchall()
        for number, name, status in jobs:
            failed = status.startswith("FAILED")
            assert not failed, f"The job {name} is {status}:\n{self.controller_said(number)}"
        return jobs

    def status(self, model: str) -> str:
        """Return what became of a model's one job."""
        [status] = [status for _, name, status in self.queue() if name == self.name(model)]
        return status

    def controller_said(self, job: int) -> str:
        """The end of what SkyPilot's jobs controller wrote of a job, and of what the job wrote."""
        log = self.lab.home / f"sky_logs/jobs_controller/{job}.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        # Lines for the spinner of a terminal; the log is mostly those.
        said = [line for line in lines if "<sky-payload>" not in line]
        return "\n".join(said)[-4000:]

    def name(self, model: str) -> str:
        return cluster_name(model, self.store)


@dataclass
class Story:
    """What was seen of the runs."""

    lab: SlurmLab
    laptop: Laptop
    launches: list[dict[str, Any]] = field(default_factory=list)
    told: list[list[str]] = field(default_factory=list)
    noticed_at: int = 0
    lost_at: int = 0
    jobs: dict[str, str] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    cancelled_as: str = ""
    left: str = ""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    with slurm_lab(managed_jobs=True) as lab, s3_server() as s3:
        laptop = Laptop(tmp_path_factory.mktemp("managed"), lab, s3)
        laptop.precis.serve()
        try:
            seen = Story(lab, laptop)
            with client_of(laptop.precis.api) as api:
                asyncio.run(_tell(laptop, api, seen))
            yield seen
        finally:
            laptop.precis.run("stop")


async def _tell(laptop: Laptop, api: httpx.Client, seen: Story) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        await asyncio.to_thread(_launch_and_shut, laptop, api, seen)
        async with asyncio.TaskGroup() as watched:
            watch = watched.create_task(_watch(laptop))
            async with asyncio.TaskGroup() as runs:
                runs.create_task(_undisturbed(laptop, api))
                runs.create_task(_lost(laptop, api, seen))
                runs.create_task(_cancelled(laptop, api, seen))
            await _until(lambda: not laptop.lab.jobs())
            watch.cancel()
    seen.left = await asyncio.to_thread(laptop.lab.run, "sky", "status", "-v")


async def _watch(laptop: Laptop) -> None:
    """Look at the jobs until cancelled; one that fails ends all other waiting."""
    while True:
        await asyncio.to_thread(laptop.queue)
        await asyncio.sleep(_LOOK_S)


def _launch_and_shut(laptop: Laptop, api: httpx.Client, seen: Story) -> None:
    up = Up(laptop.precis, laptop.precis.home / "up.txt")
    try:
        up.prints("Ctrl-C waits")
        for model in ("cancelled", "lost", "lost"):
            run, told = laptop.launch(api, model)
            seen.launches.append(run)
            seen.told.append(told)
    finally:
        up.process.kill()
        up.process.wait()


async def _undisturbed(laptop: Laptop, api: httpx.Client) -> None:
    """The same run as the one that is lost, on this machine, with nothing going wrong."""
    run = api.get(f"/flow_runs/{_trained_by(api, 'lost')}").raise_for_status().json()
    store = str(laptop.precis.home / "undisturbed")
    config = {**run["parameters"]["config"], "cluster": {}, "store": store}
    log = laptop.precis.home / "undisturbed.txt"
    process = await laptop.precis.start_training(config, log)
    assert await process.wait() == 0, log.read_text()


async def _lost(laptop: Laptop, api: httpx.Client, seen: Story) -> None:
    """Its first machine is told to end and stays up for a while, its second is gone at once."""
    await _until(lambda: laptop.committed("lost") >= 1)
    await asyncio.to_thread(laptop.lab.give_notice, laptop.name("lost"), "cli.managed_run")
    await _until(lambda: laptop.status("lost") not in {"STARTING", "RUNNING"}, pause_s=1)
    assert laptop.status("lost") == "RECOVERING", laptop.controller_said(2)
    seen.noticed_at = await asyncio.to_thread(laptop.committed, "lost")
    await _until(lambda: laptop.committed("lost") > seen.noticed_at)
    await asyncio.to_thread(laptop.lab.lose, laptop.name("lost"))
    seen.lost_at = await asyncio.to_thread(laptop.committed, "lost")
    seen.jobs["lost"] = await _end_of(laptop, "lost")
    assert seen.jobs["lost"] == "SUCCEEDED", laptop.controller_said(2)
    seen.run = await asyncio.to_thread(reached, api, _trained_by(api, "lost"), "COMPLETED")
    seen.states = [f"{one['type']} {one['name']}" for one in states_of(api, seen.run["id"])]


async def _cancelled(laptop: Laptop, api: httpx.Client, seen: Story) -> None:
    await _until(lambda: laptop.committed("cancelled") >= 1)
    run = _trained_by(api, "cancelled")
    await asyncio.to_thread(cancel, api, run)
    seen.jobs["cancelled"] = await _end_of(laptop, "cancelled")
    ended = await asyncio.to_thread(reached, api, run, "CANCELLED", "CRASHED", "FAILED")
    seen.cancelled_as = ended["state_type"]


def _trained_by(api: httpx.Client, model: str) -> str:
    """The one flow run that trains a model."""
    query = {"flow_runs": {"tags": {"all_": ["managed"]}, "deployment_id": {"is_null_": True}}}
    found = api.post("/flow_runs/filter", json=query).raise_for_status().json()
    [run] = [one for one in found if one["parameters"]["config"]["model"] == model]
    return str(run["id"])


async def _end_of(laptop: Laptop, model: str) -> str:
    """Return what became of a job that does not fail."""
    await _until(lambda: laptop.status(model) in {"SUCCEEDED", "CANCELLED"}, pause_s=1)
    return await asyncio.to_thread(laptop.status, model)


async def _until(condition: Callable[[], bool], pause_s: float = 0.5) -> None:
    while not await asyncio.to_thread(condition):
        await asyncio.sleep(pause_s)


def test_the_launch_says_how_to_follow_and_to_end_the_job(story: Story) -> None:
    told = "\n".join(story.told[1])
    assert "It executes the flow run" in told
    assert "sky jobs logs 2" in told
    assert "sky jobs cancel 2" in told
    assert "while this machine is off, a lost one is not brought up again" in told


def test_a_second_launch_finds_the_job_of_the_first(story: Story) -> None:
    told = "\n".join(story.told[2])
    assert "The managed job 2 " in told
    assert "It executes the flow run" not in told
    assert len(story.laptop.queue()) == 2


def test_lost_machines_and_their_disks_change_nothing_of_the_result(story: Story) -> None:
    assert 1 <= story.noticed_at < story.lost_at < STEPS - 1, "the run was over before a loss"
    assert story.jobs["lost"] == "SUCCEEDED"
    bucket = story.laptop.bucket_store()
    local = open_store(str(story.laptop.precis.home / "undisturbed"))
    ledger = load_ledger(bucket, "lost")
    undisturbed = load_ledger(local, "lost")
    assert [step.digest for step in ledger.steps] == [step.digest for step in undisturbed.steps]
    assert len(ledger.steps) == STEPS
    weights = {}
    for store in (bucket, local):
        newest = manifest(store, "lost", STEPS)
        assert newest is not None
        [weights[store.url]] = [one.sha256 for one in newest.files if one.path == "policy.json"]
    assert len(set(weights.values())) == 1


def test_all_machines_execute_one_flow_run(story: Story) -> None:
    assert story.states.count("PENDING Recovering") == 2
    assert story.states[-1] == "COMPLETED Completed"


def test_the_cancel_button_ends_the_job_and_its_machine(story: Story) -> None:
    """It has trained an agent until then: its file was there."""
    assert story.cancelled_as == "CANCELLED"
    assert story.jobs["cancelled"] == "SUCCEEDED"
    assert 1 <= story.laptop.committed("cancelled") < STEPS


def test_no_machine_is_left(story: Story) -> None:
    assert not story.lab.jobs()
    assert "precis-" not in story.left


def test_no_secret_is_written_down_where_others_may_look(story: Story) -> None:
    listed = story.lab.run("sky", "jobs", "queue", "--verbose")
    words = listed + story.left + str(story.run) + str(story.launches) + str(story.told)
    for log in (*story.lab.home.rglob("*.log"), *story.laptop.precis.home.rglob("*.log")):
        words += log.read_text(errors="replace")
    words += dump(story.laptop.precis.home / "prefect" / "prefect.db")
    for secret in (CANARY, PASSWORD):
        assert secret not in words


def test_skypilot_keeps_secrets_where_it_needs_them_to_start_the_job_again(story: Story) -> None:
    keeping = set()
    for database in story.lab.home.rglob("*.db"):
        if CANARY in dump(database):
            keeping.add(database.name)
    assert keeping == {"spot_jobs.db"}
