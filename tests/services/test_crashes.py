"""A run on S3 whose flow and trainer are killed in the middle of its steps, or told to end.

It is started again whenever its flow has died, and must end with the same bits in every step as a
run in a folder that nobody disturbed, each step trained once by the trainer's own log. That a run
may die anywhere is proven in process (tests/unit/training/test_kills.py).
"""

import json
import secrets
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from precis.records.ledger import load_ledger
from tests.services.conftest import Precis
from tests.services.killed_run import PROGRAM, Kill, write_plan
from tests.services.patience import until
from tests.services.prefect_api import client_of, runs_in, states_of
from tests.services.s3_server import variables_for
from tests.support.in_process import Life, one_process
from tests.support.tinker_server import TinkerServer
from tests.unit.training.test_kills import outcome

UNSAVED = {"training begun", "before weights saved"}
"""Points at which a training is under way whose weights are not saved: it begins again."""
OF_THE_TRAINER = (
    "training begun",
    "before weights saved",
    "weights saved",
    "training logged",
    "result stored",
    "0 files uploaded",
    "1 files uploaded",
    "all files uploaded",
    "manifest written",
    "pointer moved",
)


@pytest.fixture
def bucket(precis: Precis, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a bucket that this process and the run's programs may create and use."""
    for name, value in variables_for(s3_url).items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(precis.environment, name, value)
    return f"s3://precis-{secrets.token_hex(4)}"


def life_of(folder: Path, kills: Sequence[Kill], **settings: Any) -> Life:
    """A run that has a step for each, after the first."""
    steps = len(kills) + 1
    documents = {"source": "bundled", "train_size": 12, "val_size": 3}
    rollouts = {"groups_per_step": 2, "rollouts_per_group": 4}
    settings |= {"steps": steps, "validate_every": steps, "recoveries_max": 100}
    return Life(folder, {**settings, "documents": documents, "rollouts": rollouts})


async def live(precis: Precis, life: Life, plan: Path, log: Path) -> int:
    """Live the flow once; its exit status."""
    program = ("-m", PROGRAM, "flow", str(plan))
    config = life.config.model_dump(mode="json")
    flow = await precis.start_training(config, log, program)
    try:
        await until(lambda: flow.returncode is not None, "the flow's end", log.read_text)
        return await flow.wait()
    finally:
        if flow.returncode is None:
            flow.kill()


async def live_through(precis: Precis, bucket: str, folder: Path, kills: Sequence[Kill]) -> Life:
    """Live such a run to its end, and compare it with one that nobody disturbs."""
    plan, log = folder / "plan", folder / "flow.log"
    plan.mkdir()
    write_plan(plan, kills)
    killed = life_of(folder / "killed", kills, store=bucket)
    undisturbed = life_of(folder / "undisturbed", kills)
    deaths = [kill for kill in kills if "flow" in kill.victims]
    with one_process(precis.home):
        await undisturbed.live()
        for kill in deaths:
            status = await live(precis, killed, plan, log)
            assert (plan / kill.mark).exists(), log.read_text()[-3000:]
            assert status == -kill.by, log.read_text()[-3000:]
            if kill.by == signal.SIGTERM:
                committed = load_ledger(killed.store, "m").next_step
                assert committed == kill.number, "the commit in hand was not finished"
        assert await live(precis, killed, plan, log) == 0, log.read_text()[-3000:]
        missed = [kill.mark for kill in kills if not (plan / kill.mark).exists()]
        assert not missed, f"the run never got there: {missed}"
        assert outcome(killed, TinkerServer(1)) == outcome(undisturbed, TinkerServer(1))
        assert_each_step_was_trained_once(killed, kills)
    return killed


def assert_each_step_was_trained_once(life: Life, kills: Sequence[Kill]) -> None:
    log = life.work / "trainer/precis/models/m/trainings.jsonl"
    events: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    trainings = Counter((one["event"], one["step"]) for one in events)
    began_again = {kill.number for kill in kills if kill.point in UNSAVED}
    for step in range(life.config.steps):
        assert trainings["trained", step] == 1
        assert trainings["began", step] == (2 if step in began_again else 1)


async def test_a_run_that_is_killed_ends_as_if_it_had_not_been(
    precis: Precis, bucket: str, tmp_path: Path
) -> None:
    """Told to end by SIGTERM, it ends after its commit."""
    kills = [
        Kill("training begun", 1),
        Kill("weights saved", 2, ("flow",)),
        Kill("1 files uploaded", 4, ("flow",), signal.SIGTERM),
    ]
    await live_through(precis, bucket, tmp_path, kills)
    with client_of(precis.api) as api:
        _, told, killed = runs_in(api, bucket)
        names = [state["name"] for state in states_of(api, killed["id"])]
    assert names[:5] == ["Pending", "Running", "Preempted", "Recovering", "Running"]
    assert killed["state_type"] == "CRASHED", "the next run has found its lease"
    assert told["state_type"] == "CRASHED", told["state"]


@pytest.mark.long  # each has a step of its own
async def test_a_run_whose_processes_are_killed_one_by_one_ends_as_if_they_had_not_been(
    precis: Precis, bucket: str, tmp_path: Path
) -> None:
    kills = []
    for step, point in enumerate(OF_THE_TRAINER, 1):
        of_a_checkpoint = point.endswith(("uploaded", "written", "moved"))
        kills.append(Kill(point, step + of_a_checkpoint))
    kills.append(Kill("weights saved", len(kills) + 1, ("flow",)))
    kills.append(Kill("pointer moved", len(kills) + 2, ("flow", "trainer")))
    await live_through(precis, bucket, tmp_path, kills)
