"""Two runs side by side: their curves, what separates them, what they cost, what they wrote."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import polars as pl

from precis.records.results import TRAINED, newest_results
from precis.run.overview import Overview, overview
from precis.statistics.comparisons import difference
from precis.statistics.intervals import Difference
from precis.store import Store


@dataclass(frozen=True)
class SideBySide:
    """What two runs wrote of one document, and the shares of its questions that were kept."""

    document: str
    first: str
    first_accuracy: float
    second: str
    second_accuracy: float


@dataclass(frozen=True)
class RunComparison:
    """Two runs.

    Attributes:
        difference: the first's accuracy minus the second's, on the documents that the newest
            benchmarks of both have in common; None where there are none.
        protocols: the judges of both benchmarks; of two kinds, the difference is theirs as well.
        documents: those on which they differ most first.
    """

    first: Overview
    second: Overview
    difference: Difference | None
    protocols: tuple[str, ...]
    documents: tuple[SideBySide, ...]


def compare(store: Store, first: str, second: str, now: datetime) -> RunComparison:
    """Compare two runs of a store.

    Raises:
        StoreError: one of them is not there, or can't be read.
    """
    first_run = overview(store, first, now)
    second_run = overview(store, second, now)
    first_rows = newest_rows(store, first)
    second_rows = newest_rows(store, second)
    rows = pl.concat([first_rows, second_rows])
    judges = rows.select("judge", "protocol").unique().sort("judge", "protocol")
    return RunComparison(
        first_run,
        second_run,
        difference(first_rows, second_rows),
        tuple(f"{judge}, {protocol}" for judge, protocol in judges.iter_rows()),
        tuple(_side_by_side(first_rows, second_rows)),
    )


def newest_rows(store: Store, model: str) -> pl.DataFrame:
    """The newest checkpoint's rows of a model's newest benchmark that it took part in.

    Raises:
        StoreError: the results can't be read.
    """
    is_trained = pl.col("model") == TRAINED
    own = newest_results(store, model, is_trained).filter(is_trained)
    return own.filter(pl.col("step") == pl.col("step").max())


def as_record(found: RunComparison) -> dict[str, Any]:
    """The comparison for a program."""
    return {
        "runs": [_run_record(found.first), _run_record(found.second)],
        "difference": _difference_record(found.difference) if found.difference else None,
        "judges": list(found.protocols),
        "documents": list(map(asdict, found.documents)),
    }


def _difference_record(measured: Difference) -> Mapping[str, Any]:
    return {
        "accuracy": measured.accuracy.mean,
        "low": measured.accuracy.low,
        "high": measured.accuracy.high,
        "p_value": measured.p_value,
        "documents": measured.documents,
    }


def _run_record(run: Overview) -> Mapping[str, Any]:
    return {
        "model": run.model,
        "step": run.ledger.next_step,
        "usd": run.ledger.usd,
        "seconds": seconds_of(run),
        "rewards": {one.step: one.reward for one in run.ledger.steps},
        "scores": {one.step: one.score.value for one in run.ledger.validations},
    }


def seconds_of(run: Overview) -> float:
    """The wall time of a run's steps."""
    return sum(sum(one.seconds.values()) for one in run.ledger.steps)


def _side_by_side(first: pl.DataFrame, second: pl.DataFrame) -> list[SideBySide]:
    both = _by_document(first).join(_by_document(second), on="scenario_id", suffix="_2")
    both = both.with_columns((pl.col("accuracy") - pl.col("accuracy_2")).abs().alias("apart"))
    columns = ("scenario_id", "text", "accuracy", "text_2", "accuracy_2")
    ordered = both.sort(["apart", "scenario_id"], descending=[True, False])
    return [SideBySide(*row) for row in ordered.select(columns).iter_rows()]


def _by_document(rows: pl.DataFrame) -> pl.DataFrame:
    scored = rows.filter(pl.col("score").is_not_null())
    return scored.select(
        "scenario_id", "text", (pl.col("score") / pl.col("weight")).alias("accuracy")
    )
