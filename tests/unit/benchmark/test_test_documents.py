"""A benchmark on documents of its own, and the settings that it takes from the model's run."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from precis.benchmark.measure import Measured, with_settings_of_its_run
from precis.benchmark.run import Comparison, compare
from precis.config import BenchmarkConfig, OtherDocuments, TrainConfig
from precis.errors import ConfigError, DocumentsError, UnusableRun
from precis.records.documents import load_corpus, load_others
from precis.records.ledger import Ledger, Origin, write_ledger
from precis.records.nouns import Figure
from precis.records.results import SCHEMA, write_results
from precis.report.nights import COMPARABLE
from precis.run.trained_on import keep_trained_on, trained_on
from precis.store import FolderStore
from tests.support import results
from tests.support.corpora import corpus, rows, source, write_jsonl


def ledger(model: str = "m", **settings: Any) -> Ledger:
    config = TrainConfig(model=model, store="s", **settings)
    return Ledger(model=model, config="c", corpus="k").under(config.model_dump(mode="json"))


def test_all_documents_are_taken_or_some_that_the_seed_draws(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "own.jsonl", rows(12))
    found = load_others(OtherDocuments(source=str(path)))
    assert (len(found.train), len(found.validation)) == (0, 12)
    assert found.digest != load_corpus(source(path, train_size=10, val_size=2)).digest
    first, again, other = (
        load_others(OtherDocuments(source=str(path), count=5, seed=seed)) for seed in (1, 1, 2)
    )
    assert first == again != other and len(first.validation) == 5
    with pytest.raises(
        DocumentsError, match=r"12 documents, but test_documents\.count asks for 13"
    ):
        load_others(OtherDocuments(source=str(path), count=13))


def test_a_night_on_other_documents_or_by_another_judge_is_not_compared(store: FolderStore) -> None:
    def night(number: int, **origin: Any) -> pl.DataFrame:
        known: dict[str, Any] = dict.fromkeys(COMPARABLE, "same")
        began = datetime(2026, 11, number, tzinfo=UTC)
        verdicts = {"d1": [number > 3, True], "d2": [True, True]}
        return results.rows("m", verdicts, run=str(number), night=began, **{**known, **origin})

    folder = store.root / "m" / "results"
    folder.mkdir(parents=True)
    earlier = [night(1), night(2, corpus_digest="own"), night(3, judge="another")]
    for number, frame in enumerate(earlier, start=1):
        write_results(frame, folder / f"{number}.parquet")
    config = BenchmarkConfig(compare_nights=5)
    run: Any = SimpleNamespace(store=store, name="m", id=SimpleNamespace(id="4"), config=config)
    nothing = SCHEMA.to_frame()
    found = compare(run, Measured(night(4), nothing, nothing, None, Figure("accuracy", "", "")))
    assert found.before is not None and found.before["run"].unique().to_list() == ["1"]
    assert (found.nights, [each.difference.documents for each in found.changes]) == (1, [2])
    others = Measured(night(4, judge="a third"), nothing, nothing, None, Figure("accuracy", ""))
    assert compare(run, others) == Comparison(None, 0, ())


def test_what_a_run_was_begun_with_was_trained_on_as_well(store: FolderStore) -> None:
    known = corpus()
    before, after = ([one.text for one in part] for part in (known.train, known.validation))
    keep_trained_on(store, ledger(), before)
    origin = Origin(model="m", step=3, store=store.url, files="f" * 64, corpus="k")
    keep_trained_on(store, ledger("n").begin_from(origin), after)
    assert trained_on(store, "n", before) == [True] * len(before)
    store.put("n/trained-on.json", b"{")
    assert trained_on(store, "n", before) is None, "it is damaged"
    keep_trained_on(store, ledger("n"), after)
    assert trained_on(store, "n", after) == [True] * len(after)


def test_settings_that_are_not_given_are_those_of_the_run(store: FolderStore) -> None:
    run = ledger(seed=7, documents={"source": "a.csv", "train_size": 9, "val_size": 3})
    write_ledger(store, run, None)
    given = BenchmarkConfig.model_validate(
        {"model": "m", "store": "t", "rollouts": {"in_flight": 2}, "every": 5}
    )
    found = with_settings_of_its_run(given, store)
    assert (found.seed, found.store, found.every) == (7, "t", 5)
    assert found.documents == TrainConfig.model_validate(run.settings).documents
    assert found.rollouts.in_flight == 2
    own = given.model_copy(update={"checkpoints": "none", "model": "nobody"})
    assert with_settings_of_its_run(own, store) is own


def test_a_model_that_is_not_there_is_told_of_those_that_are(store: FolderStore) -> None:
    with pytest.raises(UnusableRun, match="holds no run 'rehearsal'"):
        with_settings_of_its_run(BenchmarkConfig(model="rehearsal"), store)
    old = ledger("m")
    write_ledger(store, old.under({**old.settings, "documents": {"gone": 1}}), None)
    with pytest.raises(ConfigError, match=r"documents\.gone"):
        with_settings_of_its_run(BenchmarkConfig(model="m"), store)
    store.delete("m/")
    write_ledger(store, ledger("rehearsal-seed2"), None)
    with pytest.raises(UnusableRun, match="one of those that are there: rehearsal-seed2"):
        with_settings_of_its_run(BenchmarkConfig(model="rehearsal"), store)
