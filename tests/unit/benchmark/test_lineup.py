"""What takes part in a benchmark, on which documents, by which settings, and with which warning."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from precis.benchmark import report
from precis.benchmark.contender import ContenderSpec, hosted_contender, local_contender
from precis.benchmark.lineup import TrainedLineup, line_up_trained, turns
from precis.benchmark.measure import Measured, with_settings_of_its_run
from precis.benchmark.run import compare, words_of
from precis.config import BenchmarkConfig, ContenderConfig, OtherDocuments, TrainConfig
from precis.errors import ConfigError, DocumentsError, UnusableRun
from precis.records.documents import Corpus, load_corpus, load_others
from precis.records.ledger import Ledger, Origin, ledger_key, write_ledger
from precis.records.nouns import Figure
from precis.records.results import COMPARABLE, SCHEMA, write_results
from precis.report.nights import Comparison
from precis.runs.trained_on import keep_trained_on, trained_on
from precis.statistics.standings import Contender
from precis.store import FolderStore
from tests.support import results
from tests.support.corpora import corpus, rows, source, write_jsonl
from tests.support.environments import summaries
from tests.support.ledgers import EMPTY, validation
from tests.support.runs import make_run

HELD_OUT = corpus()


@pytest.fixture
def trained(store: FolderStore) -> FolderStore:
    """With the run `m` of three steps, trained on the benchmark's corpus."""
    ledger = make_run(store, "m", 3).model_copy(update={"corpus": HELD_OUT.digest})
    store.put(ledger_key("m"), ledger.model_dump_json().encode())
    return store


def line_up(
    store: FolderStore, corpus: Corpus = HELD_OUT, **settings: Any
) -> tuple[tuple[int, ...], int | None, list[str]]:
    """The steps that take part, how many documents were seen, and the warnings."""
    warnings: list[str] = []
    config = BenchmarkConfig.model_validate({"model": "m", **settings})
    found = line_up_trained(store, config, summaries(corpus, judge=None), warnings.append)
    assert found is not None
    return found.steps, found.seen, warnings


def test_a_model_of_other_documents_has_no_benchmark_but_its_own(trained: FolderStore) -> None:
    with pytest.raises(ConfigError, match="trained on other documents"):
        line_up(trained, corpus(seed=2))
    _, seen, (warning,) = line_up(trained, corpus(seed=2), test_documents={"source": "own.csv"})
    assert seen is None
    assert "does not say which documents 'm' was trained on" in warning
    config = BenchmarkConfig(model="nobody", checkpoints="none")
    assert line_up_trained(trained, config, summaries(HELD_OUT, judge=None), print) is None


def test_documents_that_were_trained_on_are_counted_and_told(trained: FolderStore) -> None:
    ledger = make_run(FolderStore(trained.root.parent / "other"), "m", 2)
    keep_trained_on(trained, ledger, [one.text for one in HELD_OUT.validation])
    _, seen, (warning,) = line_up(trained)
    assert seen == 2
    assert "trained on 2 of these 2 documents" in warning
    behind = ledger.model_copy(update={"corpus": HELD_OUT.digest})
    trained.put(ledger_key("m"), behind.model_dump_json().encode())
    assert line_up(trained, checkpoints="last")[0] == (2,), "no ledger knows the third"


@pytest.mark.parametrize(
    ("chosen", "steps"),
    [
        ({"checkpoints": "ends"}, (0, 3)),
        ({"checkpoints": "last"}, (3,)),
        ({"checkpoints": "every", "every": 1}, (0, 1, 2, 3)),
        ({"checkpoints": "every", "every": 2}, (0, 2, 3)),
    ],
)
def test_every_nth_checkpoint_takes_part_beside_the_first_and_the_last(
    trained: FolderStore, chosen: dict[str, Any], steps: tuple[int, ...]
) -> None:
    assert line_up(trained, **chosen)[0] == steps


