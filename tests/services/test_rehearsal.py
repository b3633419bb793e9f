"""The whole pipeline as a user runs it: what it shows, and what it keeps; of the bundled corpus,
and of a folder of texts, two as long as a novel."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from precis.config import DocumentsConfig
from precis.records.documents import CRUDE, load_corpus, read_documents
from precis.records.ledger import Ledger
from precis.text import count_words
from tests.services.conftest import Precis
from tests.services.patience import patience_s
from tests.services.prefect_api import client_of, logs_of, runs_in, tasks_of

STEPS = 2
HELD_OUT = 8
WORDS = 70_000
TEXTS = 3
"""On either side: to train on, and held out."""
LONG = ("1", "3")
_OF_A_STEP = {
    "step 1: gather rollouts of rehearsal-seed1",
    "step 1: train rehearsal-seed1",
    "step 1: commit rehearsal-seed1",
    "step 1: log rehearsal-seed1",
}


def folder(store: Path) -> Path:
    return store / "rehearsal-seed1"


def artifacts_of(api: httpx.Client, runs: Sequence[str]) -> dict[str, Any]:
    of_these = {"flow_runs": {"id": {"any_": runs}}}
    return {one["key"]: one for one in api.post("/artifacts/filter", json=of_these).json()}


@pytest.fixture(scope="module")
def undisturbed(precis: Precis, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    store = tmp_path_factory.mktemp("undisturbed")
    sizes = {"TRAIN_SIZE": "40", "VAL_SIZE": str(HELD_OUT)}
    return store, precis.run("rehearse", f"--steps={STEPS}", f"--store={store}", **sizes)


def test_it_prints_a_table_and_where_to_look_and_nothing_else(
    undisturbed: tuple[Path, str], precis: Precis
) -> None:
    _, output = undisturbed
    for expected in (
        f"trained, step {STEPS}",
        "the start",
        "lead-350",
        "random-350",
        "centroid",
    ):
        assert expected in output
    for noise in ("Warning", "warning", "Traceback", "INFO", "ERROR", "LiteLLM"):
        assert noise not in output
    assert httpx.get(precis.api + "/health", timeout=patience_s()).is_success


def test_it_leaves_a_report_that_stands_alone(undisturbed: tuple[Path, str]) -> None:
    store, output = undisturbed
    benchmark = folder(store) / "benchmarks" / f"{STEPS:04d}"
    assert f"{benchmark}/report.html" in output
    page = (benchmark / "report.html").read_text()
    assert f"trained, step {STEPS}" in page
    assert 'src="http' not in page and 'href="http' not in page
    for chart in ("learning-curve", "comparison"):
        assert (benchmark / f"{chart}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (benchmark / f"{chart}.svg").read_text()
    rows = pl.read_parquet(benchmark / "results.parquet")
    # Every checkpoint with its start, and four baselines, on each document.
    assert len(rows) == (STEPS + 1 + 4) * HELD_OUT
    assert len(pl.read_parquet(benchmark / "questions.parquet")) == 5 * len(rows)


def test_the_policy_learns(undisturbed: tuple[Path, str]) -> None:
    ledger = (folder(undisturbed[0]) / "ledger.json").read_text()
    start, *_, end = Ledger.model_validate_json(ledger).validations
    assert end.score.value > start.score.value + 0.1


def test_prefect_shows_the_run_its_steps_and_its_reports(
    undisturbed: tuple[Path, str], precis: Precis
) -> None:
    with client_of(precis.api) as api:
        runs = runs_in(api, str(undisturbed[0]))
        states = {run["name"]: run["state_type"] for run in runs}
        [benchmark] = [run["id"] for run in runs if run["name"] == "benchmark rehearsal-seed1"]
        logged = logs_of(api, benchmark, "writing the report")
        assert sum(line.startswith("Measured ") for line in logged) > 1
        assert states[f"train rehearsal-seed1: step {STEPS} of {STEPS}"] == "COMPLETED"
        assert states["benchmark rehearsal-seed1"] == "COMPLETED"
        ids = [run["id"] for run in runs]
        tasks_of(api, *ids, until=lambda tasks: {task["name"] for task in tasks} >= _OF_A_STEP)
        artifacts = artifacts_of(api, ids)
    assert artifacts["rehearsal-seed1-progress"]["data"] == 100
    assert f"step {STEPS} of {STEPS}" in artifacts["rehearsal-seed1-progress"]["description"]
    assert artifacts["rehearsal-seed1-training"]["data"].count("](data:image/png;base64,") == 3
    for key in ("rehearsal-seed1-training", "rehearsal-seed1-benchmark"):
        assert "](data:image/png;base64," in artifacts[key]["data"]
    assert "Worst summary of the last step" in artifacts["rehearsal-seed1-training"]["data"]


def write_texts(folder: Path) -> None:
    """Texts of the bundled corpus; the long ones have all others behind their own."""
    documents = read_documents(DocumentsConfig(source="bundled"))
    others = "\n\n".join(one.text for one in documents)
    long = others[: len(others) // 2]
    assert count_words(long) > WORDS
    folder.mkdir()
    for place, document in enumerate(documents[: 2 * TEXTS]):
        text = f"{document.text}\n\n{long}" if str(place) in LONG else document.text
        (folder / f"{place}.txt").write_text(text)


@pytest.mark.long  # a rehearsal, with texts that take a minute of a core
def test_a_folder_of_long_texts_comes_to_a_result_that_says_its_questions_are_crude(
    precis: Precis, tmp_path: Path
) -> None:
    texts = tmp_path / "texts"
    write_texts(texts)
    store = tmp_path / "store"
    output = precis.run(
        *("rehearse", "--documents", str(texts), "--steps=1", f"--store={store}"),
        TRAIN_SIZE=str(TEXTS),
        VAL_SIZE=str(TEXTS),
    )
    (corpus,) = (precis.home / "corpora").rglob("texts.parquet")
    sizes = {"train_size": TEXTS, "val_size": TEXTS}
    found = load_corpus(DocumentsConfig(source=str(corpus), **sizes))
    for side in (found.train, found.validation):
        assert sum(count_words(one.text) > WORDS for one in side) == 1
    assert "training: step " in output and "benchmarking: step 1 of 1" in output
    assert "trains an agent of your own: docs/agents.md" in output
    assert f"questions about {2 * TEXTS} documents" in output
    assert "trained, step 1" in output
    assert "Traceback" not in output
    assert output.count(CRUDE) == 2, "before the training, and beside the figures"
    page = next(store.rglob("report.html")).read_text()
    assert CRUDE in html.unescape(page)
    with client_of(precis.api) as api:
        artifacts = artifacts_of(api, [run["id"] for run in runs_in(api, str(store))])
    for key in ("rehearsal-texts-seed1-training", "rehearsal-texts-seed1-benchmark"):
        assert "made by rules" in artifacts[key]["data"]
