"""A run that begins by imitation of a teacher, or of a file.

tests/unit/training has those that imitate the best of several, and has them killed.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from precis.config import DocumentsConfig
from precis.environments.summaries.baselines import baselines, lead
from precis.llm.server import ChatRequest, Completion, completions_app
from precis.records.documents import load_corpus
from precis.records.ledger import load_ledger
from precis.store import FolderStore
from tests.services.conftest import Precis
from tests.services.forked import trained
from tests.support.local_server import served


def settings(store: Path, model: str, **warm_start: Any) -> dict[str, Any]:
    return {
        "model": model,
        "steps": 1,
        "benchmark": False,
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 12, "val_size": 3},
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
        "warm_start": {"measured_documents": 2, **warm_start},
    }


@contextmanager
def teaching() -> Iterator[tuple[dict[str, Any], list[ChatRequest]]]:
    """A teacher's settings, and all that it is asked within the block; it is dear."""
    asked: list[ChatRequest] = []

    async def complete(request: ChatRequest) -> Completion:
        asked.append(request)
        return await baselines()["lead-350"](request)

    with served(completions_app(complete, lambda: ["t"], "a-key")) as url:
        address = {"model": "t", "provider": "url", "base_url": f"{url}/v1"}
        yield {**address, "prices": [1e3, 1e3]}, asked


def taught(precis: Precis) -> dict[str, str]:
    """The environment of a run that has the teacher's key."""
    return {
        **precis.environment,
        "PREFECT_API_URL": precis.api,
        "CONTENDER_API_KEY": "a-key",
    }


def test_a_teacher_is_paid_once_for_all_runs_of_a_store(precis: Precis, tmp_path: Path) -> None:
    ledgers = []
    with teaching() as (teacher, asked):
        for seed, model in enumerate(("first", "second")):
            config = settings(
                tmp_path / "store", model, source="teacher", documents=5, teacher=teacher
            )
            status, said = trained({**config, "seed": seed}, taught(precis), tmp_path)
            assert status == 0, said
            assert "The teacher t will be asked for 5 summaries, about $" in said
            assert "a-key" not in said
            ledgers.append(load_ledger(FolderStore(tmp_path / "store"), model))
    assert len(asked) == 5
    first, second = (ledger.steps[0].warm_start for ledger in ledgers)
    assert first is not None
    assert second is not None
    assert (first.source, first.summaries, second.summaries) == ("teacher", 5, 5)
    assert first.usd == ledgers[0].usd > 0
    assert second.usd == ledgers[1].usd == 0


def test_a_run_that_has_spent_its_budget_keeps_what_the_teacher_wrote(
    precis: Precis, tmp_path: Path
) -> None:
    with teaching() as (teacher, asked):
        config = settings(tmp_path / "store", "m", source="teacher", documents=5, teacher=teacher)
        status, said = trained({**config, "budget_usd": 4.0}, taught(precis), tmp_path)
        assert status == 1
        assert "Raise budget_usd and start the run again to continue" in said
        paid = len(asked)
        assert 0 < paid < 5
        assert 0 < load_ledger(FolderStore(tmp_path / "store"), "m").usd <= 4.0
        status, said = trained({**config, "budget_usd": 400.0}, taught(precis), tmp_path)
        assert status == 0, said
    assert len(asked) == 5
    ledger = load_ledger(FolderStore(tmp_path / "store"), "m")
    made = ledger.steps[0].warm_start
    assert made is not None
    assert made.usd == pytest.approx(ledger.usd)


def test_a_file_of_summaries_needs_no_judge_to_begin_with(precis: Precis, tmp_path: Path) -> None:
    corpus = load_corpus(DocumentsConfig(source="bundled", train_size=12, val_size=3))
    rows = []
    for document in (*corpus.train[:4], *corpus.validation[:1]):
        rows.append({"document_id": document.id, "summary": lead(document.text, 100)})
    file = tmp_path / "summaries.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    environment = {**precis.environment, "PREFECT_API_URL": precis.api}
    config = settings(tmp_path / "store", "m", source="file", file=str(file))
    status, said = trained(config, environment, tmp_path)
    assert status == 0, said
    made = load_ledger(FolderStore(tmp_path / "store"), "m").steps[0].warm_start
    assert made is not None
    assert (made.source, made.documents, made.summaries) == ("file", 4, 4)
    assert made.left_out == {"held_out": 1}
    assert made.reward is None
