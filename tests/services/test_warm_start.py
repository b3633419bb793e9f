"""A run that begins by imitation: what comes of it, and that it may die anywhere in it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from precis.config import DocumentsConfig
from precis.environments.summaries.baselines import baselines, lead
from precis.llm.server import ChatRequest, Completion, completions_app
from precis.records.documents import load_corpus
from precis.records.ledger import load_ledger
from precis.records.trajectories import trajectories_key
from precis.run.checkpoints import manifest
from precis.store import FolderStore
from tests.services.conftest import Precis
from tests.services.crash_points import INTERRUPTED, VICTIMS, WARM_POINTS, Kill, Kills, Role
from tests.services.forked import trained
from tests.services.lives import Life, first_life, nobody
from tests.services.s3_server import s3_server
from tests.support.local_server import served

DOCUMENTS = 20
"""More than one batch (`precis.training.warm_start.BATCH`)."""
WARM: Any = {
    "documents": {"source": "bundled", "train_size": 26, "val_size": 3},
    "warm_start": {"documents": DOCUMENTS, "samples": 3, "measured_documents": 3},
    "retention": {"keep_last": 3, "keep_every": 0, "keep_best": 0},
}
SHORT = [
    Kill("first summaries kept", ("flow", "trainer"), step=0),
    Kill("training begun", ("trainer",), step=0),
    Kill("weights saved", ("flow",), step=0),
]
"""What `make test` has of the matrix."""
PASSED_BY = {"answer sent", "pointer moved"}
"""Points that a run does not get to which was killed at the point before."""


@pytest.fixture(scope="module")
def first(precis: Precis) -> Iterator[Life]:
    with s3_server() as url, first_life(precis, url) as life:
        yield replace(life, name="warm", more=WARM)


@pytest.fixture(scope="module")
def undisturbed(first: Life, tmp_path_factory: pytest.TempPathFactory) -> Any:
    assert first.live(nobody(tmp_path_factory.mktemp("ids"))) == 0
    assert set(first.trainings.values()) == {1}
    return outcome(first)


def collected(life: Life) -> Any:
    """What the store keeps of the warm start."""
    blob = life.store.get("crash/warm-start.json")
    assert blob is not None
    return json.loads(blob.data)["demonstrations"]


def outcome(life: Life) -> Any:
    """Like a life's, and what was imitated, and what became of the groups."""
    variances = [one.model_dump(exclude={"seconds"}) for one in life.ledger.variances]
    return life.outcome, collected(life), variances


def test_a_warm_start_is_step_0_and_the_ledger_says_how_it_was_made(
    first: Life, undisturbed: Any
) -> None:
    ledger = first.ledger
    warm, reinforced = ledger.steps
    assert warm.warm_start is not None
    assert warm.warm_start.source == "best_of_n"
    assert warm.warm_start.documents == DOCUMENTS
    assert warm.warm_start.summaries + sum(warm.warm_start.left_out.values()) == DOCUMENTS
    assert warm.warm_start.reward is not None
    assert warm.warm_start.reward > warm.reward, "the best of three are no better than all"
    assert warm.groups_trained == 0
    assert reinforced.warm_start is None
    assert [one.step for one in ledger.variances] == [0, 1]
    assert {one.groups for one in ledger.variances} == {3}
    assert [one.step for one in ledger.validations] == [0, 1, 2]
    checkpoint = manifest(first.store, "crash", 1)
    assert checkpoint is not None
    assert checkpoint.record is not None
    assert checkpoint.record.warm_start == warm.warm_start


def test_no_step_draws_a_document_of_the_warm_start(first: Life, undisturbed: Any) -> None:
    shown = {one["document_id"] for one in collected(first)}
    assert len(shown) == DOCUMENTS
    rollouts = first.store.get(trajectories_key("crash", "train", 1))
    assert rollouts is not None
    drawn = pl.read_parquet(BytesIO(rollouts.data)).write_json()
    assert "scenario_id" in drawn
    assert not [name for name in shown if name in drawn]


def test_a_warm_start_that_is_killed_ends_as_if_it_had_not_been(
    first: Life, undisturbed: Any, tmp_path: Path
) -> None:
    assert_lives_through(first.named("short"), SHORT, undisturbed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
@pytest.mark.parametrize("passed_by", [False, True])
def test_a_warm_start_that_is_killed_at_every_point_ends_as_if_it_had_not_been(
    passed_by: bool, victims: tuple[Role, ...], first: Life, undisturbed: Any, tmp_path: Path
) -> None:
    """At one point after the other, for there is but one warm start to a run."""
    points = [point for point in WARM_POINTS if (point in PASSED_BY) == passed_by]
    kills = [Kill(point, victims, step=0) for point in points]
    run = first.named(f"{'+'.join(victims)}-{passed_by}")
    assert_lives_through(run, kills, undisturbed, tmp_path)


def assert_lives_through(run: Life, kills: list[Kill], undisturbed: Any, folder: Path) -> None:
    run.live_through(Kills(folder, kills))
    assert outcome(run) == undisturbed
    interrupted = sum(kill.point in INTERRUPTED for kill in kills)
    assert [run.trainings["trained", step] for step in range(run.steps)] == [1, 1]
    assert run.trainings["began", 0] <= 1 + interrupted
    assert run.trainings["began", 1] == 1


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
