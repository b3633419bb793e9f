"""Which runs `precis runs` shows."""

import json
from datetime import UTC, datetime

import pytest
from prefect.client.schemas.objects import FlowRun
from typer.testing import CliRunner

from cli import live_runs, prefect_server
from cli.runs import app

ID = "3b0fd2f3-f55f-491c-9362-ae6cdcef02d7"


def run(**fields: object) -> FlowRun:
    return FlowRun.model_validate({"flow_id": ID, "name": "helpful-nautilus", **fields})


def test_a_part_of_a_run_is_no_run_of_its_own_and_a_trial_of_a_sweep_is() -> None:
    assert live_runs._is_part(run(parent_task_run_id=ID))
    assert not live_runs._is_part(run(parent_task_run_id=ID, deployment_id=ID))
    assert not live_runs._is_part(run())


@pytest.mark.parametrize(
    "parameters",
    [{"model": "mine"}, {"config": {"model": "mine"}}, {"model": "mine", "config": 5}],
)
def test_a_run_that_has_not_begun_is_named_with_its_model(parameters: dict[str, object]) -> None:
    waiting = run(parameters=parameters, state_name="Late")
    told = live_runs._describe(waiting, "train/trial", datetime.now(UTC))
    assert told.name == "helpful-nautilus (mine)"
    begun = run(parameters=parameters, name="train mine: step 1 of 9")
    assert live_runs._describe(begun, "train/trial", datetime.now(UTC)).name == begun.name


def test_without_a_server_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_server, "find", lambda: None)
    said = CliRunner().invoke(app, [])
    assert said.exit_code == 0
    assert said.output == "No Prefect server is configured or up, so nothing runs.\n"
    assert json.loads(CliRunner().invoke(app, ["--json"]).output) == []
