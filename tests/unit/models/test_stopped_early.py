"""The model of a run that stopped early is its best checkpoint, wherever one is asked for."""

from pathlib import Path

import pytest

from precis.benchmark.lineup import line_up_trained
from precis.config import BenchmarkConfig
from precis.models.reference import Reference, find_model
from precis.records.ledger import ledger_key, load_ledger, write_ledger
from precis.store import FolderStore
from tests.support.corpora import corpus
from tests.support.environments import summaries
from tests.support.tiny_model import put_run, write_adapter


def store_with(tmp_path: Path, stopped_early: int | None) -> FolderStore:
    """A run of two steps whose best checkpoint is step 1."""
    store = FolderStore(tmp_path / "store")
    write_adapter(tmp_path / "adapter")
    put_run(store, "mine", tmp_path / "adapter")
    present = store.get(ledger_key("mine"))
    assert present is not None
    changes = {"stopped_early": stopped_early, "corpus": corpus().digest}
    ledger = load_ledger(store, "mine").model_copy(update=changes)
    write_ledger(store, ledger, present.version)
    return store


@pytest.mark.parametrize(
    ("named", "stopped_early", "step"),
    [("mine", None, 2), ("mine", 2, 1), ("mine@newest", 2, 2), ("mine@best", None, 1)],
)
def test_without_a_step_it_is_what_the_run_ended_with(
    named: str, stopped_early: int | None, step: int, tmp_path: Path
) -> None:
    store = store_with(tmp_path, stopped_early)
    assert find_model(store, Reference.parse(named)).step == step


@pytest.mark.parametrize(("stopped_early", "steps"), [(None, (0, 1, 2)), (2, (0, 1))])
def test_a_benchmark_ends_with_it(
    stopped_early: int | None, steps: tuple[int, ...], tmp_path: Path
) -> None:
    store = store_with(tmp_path, stopped_early)
    config = BenchmarkConfig(model="mine", store=store.url)
    lineup = line_up_trained(store, config, summaries(corpus(), judge=None), print)
    assert lineup is not None and lineup.steps == steps
