"""A folder of texts, two as long as a novel, comes to a result that says what it is worth."""

import html
from pathlib import Path

import pytest

from precis.config import DocumentsConfig
from precis.records.documents import CRUDE, load_corpus, read_documents
from precis.text import count_words
from tests.services.conftest import Precis
from tests.services.prefect_api import client_of, runs_in

WORDS = 70_000
TRAINED_ON, HELD_OUT = 3, 3
LONG = ("1", "3")


def write_texts(folder: Path) -> None:
    """Texts of the bundled corpus; the long ones have all others behind their own."""
    documents = read_documents(DocumentsConfig(source="bundled"))
    others = "\n\n".join(one.text for one in documents)
    long = others[: len(others) // 2]
    assert count_words(long) > WORDS
    folder.mkdir()
    for place, document in enumerate(documents[: TRAINED_ON + HELD_OUT]):
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
        TRAIN_SIZE=str(TRAINED_ON),
        VAL_SIZE=str(HELD_OUT),
    )
    assert_one_is_long_on_either_side(precis)
    assert "training: step " in output and "benchmarking: step 1 of 1" in output
    assert "trains an agent of your own: docs/agents.md" in output
    assert f"questions about {TRAINED_ON + HELD_OUT} documents" in output
    assert "trained, step 1" in output
    assert "Traceback" not in output
    assert output.count(CRUDE) == 2, "before the training, and beside the figures"
    page = next(store.rglob("report.html")).read_text()
    assert CRUDE in html.unescape(page)
    with client_of(precis.api) as api:
        ids = [run["id"] for run in runs_in(api, str(store))]
        of_these = {"flow_runs": {"id": {"any_": ids}}}
        artifacts = {a["key"]: a for a in api.post("/artifacts/filter", json=of_these).json()}
    for key in ("rehearsal-texts-seed1-training", "rehearsal-texts-seed1-benchmark"):
        assert "made by rules" in artifacts[key]["data"]


def assert_one_is_long_on_either_side(precis: Precis) -> None:
    (corpus,) = (precis.home / "corpora").rglob("texts.parquet")
    sizes = {"train_size": TRAINED_ON, "val_size": HELD_OUT}
    found = load_corpus(DocumentsConfig(source=str(corpus), **sizes))
    for side in (found.train, found.validation):
        assert sum(count_words(one.text) > WORDS for one in side) == 1
