"""The model of a run that stopped early is its best checkpoint; and a run's record."""

from pathlib import Path
from typing import Any

import pytest

from precis.benchmark.lineup import line_up_trained
from precis.config import BenchmarkConfig, TrainConfig
from precis.models.record import training_record
from precis.models.reference import Reference, find_model
from precis.records.ledger import ledger_key, load_ledger, write_ledger
from tests.support.corpora import corpus
from tests.support.environments import summaries
from tests.support.tiny_model import store_with_adapter


@pytest.mark.parametrize("stopped_early", [None, 2])
def test_without_a_step_it_is_what_the_run_ended_with(
    stopped_early: int | None, tmp_path: Path
) -> None:
    """Of a run of two steps whose best checkpoint is step 1."""
    store = store_with_adapter(tmp_path)
    present = store.get(ledger_key("mine"))
    assert present is not None
    changes = {"stopped_early": stopped_early, "corpus": corpus().digest}
    ledger = load_ledger(store, "mine").model_copy(update=changes)
    write_ledger(store, ledger, present.version)
    steps = {"mine": 1 if stopped_early else 2, "mine@newest": 2, "mine@best": 1}
    assert {name: find_model(store, Reference.parse(name)).step for name in steps} == steps
    config = BenchmarkConfig(model="mine", store=store.url)
    lineup = line_up_trained(store, config, summaries(corpus(), judge=None), print)
    assert lineup is not None
    assert lineup.steps == ((0, 1) if stopped_early else (0, 1, 2))


@pytest.mark.parametrize(
    ("trainer", "tokens_max"),
    [
        ({"kind": "extractive"}, None),
        ({"kind": "art", "engine": {"tokens_max": 2048}}, 2048),
        ({"kind": "tinker", "tokens_max": 16384}, 16384),
    ],
)
def test_the_record_says_how_much_the_model_read_at_once(
    trainer: dict[str, Any], tokens_max: int | None
) -> None:
    """`precis model serve` serves it with that many, and with 4096 where nothing is said."""
    config = TrainConfig.model_validate({"store": "s", "trainer": trainer})
    assert training_record(config, "a-judge").tokens_max == tokens_max
