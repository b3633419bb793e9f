"""The whole pipeline as a user runs it: what it shows, what it keeps, and whom it tells."""

import html
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import polars as pl
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from precis.config import DocumentsConfig
from precis.records.documents import CRUDE, load_corpus, read_documents
from precis.records.ledger import load_ledger
from precis.runs.checkpoints import committed_steps
from precis.store.files import read_files
from precis.store.s3 import S3Store
from tests.services.conftest import Precis
from tests.services.patience import patience_s
from tests.services.prefect_api import client_of, logs_of, runs_in, tasks_of
from tests.services.s3_server import settings_for, variables_for
from tests.support.local_server import served

MODEL = "rehearsal-texts-seed1"
STEPS = 2
TRAINED_ON = 40
HELD_OUT = 8
KEY = "a-key-that-must-not-be-seen"
SECRET = "a-secret-that-must-not-be-seen"
_OF_A_STEP = {
    f"step 1: {done} {MODEL}" for done in ("gather rollouts of", "train", "commit", "log")
}


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal in a bucket with a folder of texts, what it printed, and what OpenPipe was told.

    Attributes:
        asked: how many questions the held-out texts have.
    """

    store: S3Store
    asked: int
    printed: str
    reported: list[dict[str, Any]]


@pytest.fixture(scope="module")
def rehearsed(precis: Precis, s3_url: str, tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    texts = tmp_path_factory.mktemp("rehearsed") / "texts"
    texts.mkdir()
    bundled = read_documents(DocumentsConfig(source="bundled"))
    for place, document in enumerate(bundled[: TRAINED_ON + HELD_OUT]):
        (texts / f"{place}.txt").write_text(document.text)
    reported: list[dict[str, Any]] = []

    async def report(request: Request) -> JSONResponse:
        """OpenPipe's reporting endpoint."""
        assert request.headers["authorization"] == f"Bearer {KEY}"
        reported.append(await request.json())
        return JSONResponse({})

    # Its bucket is made by the run.
    store = S3Store(f"precis-{secrets.token_hex(4)}", "runs/a", settings_for(s3_url))
    with served(Starlette(routes=[Route("/api/v1/report", report, methods=["POST"])])) as url:
        printed = precis.run(
            *("rehearse", f"--documents={texts}", f"--steps={STEPS}", f"--store={store.url}"),
            **{"TRAIN_SIZE": str(TRAINED_ON), "VAL_SIZE": str(HELD_OUT)},
            **{"OPENPIPE_API_KEY": KEY, "OPENPIPE_BASE_URL": f"{url}/api/v1"},
            **variables_for(s3_url, SECRET),
        )
    (corpus,) = (precis.home / "corpora").rglob("texts.parquet")
    sizes = {"train_size": TRAINED_ON, "val_size": HELD_OUT}
    held_out = load_corpus(DocumentsConfig(source=str(corpus), **sizes)).validation
    return Rehearsed(store, sum(len(one.questions) for one in held_out), printed, reported)


def test_it_learns_prints_a_table_and_leaves_a_report(rehearsed: Rehearsed, precis: Precis) -> None:
    store, printed = rehearsed.store, rehearsed.printed
    for expected in (f"trained, step {STEPS}", "the start", "lead-350", "random-350", "centroid"):
        assert expected in printed
    assert f"questions about {TRAINED_ON + HELD_OUT} documents" in printed
    assert f"\nstep {STEPS} of {STEPS}, reward " in printed
    assert "\nStarting the run …\n" in printed, "a log was silent for half a minute"
    assert "a rented GPU needs: docs/first-h100-run.md" in printed
    assert printed.count(CRUDE) == 2, "before the training, and beside the figures"
    for noise in ("Warning", "warning", "Traceback", "INFO", "ERROR", "LiteLLM", SECRET, KEY):
        assert noise not in printed
    assert httpx.get(precis.api + "/health", timeout=patience_s()).is_success
    start, *_, end = load_ledger(store, MODEL).validations
    assert end.score.value > start.score.value + 0.1
    assert committed_steps(store, MODEL) == list(range(STEPS + 1))
    benchmark = f"{MODEL}/benchmarks/{STEPS:04d}"
    assert f"{store.url}/{benchmark}/report.html" in printed
    files = read_files(store, store.keys(f"{benchmark}/"))
    page = files[f"{benchmark}/report.html"].decode()
    assert f"trained, step {STEPS}" in page
    assert CRUDE in html.unescape(page)
    assert 'src="http' not in page and 'href="http' not in page
    for chart in ("learning-curve", "comparison"):
        assert files[f"{benchmark}/{chart}.png"].startswith(b"\x89PNG")
        assert b"<svg" in files[f"{benchmark}/{chart}.svg"]
    rows = pl.read_parquet(files[f"{benchmark}/results.parquet"])
    # Every checkpoint with its start, and four baselines, on each document.
    assert len(rows) == (STEPS + 1 + 4) * HELD_OUT
    assert len(pl.read_parquet(files[f"{benchmark}/questions.parquet"])) == (
        (STEPS + 1 + 4) * rehearsed.asked
    )


def test_each_of_its_completions_is_reported(rehearsed: Rehearsed) -> None:
    told = [one["metadata"] for one in rehearsed.reported]
    validations = len(load_ledger(rehearsed.store, MODEL).validations)
    assert Counter(one["split"] for one in told) == {
        "train": STEPS * 5 * 8,
        "validation": validations * HELD_OUT,
        "benchmark": (STEPS + 1 + 4) * HELD_OUT,
    }
    assert len({one["id"] for one in told}) == len(told)
    trained = next(one for one in rehearsed.reported if one["metadata"]["split"] == "train")
    assert trained["reqPayload"]["model"] == f"{MODEL}@0"
    assert 0 <= float(trained["metadata"]["score.reward"]) <= 1


def test_prefect_shows_the_run_its_steps_and_reports(rehearsed: Rehearsed, precis: Precis) -> None:
    with client_of(precis.api) as api:
        runs = runs_in(api, rehearsed.store.url)
        assert {run["name"]: run["state_type"] for run in runs} == {
            f"train {MODEL}: step {STEPS} of {STEPS}": "COMPLETED",
            f"benchmark {MODEL}": "COMPLETED",
        }
        logged = [line for run in runs for line in logs_of(api, run["id"], "Finished in state")]
        ids = [run["id"] for run in runs]
        tasks_of(api, *ids, until=lambda tasks: {task["name"] for task in tasks} >= _OF_A_STEP)
        artifacts = artifacts_of(api, ids)
    assert sum(line.startswith("Measured ") for line in logged) > 1
    assert not [line for line in logged if SECRET in line or KEY in line]
    for key in (f"{MODEL}-training", f"{MODEL}-benchmark"):
        assert "made by rules" in artifacts[key]["data"]
    progress = artifacts[f"{MODEL}-progress"]
    assert (progress["data"], f"step {STEPS} of {STEPS}" in progress["description"]) == (100, True)
    assert artifacts[f"{MODEL}-training"]["data"].count("](data:image/png;base64,") == 3
    assert "](data:image/png;base64," in artifacts[f"{MODEL}-benchmark"]["data"]
    assert "Worst summary of the last step" in artifacts[f"{MODEL}-training"]["data"]


def artifacts_of(api: httpx.Client, runs: Sequence[str]) -> dict[str, Any]:
    of_these = {"flow_runs": {"id": {"any_": runs}}}
    return {one["key"]: one for one in api.post("/artifacts/filter", json=of_these).json()}
