"""A run on S3 whose flow, trainer, or both are killed in the middle of its steps, or told to end.

It is started again whenever its flow has died, and must end with the same bits in every step as a
run in a folder that nobody disturbed, each step trained once by the trainer's own log. That a run
may die anywhere is proven in process (tests/unit/training/test_kills.py).
"""

import json
import secrets
import signal
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

STEPS = 5
KILLS = (
    Kill("training begun", 1),
    Kill("weights saved", 2, ("flow",)),
    Kill("1 files uploaded", 3),
    Kill("pointer moved", 4, ("flow", "trainer")),
    Kill("1 files uploaded", 5, ("flow",), signal.SIGTERM),
)


@pytest.fixture
def bucket(precis: Precis, s3_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a bucket that this process and the run's programs may create and use."""
    for name, value in variables_for(s3_url).items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(precis.environment, name, value)
    return f"s3://precis-{secrets.token_hex(4)}"


def life_of(folder: Path, **settings: Any) -> Life:
    documents = {"source": "bundled", "train_size": 12, "val_size": 2}
    settings |= {"steps": STEPS, "validate_every": STEPS, "documents": documents}
    return Life(folder, {**settings, "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4}})


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


async def test_a_kill_changes_nothing_of_a_run(precis: Precis, bucket: str, tmp_path: Path) -> None:
    """Told to end by SIGTERM, it ends after its commit."""
    plan, log = tmp_path / "plan", tmp_path / "flow.log"
    plan.mkdir()
    write_plan(plan, KILLS)
    run = life_of(tmp_path / "killed", store=bucket)
    undisturbed = life_of(tmp_path / "undisturbed")
    with one_process(precis.home):
        await undisturbed.live()
        for kill in KILLS:
            if "flow" in kill.victims:
                assert await live(precis, run, plan, log) == -kill.by, log.read_text()[-3000:]
                assert (plan / kill.mark).exists(), log.read_text()[-3000:]
        assert load_ledger(run.store, "m").next_step == STEPS, "the commit in hand was not finished"
        assert await live(precis, run, plan, log) == 0, log.read_text()[-3000:]
        missed = [kill.mark for kill in KILLS if not (plan / kill.mark).exists()]
        assert not missed, f"the run never got there: {missed}"
        assert outcome(run, TinkerServer(1)) == outcome(undisturbed, TinkerServer(1))
        trainings = (run.work / "trainer/precis/models/m/trainings.jsonl").read_text()
    events = [json.loads(line) for line in trainings.splitlines()]
    assert [one["step"] for one in events if one["event"] == "trained"] == [0, 1, 2, 3, 4]
    # The training that was under way, and its weights not saved, began again.
    assert [one["step"] for one in events if one["event"] == "began"] == [0, 1, 1, 2, 3, 4]
    with client_of(precis.api) as api:
        _, told, with_its_trainer, killed = runs_in(api, bucket)
        names = [state["name"] for state in states_of(api, killed["id"])]
    assert names[:5] == ["Pending", "Running", "Preempted", "Recovering", "Running"]
    for one in (killed, with_its_trainer):
        assert one["state_type"] == "CRASHED", "the next run has found its lease"
    assert told["state_type"] == "CRASHED", told["state"]
