"""The deployments of `prefect.yaml` and their runs, where `precis up` is at work."""

import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import polars as pl
import psutil
import pytest

from precis.config import DocumentsConfig, OtherDocuments
from precis.records.documents import load_corpus, load_others
from precis.records.ledger import load_ledger
from precis.records.results import scan_results
from precis.store import FolderStore
from tests.services.conftest import ROOT, Precis
from tests.services.patience import wait_until
from tests.services.prefect_api import client_of, created, logs_of, reached, runs_in, tasks_of
from tests.support.corpora import rows, write_jsonl

GAME = ROOT / "examples" / "tic_tac_toe.py"
CONFIG: dict[str, Any] = {
    "model": "deployed",
    "steps": 1,
    "documents": {"source": "bundled", "train_size": 40, "val_size": 4},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
}


def run_deployment(precis: Precis, name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Start a deployment's run, wait for its end, and return it."""
    with client_of(precis.api) as api:
        return reached(api, created(api, name, config), "COMPLETED", "FAILED", "CRASHED")


@pytest.fixture(scope="module")
def trained(
    deployed: Precis, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    """The store that a deployed run has trained and benchmarked a model in, and that run.

    It is started as from the UI, which fills its form from the schema's defaults and the
    deployment's parameters, and sends all of it.
    """
    store = tmp_path_factory.mktemp("trained")
    with client_of(deployed.api) as api:
        found = api.get("/deployments/name/train/rehearsal").raise_for_status().json()
        fields = found["parameter_openapi_schema"]["properties"]
        shown = {name: field["default"] for name, field in fields.items() if "default" in field}
        filled_in = {**CONFIG, "store": str(store)}
        body = {
            "parameters": {**shown, **found["parameters"], **filled_in},
            "state": {"type": "SCHEDULED"},
        }
        started = api.post(f"/deployments/{found['id']}/create_flow_run", json=body)
        run = started.raise_for_status().json()["id"]
        return store, reached(api, run, "COMPLETED", "FAILED", "CRASHED")


def test_both_rehearsals_are_deployed_with_a_form(deployed: Precis) -> None:
    with client_of(deployed.api) as api:
        for name in ("train/rehearsal", "benchmark/rehearsal"):
            found = api.get(f"/deployments/name/{name}").raise_for_status().json()
            assert found["description"]
            assert "rehearsal" in found["tags"]
            schema = json.dumps(found["parameter_openapi_schema"])
            assert "Documents held out for validation and the benchmark" in schema


def test_the_nightly_benchmark_is_scheduled_and_leaves_a_late_night_out(deployed: Precis) -> None:
    with client_of(deployed.api) as api:
        nightly = api.get("/deployments/name/benchmark/nightly").raise_for_status().json()
        [schedule] = nightly["schedules"]
        assert schedule["active"]
        assert schedule["schedule"]["cron"] == "0 3 * * *"
        assert schedule["schedule"]["timezone"] == "Europe/Berlin"
        assert nightly["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
        wait_until(lambda: _upcoming(api, nightly["id"]), "a night that the scheduler plans")


@pytest.mark.long  # deployed once more; tests/unit/cli/test_pool.py has what is then asked for
def test_a_schedule_that_was_switched_off_stays_off_when_all_is_deployed_again(
    deployed: Precis,
) -> None:
    with client_of(deployed.api) as api:
        nightly = api.get("/deployments/name/benchmark/nightly").raise_for_status().json()
        [schedule] = nightly["schedules"]
        switch = f"/deployments/{nightly['id']}/schedules/{schedule['id']}"
        api.patch(switch, json={"active": False}).raise_for_status()
        try:
            deployed.prefect("--no-prompt", "deploy", "--name", "benchmark/nightly")
            again = api.get("/deployments/name/benchmark/nightly").raise_for_status().json()
            [schedule] = again["schedules"]
            assert not schedule["active"]
        finally:
            switch = f"/deployments/{nightly['id']}/schedules/{schedule['id']}"
            api.patch(switch, json={"active": True}).raise_for_status()


def _upcoming(api: httpx.Client, deployment: str) -> list[Any]:
    query = {"deployments": {"id": {"any_": [deployment]}}}
    found: list[Any] = api.post("/flow_runs/filter", json=query).raise_for_status().json()
    return found


def test_a_deployed_run_trains_and_benchmarks_and_leaves_nothing_running(
    deployed: Precis, trained: tuple[Path, dict[str, Any]]
) -> None:
    store, run = trained
    assert run["state_type"] == "COMPLETED", run["state"]
    assert run["name"] == "train deployed: step 1 of 1"
    assert (store / "deployed" / "benchmarks" / "0001" / "report.html").exists()
    assert not _children_of(deployed)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"steps": 0}, "minimum"),
        ({"steps": "three"}, "not of type"),
        ({"seed": 2**64}, "maximum"),
        ({"steps": 10**30}, "maximum"),
        ({"config": {"steps": 10**30}}, "maximum"),
        ({"documents": {"val_size": 0}}, "minimum"),
    ],
)
def test_the_server_refuses_settings_that_do_not_fit(
    deployed: Precis, given: dict[str, Any], why: str
) -> None:
    with client_of(deployed.api) as api:
        deployment = api.get("/deployments/name/train/rehearsal").json()
        body = {"parameters": given}
        answer = api.post(f"/deployments/{deployment['id']}/create_flow_run", json=body)
    assert answer.status_code in (409, 422)
    assert why in answer.text


