"""What `precis doctor` examines, and what it says of deployments that it can't."""

import asyncio
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.settings import PREFECT_API_URL, temporary_settings
from typer.testing import CliRunner

from cli import deployments, doctor, prefect_server
from cli.doctor import checks_of, read_settings
from precis.checks import Check, CheckResult, run_checks
from precis.cluster import api
from precis.commands import main as cli
from precis.commands.terminal import plain_console
from precis.config import ManagedConfig, TrainConfig
from precis.environments.ruler import AgentEnvironment
from precis.errors import ConfigError
from precis.records.ledger import Ledger, write_ledger
from precis.store import FolderStore
from precis.trainer.tinker import check as tinker
from tests.support.repository import ROOT
from tests.support.runs import hold

GAME = str(ROOT / "examples" / "tic_tac_toe.py")


@pytest.fixture(autouse=True)
def a_fresh_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One without the clients that are extras."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRECIS_STORE", str(tmp_path / "store"))
    for variable in ("BACKUP_BUCKET", "PREFECT_API_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(api, "is_installed", lambda: False)
    monkeypatch.setattr(tinker, "is_client_installed", lambda: False)
    monkeypatch.setattr(doctor, "is_client_installed", lambda: False)


async def found_by(planned: dict[str, Check]) -> dict[str, str]:
    """What these checks find, where all is well."""
    rows = await run_checks(planned)
    assert all(row.ok for row in rows), rows
    return {row.name: row.detail for row in rows}


async def row_of(name: str, planned: dict[str, Check]) -> CheckResult:
    [row] = await run_checks({name: planned[name]})
    return row


async def failures(deployment: str, *names: str) -> dict[str, str]:
    """What each of these checks of a deployment says is missing, and what to do."""
    planned = checks_of(*read_settings(deployment))
    rows = await run_checks({name: planned[name] for name in names})
    assert not any(row.ok for row in rows), rows
    return {row.name: f"{row.detail} {row.remedy}" for row in rows}


async def test_all_that_a_rented_machine_lacks_is_in_one_table() -> None:
    lacking = ["store", "judge", "second judge", "SkyPilot", "SkyPilot's keys"]
    for deployment in ("train/h100", "train/managed"):
        said = await failures(deployment, *lacking)
        assert "can't reach the store" in said["store"] and "s3://" in said["store"]
        assert "OPENROUTER_API_KEY" in said["judge"]
        assert "OPENROUTER_API_KEY" in said["second judge"]
        assert "make install-sky" in said["SkyPilot"]
        assert "sky check runpod" in said["SkyPilot's keys"]
        planned = checks_of(*read_settings(deployment))
        assert await planned["budget"]() == "$60.00; what a machine costs is not known"
        assert {"documents", "licence", "W&B"} <= planned.keys()


async def test_what_tinker_needs_is_asked_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said = await failures("train/tinker", "judge", "Tinker's client", "Tinker")
    assert "make install-tinker" in said["Tinker's client"]
    assert "TINKER_API_KEY" in said["Tinker"]
    monkeypatch.setenv("TINKER_API_KEY", "tml-key")
    assert "key is set" in await checks_of(*read_settings("train/tinker"))["Tinker"]()


def put_run(folder: Path, **settings: Any) -> None:
    """Put the ledger of a run with these settings into the store."""
    trained = TrainConfig.model_validate(settings)
    ledger = Ledger(model=trained.model, config="c", corpus="k")
    write_ledger(FolderStore(folder / "store"), ledger.under(trained.model_dump(mode="json")), None)


async def test_an_agent_is_examined_for_its_training_and_its_benchmark(tmp_path: Path) -> None:
    agent = {"model": "game", "environment": GAME}
    found = await found_by(checks_of(TrainConfig.model_validate(agent)))
    assert not {"documents", "judge", "second judge"} & found.keys()
    assert found["environment"].endswith("400 boards to train on, 100 held out")
    assert found["run"] == "game is new"
    assert found["licence"] == "the embedded policy has no base model"
    put_run(tmp_path, **agent)
    found = await found_by(checks_of(*read_settings("benchmark/nightly", ["model=game"])))
    assert not {"documents", "judge"} & found.keys()
    assert found["environment"].endswith("400 boards to train on, 100 held out")
    assert found["model"] == "game is at step 0"
    # The variables' sizes, 3591 documents, are more than the bundled corpus has.
    put_run(tmp_path, model="rehearsal-seed1", documents={"train_size": 160, "val_size": 32})
    found = await found_by(checks_of(*read_settings("benchmark/nightly")))
    assert found["documents"] == "bundled: 160 to train on, 32 held out"


async def test_held_out_scenarios_like_those_to_train_on_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "game.py"
    text = Path(GAME).read_text().replace("range(400)", "range(9_990, 10_010)")
    text = text.replace('f"game-{seed}"', 'f"{split}-{seed}"')
    file.write_text(text)
    config = TrainConfig.model_validate({"model": "game", "environment": str(file)})
    row = await row_of("environment", checks_of(config))
    assert "100 held out, 10 of them like one to train on but for the id" in row.detail
    file.write_text(text.replace(', "seed": seed}', "}"))
    row = await row_of("environment", checks_of(config))
    assert row.detail.endswith("100 held out"), "their ids are all that they have"


async def test_a_benchmark_lacks_its_model_and_its_contenders_their_key() -> None:
    rows = await run_checks(checks_of(*read_settings("benchmark/nightly", ['hosted=["gpt-4o"]'])))
    lacking = {row.name: row.detail for row in rows if not row.ok}
    assert lacking.keys() == {"model", "contenders"}
    assert "OPENROUTER_API_KEY" in lacking["contenders"]


async def test_baselines_that_the_environment_has_not_are_refused(tmp_path: Path) -> None:
    put_run(tmp_path, model="rehearsal-seed1")
    put_run(tmp_path, model="game", environment=GAME)
    for model, row, known in (
        ("rehearsal-seed1", "contenders", "empty, lead-350"),
        ("game", "environment", "some of random"),
    ):
        params = [f"model={model}", 'baselines=["leed-350"]']
        planned = checks_of(*read_settings("benchmark/nightly", params))
        found = await row_of(row, planned)
        assert "no baseline 'leed-350'" in found.detail and known in found.remedy


async def test_a_rented_benchmark_asks_its_own_bucket_only(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(doctor, "open_store", opened.append)
    planned = checks_of(*read_settings("benchmark/nightly", ['cluster={"where": "sky"}']))
    assert "model" not in planned and opened == []
    with pytest.raises(ConfigError, match="can't reach the store"):
        await planned["store"]()


def test_a_word_is_a_setting() -> None:
    params = ["model=mine", 'documents={"val_size": 8}', 'config={"documents": {"train_size": 9}}']
    config, _ = read_settings("train/rehearsal", params)
    assert config.model == "mine"
    found = config.documents
    assert (found.source, found.train_size, found.val_size) == ("bundled", 9, 8)


def test_where_all_is_well_it_says_what_to_run() -> None:
    arguments = ["doctor", "train/rehearsal", "-p", "steps=3"]
    said = CliRunner().invoke(cli.app, arguments)
    assert said.exit_code == 0, said.output
    assert said.output.endswith("  prefect deployment run train/rehearsal -p steps=3\n")
    assert logging.getLogger("precis").isEnabledFor(logging.WARNING)


async def test_a_continued_run_says_from_where_and_another_is_refused(tmp_path: Path) -> None:
    async def row(*params: str) -> CheckResult:
        return await row_of("run", checks_of(*read_settings("train/rehearsal", params)))

    assert (await row()).detail == "rehearsal-seed1 is new"
    config, _ = read_settings("train/rehearsal")
    put_run(tmp_path, **{**dict(config), "seed": 4})
    refused = await row()
    assert not refused.ok
    assert "seed was 4 and is 1 now" in refused.detail
    assert (await row("model=other")).detail == "other is new"
    FolderStore(tmp_path / "store").put("lost/checkpoints/0001/manifest.json", b"{}")
    lost = await row("model=lost")
    assert not lost.ok and "its ledger is gone" in lost.detail
    (tmp_path / "elsewhere").touch()
    origin = {"model": "rehearsal-seed1", "store": str(tmp_path / "elsewhere")}
    fork = await row("model=fork", f"from_checkpoint={json.dumps(origin)}")
    assert not fork.ok and "elsewhere" in fork.detail
    hold(FolderStore(tmp_path / "store"), "other", "train-7")
    held = await row("model=other")
    assert not held.ok
    assert "'other' is held by the run train-7" in held.detail
    assert (await row("model=other", "take_over=true")).ok


@pytest.mark.parametrize("environment", ["summaries", GAME])
async def test_what_a_warm_start_lacks_is_said(
    environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def row(**warm_start: Any) -> CheckResult:
        sizes = {"train_size": 160, "val_size": 32}
        settings = {"environment": environment, "documents": sizes, "warm_start": warm_start}
        return await row_of("warm start", checks_of(TrainConfig.model_validate(settings)))

    missing = await row(source="file", file="missing.jsonl")
    assert not missing.ok and "missing.jsonl" in missing.detail
    teacher = {"source": "teacher", "teacher": {"model": "m"}, "scenarios": 5}
    unpaid = await row(**teacher)
    assert not unpaid.ok and "OPENROUTER_API_KEY" in f"{unpaid.detail} {unpaid.remedy}"
    monkeypatch.setenv("CONTENDER_API_KEY", "k")
    nobody = {"model": "m", "provider": "url", "base_url": "http://127.0.0.1:9/v1"}
    silent = await row(**{**teacher, "teacher": nobody})
    assert silent.ok and silent.detail.startswith("5 ")
    assert "by m at http://127.0.0.1:9/v1, which does not answer a greeting" in silent.detail


async def test_what_judge_and_teacher_will_cost_is_forecast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def forecast(*params: str) -> str:
        planned = checks_of(*read_settings("train/rehearsal", params))
        return (await found_by({"forecast": planned["forecast"]}))["forecast"]

    assert await forecast() == "no model costs money"
    teacher = {"source": "teacher", "teacher": {"model": "openai/gpt-4o"}}
    paid = ('judge={"provider": "openrouter"}', f"warm_start={json.dumps(teacher)}")
    assert await forecast(*paid) == "not known yet"
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-key")
    said = await forecast(*paid)
    assert said.startswith("The teacher gpt-4o will be asked for 40 summaries, about $")
    assert "The judge will be called about " in said

    async def start(_: object) -> None:
        raise RuntimeError("Its own check has started it at the same time.")

    monkeypatch.setattr(AgentEnvironment, "open", start)
    game = (f"environment={json.dumps(GAME)}", 'trainer={"kind": "tool_calls"}')
    assert await forecast("model=game", *game) == "no model costs money"


async def test_secret_blocks_are_read_before_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers() -> str:
        return "server 3.9.1"

    async def adopted() -> list[str]:
        return ["OPENROUTER_API_KEY"]

    monkeypatch.setattr(prefect_server, "find", lambda: "http://127.0.0.1:9/api")
    monkeypatch.setattr(prefect_server, "check", answers)
    monkeypatch.setattr(doctor, "adopt_secrets", adopted)
    for secret in ("PREFECT_API_AUTH_STRING", "PREFECT_API_KEY"):
        monkeypatch.setenv(secret, "")
    rows = await doctor._examine(*read_settings("train/rehearsal"), plain_console())
    found = {row.name: row for row in rows}
    assert found["Secret blocks"].detail == "OPENROUTER_API_KEY"


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ("train/rehearsal -p grid={", 1, "is not JSON"),
        ("train/rehearsal -p steps=0", 2, "steps: Input should be greater than or equal to 1"),
        ("sweep/rehearsal", 1, "'sweep/rehearsal' of training or a benchmark; it has train/reh"),
    ],
)
def test_what_cannot_be_examined_is_said(arguments: str, code: int, told: str) -> None:
    said = CliRunner().invoke(cli.app, ["doctor", *arguments.split()])
    assert said.exit_code == code
    assert told in said.output


async def test_a_managed_job_is_not_to_report_to_the_loopback() -> None:
    parameters = {"store": "s3://bucket/runs", "cluster": {"where": "sky"}}
    config = ManagedConfig.model_validate(parameters)
    reach = checks_of(config)["reach"]
    here = temporary_settings({PREFECT_API_URL: "http://127.0.0.1:4200/api"})
    with here, pytest.raises(ConfigError, match="PREFECT_API_URL is http://127"):
        await reach()


def test_a_deployment_may_lack_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = {"name": "bare", "entrypoint": "flows/train.py:train"}
    empty = {**bare, "name": "empty", "parameters": None}
    (tmp_path / "prefect.yaml").write_text(yaml.safe_dump({"deployments": [bare, empty]}))
    monkeypatch.setattr(deployments, "ROOT", tmp_path)
    for name in ("train/bare", "train/empty"):
        assert read_settings(name)[0].model == TrainConfig().model


@pytest.mark.parametrize("phase", ["planning", "checking"])
async def test_ctrl_c_waits_for_no_check(phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it plans, it may read a benchmark's model from a bucket that does not answer."""
    begun, left, answered = threading.Event(), threading.Event(), threading.Event()
    codes: list[int] = []

    def hang(*_: object) -> Any:
        begun.set()
        answered.wait()

    def leave(code: int) -> None:
        codes.append(code)
        left.set()

    planned = {"documents": lambda: asyncio.to_thread(hang)}
    plan = hang if phase == "planning" else lambda *_: planned
    monkeypatch.setattr(doctor, "checks_of", plan)
    monkeypatch.setattr(doctor, "_FAREWELL_S", 0.0)
    monkeypatch.setattr(os, "_exit", leave)
    config, _ = read_settings("train/rehearsal")
    examining = asyncio.create_task(doctor._examine(config, None, plain_console()))
    assert await asyncio.to_thread(begun.wait, 60)
    examining.cancel()  # as Ctrl-C does
    with pytest.raises(asyncio.CancelledError):
        await examining
    assert await asyncio.to_thread(left.wait, 60)
    answered.set()
    assert codes == [130]