@pytest.mark.parametrize(
    ("own", "seen", "said"),
    [
        (True, 0, "2 of own.csv, none of them trained on"),
        (True, 1, "2 of own.csv, 1 of them trained on"),
        (True, None, "2 of own.csv; whether the model was trained on them is not known"),
        (False, 0, "2 held out"),
        (False, None, "2 held out"),
    ],
)
def test_the_report_says_how_many_were_trained_on(own: bool, seen: int | None, said: str) -> None:
    given = {"test_documents": {"source": "own.csv"}} if own else {}
    run: Any = SimpleNamespace(
        name="m",
        config=BenchmarkConfig.model_validate({"model": "m", **given}),
        environment=summaries(HELD_OUT, judge=None),
    )
    ledger = EMPTY.add_validation(validation(0)).add_validation(validation(1, 0.7))
    trained = TrainedLineup(ledger.model_copy(update={"stopped_early": 2}), (0, 1), seen)
    measured: Any = SimpleNamespace(figure=Figure("accuracy", "correct", "asked"))
    caveat = words_of(run, measured, trained).caveat
    assert ("best of 2 validations on these" in caveat) is not own, "others did not choose it"
    assert report.count_scenarios(run, trained) == said
    folder = f"m/benchmarks/0000-{HELD_OUT.digest[:8]}/" if own else "m/benchmarks/0000/"
    assert report.report_folder(run, trained) == folder, "documents of its own"


def test_what_one_process_serves_is_measured_in_turn_and_the_hosted_at_once() -> None:
    def local(name: str, url: str) -> ContenderSpec:
        return local_contender(Contender(name), name, url, "key", in_flight=1)

    asked = ContenderConfig(model="x", provider="url", base_url="http://far.example/v1")
    hosted = hosted_contender(asked, {"CONTENDER_API_KEY": "key"})
    first = local("lead-350", "http://127.0.0.1:1/v1")
    second = local("centroid", "http://127.0.0.1:1/v1")
    trained = local("trained", "http://127.0.0.1:2/v1")
    found = list(turns([first, hosted, second, trained, hosted]))
    assert found == [[hosted], [hosted], [first, second], [trained]]


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


def test_a_night_by_other_rules_or_a_damaged_one_is_not_compared(store: FolderStore) -> None:
    def night(number: int, **origin: Any) -> pl.DataFrame:
        known: dict[str, Any] = {**dict.fromkeys(COMPARABLE, "same"), **origin}
        verdicts = {"d1": [number > 3, True], "d2": [True, True]}
        return results.rows("m", verdicts, run=str(number), **known)

    folder = store.root / "m" / "results"
    folder.mkdir(parents=True)
    for number, origin in enumerate([{}, {}, {"corpus_digest": "own"}, {"judge": "another"}, {}]):
        write_results(night(number, **origin), folder / f"{number}.parquet")
    run: Any = SimpleNamespace(store=store, name="m", id="4")
    run.environment = summaries(corpus(), judge=None)
    run.config = BenchmarkConfig(compare_nights=1)
    nothing = SCHEMA.to_frame()
    measured = Measured(night(4), nothing, nothing, None, Figure("accuracy", ""))
    found = compare(run, measured)
    assert found.before is not None and found.before["run"].unique().to_list() == ["1"]
    assert (found.nights, [each.difference.documents for each in found.changes]) == (1, [2])
    others = Measured(night(4, judge="a third"), nothing, nothing, None, Figure("accuracy", ""))
    assert compare(run, others) == Comparison()
    (folder / "3.parquet").write_bytes(b"not parquet")
    assert f"{folder}/3.parquet can't be read" in compare(run, measured).verdict
    run.id = "5"
    run.config = BenchmarkConfig(compare_nights=0)
    assert compare(run, measured) == Comparison()


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
    alone = BenchmarkConfig(model="m", checkpoints="none")
    assert with_settings_of_its_run(alone, store).documents == found.documents
    for own in ({"model": "nobody"}, {"environment": "agent.py"}, {"documents": {"seed": 2}}):
        of_none = BenchmarkConfig.model_validate({"model": "m", "checkpoints": "none", **own})
        assert with_settings_of_its_run(of_none, store) is of_none


def test_a_model_that_is_not_there_is_told_of_those_that_are(store: FolderStore) -> None:
    with pytest.raises(UnusableRun, match="holds no run 'rehearsal'"):
        with_settings_of_its_run(BenchmarkConfig(model="rehearsal"), store)
    old = ledger("m")
    write_ledger(store, old.under({**old.settings, "documents": {"gone": 1}}), None)
    with pytest.raises(ConfigError, match=r"documents\.gone"):
        with_settings_of_its_run(BenchmarkConfig(model="m"), store)
    store.delete("m/")
    write_ledger(store, ledger("rehearsal-seed2"), None)
    store.put("damaged/ledger.json", b"{")
    with pytest.raises(UnusableRun, match=r"`store` .* there: damaged, rehearsal-seed2\.$"):
        with_settings_of_its_run(BenchmarkConfig(model="rehearsal"), store)
    with pytest.raises(UnusableRun, match="If it is damaged, `precis runs repair damaged --store "):
        with_settings_of_its_run(BenchmarkConfig(model="damaged"), store)