def test_the_form_shows_each_setting_with_its_type_and_what_it_sends_is_taken(
    deployed: Precis, trained: tuple[Path, dict[str, Any]]
) -> None:
    store, run = trained
    with client_of(deployed.api) as api:
        found = api.get("/deployments/name/train/rehearsal").raise_for_status().json()
        listed = api.post("/flow_runs/filter", json={"limit": 200}).raise_for_status().json()
    fields = found["parameter_openapi_schema"]["properties"]
    types = {name: fields[name].get("type") for name in ("steps", "model", "benchmark")}
    assert types == {"steps": "integer", "model": "string", "benchmark": "boolean"}
    assert (fields["steps"]["minimum"], fields["steps"]["maximum"]) == (1, 2**53)
    assert run["id"] in [one["id"] for one in listed]
    settings = load_ledger(FolderStore(store), "deployed").settings
    assert settings["documents"]["val_size"] == CONFIG["documents"]["val_size"]
    assert settings["retention"]["keep_every"] == found["parameters"]["retention"]["keep_every"]
    assert settings["retention"]["keep_every"] != fields["retention"]["default"]["keep_every"]


@pytest.mark.long  # two runs; test_commands.py trains an agent too
def test_an_agent_of_one_file_is_trained_under_a_name_of_its_own(
    deployed: Precis, tmp_path: Path
) -> None:
    given = ["steps=2", "benchmark=false", f"environment={GAME}", f"store={tmp_path}"]
    states = {}
    for model in ("", "game"):
        named = [*given, f"model={model}"] if model else given
        arguments = [part for one in named for part in ("-p", one)]
        told = deployed.prefect("deployment", "run", "train/rehearsal", *arguments)
        found = re.search(r"UUID: (\S+)", told)
        assert found is not None, told
        with client_of(deployed.api) as api:
            states[model] = reached(api, found[1], "COMPLETED", "FAILED", "CRASHED")["state"]
    assert states[""]["type"] == "FAILED"
    assert "rehearsal-seed1, is one of summaries" in states[""]["message"]
    assert states["game"]["type"] == "COMPLETED", states["game"]
    assert load_ledger(FolderStore(tmp_path), "game").next_step == 2
    assert not (tmp_path / "rehearsal-seed1").exists()


@pytest.mark.long  # a run and its benchmark, to be deleted
def test_a_run_that_is_deleted_leaves_nothing_anywhere(
    deployed: Precis, trained: tuple[Path, dict[str, Any]]
) -> None:
    store, _ = trained
    config = {**CONFIG, "model": "gone", "store": str(store), "steps": 1}
    run = run_deployment(deployed, "train/rehearsal", config)
    assert run["state_type"] == "COMPLETED", run["state"]
    output = deployed.run("runs", "delete", "gone", "--yes", "--store", str(store))
    # Its training, and the benchmark within that.
    assert "gone is deleted, and 2 runs of it in Prefect" in " ".join(output.split())
    with client_of(deployed.api) as api:
        left = [run["parameters"] for run in runs_in(api, str(store))]
        models = [{**given, **(given.get("config") or {})}["model"] for given in left]
        assert len(models) >= 2 and set(models) == {"deployed"}
        artifacts = api.post("/artifacts/filter", json={"limit": 200}).raise_for_status().json()
    keys = [artifact["key"] for artifact in artifacts]
    assert [key for key in keys if key.startswith("deployed-")]
    assert not [key for key in keys if key.startswith("gone-")]
    assert not (store / "gone").exists()
    assert (store / "deployed" / "ledger.json").exists()
    works = [folder.name for folder in (deployed.home / "work").iterdir()]
    assert [name for name in works if name.startswith("deployed-")]
    assert not [name for name in works if name.startswith("gone-")]


