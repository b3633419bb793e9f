"""A run's ledger in small: its steps and validations."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from precis.records.ledger import Ledger, Metric, StepRecord, Validation, find_ledger
from precis.records.spend import Spend
from precis.records.warm_start import GroupVariance, WarmStartRecord
from precis.store import Store

EMPTY = Ledger(model="m", config="c", corpus="k")
"""That of a run which has only begun."""


def stored_ledger(store: Store) -> tuple[Ledger, str]:
    """The ledger of the run `m` in a store, and its version."""
    found = find_ledger(store, "m")
    assert found is not None
    return found[0], found[1].version


def record(step: int, reward: float = 0.5, usd: float = 0.25, **changes: Any) -> StepRecord:
    return StepRecord(
        step=step,
        digest="d",
        reward=reward,
        reward_std=0.1,
        metrics={"words": 300},
        groups_trained=5,
        groups_dropped={},
        unscored={},
        trainer={"loss/train": 0.1},
        seconds={"gather": 1.0},
        judge=Spend(usd=usd),
    ).model_copy(update=changes)


def warm_start(**changes: Any) -> WarmStartRecord:
    made = WarmStartRecord(source="file", scenarios=4, demonstrations=4, left_out={}, reward=None)
    return made.model_copy(update=changes)


def validation(step: int, accuracy: float = 0.5, **changes: Any) -> Validation:
    score = Metric(value=accuracy, low=0.4, high=0.6, is_share=True)
    known = measured(step, {"accuracy": score, "words": Metric(value=300)})
    return known.model_copy(update=changes)


def measured(step: int, metrics: dict[str, Metric]) -> Validation:
    """A validation whose measure is the first of these figures."""
    measure = next(iter(metrics))
    return Validation(step=step, measure=measure, metrics=metrics, seconds=1, unscored={})


def variance(step: int, varied: int = 7) -> GroupVariance:
    return GroupVariance(
        step=step, groups=20, varied=varied, dropped={}, reward=0.2, reward_std=0.1, seconds=3
    )


def ledger_at(step: int, scores: Mapping[int, float] = MappingProxyType({})) -> Ledger:
    """A ledger that has come to a step, with the scores of its validations."""
    steps = tuple(map(record, range(step)))
    validations = tuple(validation(at, score) for at, score in scores.items())
    reached = {"next_step": step, "steps": steps, "validations": validations}
    return EMPTY.model_copy(update=reached)
