"""Which checkpoints of the trained model take part in a benchmark, and with which warning."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precis.benchmark import report
from precis.benchmark.contender import ContenderSpec, hosted_contender, local_contender
from precis.benchmark.lineup import TrainedLineup, checkpoint_digest, line_up_trained, turns
from precis.config import BenchmarkConfig, ContenderConfig
from precis.errors import ConfigError, StoreError
from precis.records.documents import Corpus
from precis.records.ledger import Ledger, ledger_key
from precis.run.trained_on import keep_trained_on
from precis.statistics.standings import Contender
from precis.store import FolderStore
from tests.support.corpora import corpus
from tests.support.environments import summaries
from tests.support.runs import make_run

HELD_OUT = corpus()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """With the run `m` of three steps, trained on the benchmark's corpus."""
    store = FolderStore(tmp_path / "store")
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


def test_a_model_of_other_documents_is_refused_but_for_documents_of_the_benchmarks_own(
    store: FolderStore,
) -> None:
    with pytest.raises(ConfigError, match="trained on other documents"):
        line_up(store, corpus(seed=2))
    _, seen, (warning,) = line_up(store, corpus(seed=2), test_documents={"source": "own.csv"})
    assert seen is None
    assert "does not say which documents 'm' was trained on" in warning
    config = BenchmarkConfig(model="nobody", checkpoints="none")
    assert line_up_trained(store, config, summaries(HELD_OUT, judge=None), print) is None


def test_documents_that_were_trained_on_are_counted_and_told(store: FolderStore) -> None:
    ledger = make_run(FolderStore(store.root.parent / "other"), "m", 2)
    keep_trained_on(store, ledger, [one.text for one in HELD_OUT.validation])
    _, seen, (warning,) = line_up(store)
    assert seen == 2
    assert "trained on 2 of these 2 documents" in warning
    behind = ledger.model_copy(update={"corpus": HELD_OUT.digest})
    store.put(ledger_key("m"), behind.model_dump_json().encode())
    assert line_up(store, checkpoints="last")[0] == (2,), "no ledger knows the third"


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
def test_the_report_says_how_many_of_its_documents_were_trained_on(
    own: bool, seen: int | None, said: str
) -> None:
    given = {"test_documents": {"source": "own.csv"}} if own else {}
    run: Any = SimpleNamespace(
        config=BenchmarkConfig.model_validate({"model": "m", **given}),
        environment=summaries(HELD_OUT, judge=None),
    )
    trained = TrainedLineup(Ledger(model="m", config="c", corpus="k"), (1,), seen)
    assert report.count_scenarios(run, trained) == said


def test_a_checkpoints_digest_follows_from_its_files(store: FolderStore) -> None:
    digests = {checkpoint_digest(store, "m", step) for step in (1, 2)}
    assert len(digests) == 2
    with pytest.raises(StoreError, match="holds no checkpoint 9"):
        checkpoint_digest(store, "m", 9)


def test_what_one_process_serves_is_measured_in_turn_and_the_hosted_at_once() -> None:
    def local(name: str, url: str) -> ContenderSpec:
        return local_contender(Contender(name), name, url, "key", in_flight=1)

    asked = ContenderConfig(model="x", provider="url", base_url="http://far.example/v1")
    hosted = hosted_contender(asked, {"CONTENDER_API_KEY": "key"})
    first = local("lead-350", "http://127.0.0.1:1/v1")
    second = local("centroid", "http://127.0.0.1:1/v1")
    trained = local("trained", "http://127.0.0.1:2/v1")
    assert list(turns([first, hosted, second, trained, hosted])) == [
        [hosted],
        [hosted],
        [first, second],
        [trained],
    ]