@pytest.mark.long  # a run with each of the settings
def test_a_setting_alone_leaves_those_of_the_deployment_as_they_are(
    deployed: Precis, tmp_path: Path
) -> None:
    alone = ["steps=1", "benchmark=false", 'documents={"val_size": 8}', f"store={tmp_path}"]
    together = [f'config={{"steps": 1, "benchmark": false, "model": "b", "store": "{tmp_path}"}}']
    for model, given in (("a", ["model=a", *alone]), ("b", together)):
        arguments = [part for one in given for part in ("-p", one)]
        told = deployed.prefect("deployment", "run", "train/rehearsal", *arguments)
        found = re.search(r"UUID: (\S+)", told)
        assert found is not None, told
        with client_of(deployed.api) as api:
            run = reached(api, found[1], "COMPLETED", "FAILED", "CRASHED")
        assert run["state_type"] == "COMPLETED", run["state"]
        assert run["name"] == f"train {model}: step 1 of 1"
        held_out = 8 if model == "a" else 32
        settings = load_ledger(FolderStore(tmp_path), model).settings
        assert settings["documents"]["source"] == "bundled"
        assert settings["documents"]["train_size"] == 160
        assert settings["documents"]["val_size"] == held_out
        assert settings["retention"]["keep_every"] == 1


@pytest.mark.long  # a run, to be benchmarked twice
def test_a_benchmark_takes_documents_of_its_own_and_warns_of_those_trained_on(
    deployed: Precis, trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    store, _ = trained
    others = write_jsonl(tmp_path / "own.jsonl", rows(3))
    drawn = OtherDocuments(count=12, seed=2)
    learned = load_corpus(DocumentsConfig(**CONFIG["documents"])).train
    known = set(load_others(drawn).validation).intersection(learned)
    assert 0 < len(known) < 12
    warning = f"was trained on {len(known)} of these 12 documents"
    benchmarks = store / "deployed" / "benchmarks"
    report = (benchmarks / "0001" / "report.html").read_bytes()
    for source, warned in (({"source": str(others)}, False), (drawn.model_dump(), True)):
        given: dict[str, Any] = {
            "model": "deployed",
            "store": str(store),
            "test_documents": source,
            "checkpoints": "ends",
            "baselines": [],
        }
        run = run_deployment(deployed, "benchmark/rehearsal", given)
        assert run["state_type"] == "COMPLETED", run["state"]
        with client_of(deployed.api) as api:
            said = " ".join(logs_of(api, run["id"], last="Finished in state Completed"))
        assert (warning in said) is warned
    measured = scan_results(FolderStore(store), "deployed").collect()
    counts = measured.group_by("corpus_digest").agg(pl.col("scenario_id").n_unique())
    # And the four that were held out from training, whose report stays as it was.
    assert sorted(counts["scenario_id"].to_list()) == [3, 4, 12]
    for digest, documents in counts.rows():
        folder = benchmarks / (f"0001-{digest[:8]}" if documents != 4 else "0001")
        assert (folder / "report.html").exists()
    assert (benchmarks / "0001" / "report.html").read_bytes() == report


def test_a_benchmark_of_a_model_that_is_not_there_fails_at_once(
    deployed: Precis, tmp_path: Path
) -> None:
    given = {"model": "nobody", "store": str(tmp_path)}
    run = run_deployment(deployed, "benchmark/nightly", given)
    assert run["state_type"] == "FAILED"
    assert "holds no run 'nobody'. See `precis runs list`" in run["state"]["message"]
    with client_of(deployed.api) as api:
        tasks = tasks_of(api, run["id"], until=_one_has_failed)
    assert [task["run_count"] for task in tasks] == [1]


def test_an_error_that_the_server_logs_from_the_background_is_not_its_end(
    deployed: Precis,
) -> None:
    """As it does when SQLite is locked for long."""
    event = {
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": "precis.test",
        "resource": {"prefect.resource.id": "precis.test"},
    }
    data = deployed.home / "prefect"
    with closing(sqlite3.connect(data / "prefect.db", timeout=60)) as database:
        database.execute("ALTER TABLE events RENAME TO elsewhere")
        try:
            with client_of(deployed.api) as api:
                api.post("/events", json=[event]).raise_for_status()
            log = data / "server.log"
            wait_until(lambda: "no such table: events" in log.read_text(), "the server's error")
        finally:
            database.execute("ALTER TABLE elsewhere RENAME TO events")
    with client_of(deployed.api) as api:
        assert api.get("/health").is_success


def _one_has_failed(tasks: list[dict[str, Any]]) -> bool:
    return any(task["state_type"] == "FAILED" for task in tasks)


def _children_of(precis: Precis) -> list[str]:
    """Trainers and stand-ins that work in this home."""
    modules = {"precis.trainer.server", "precis.rehearsal.judges.serve"}
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = modules & set(process.cmdline())
            if is_ours and process.environ().get("PRECIS_HOME") == str(precis.home):
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found
