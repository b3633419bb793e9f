"""A run's metrics by step, under flat names."""

from collections.abc import Mapping
from dataclasses import asdict

import polars as pl

from precis.records.ledger import Ledger, StepRecord, Validation


def step_metrics(ledger: Ledger, record: StepRecord) -> dict[str, float]:
    """Return a step's numbers under flat names, for ART's files, W&B and the report."""
    # The demonstrations, and how many groups of the previous adapter had differing rewards.
    metrics: dict[str, float] = {}
    for one in ledger.variances:
        if one.step == record.step:
            metrics["groups_varied"] = one.varied
            metrics["groups_measured"] = one.groups
    warm_start = record.warm_start
    if warm_start is not None:
        metrics["warm_start/demonstrations"] = warm_start.demonstrations
        metrics["warm_start/left_out"] = sum(warm_start.left_out.values())
        if warm_start.reward is not None:
            metrics["warm_start/reward"] = warm_start.reward
    return {
        **record.metrics,
        "step": record.step,
        "reward": record.reward,
        "reward_std": record.reward_std,
        "groups_trained": record.groups_trained,
        "groups_dropped": sum(record.groups_dropped.values()),
        "groups_added": record.groups_added,
        "unscored": sum(record.unscored.values()),
        "seconds": record.wall_s,
        "staleness": record.staleness,
        "overlapped_s": record.overlapped_s,
        "usd": record.usd,
        **_under("judge", asdict(record.judge)),
        **_under("unscored", record.unscored),
        **_under("groups_dropped", record.groups_dropped),
        **metrics,
        **record.trainer,
    }


def metrics_frame(ledger: Ledger) -> pl.DataFrame:
    """Return a row for each adapter, from the untrained start to the newest, ordered by `step`.

    A row has the measurements of adapter `step` (such as `val/accuracy` and its interval; null if
    it was not validated) and of the step that trained it further, which the newest does not have.
    A missing number is null, never 0.
    """
    rows: list[dict[str, float]] = []
    for step in range(ledger.next_step + 1):
        rows.append({"step": step})
    for record in ledger.steps:
        rows[record.step].update(step_metrics(ledger, record))
        rows[record.step].update(_under("seconds", record.seconds))
    for validation in ledger.validations:
        if validation.step < len(rows):  # a ledger that others wrote may have stray ones
            rows[validation.step].update(validation_metrics(validation))
    return pl.from_dicts(rows, infer_schema_length=None, strict=False)


def validation_metrics(validation: Validation) -> dict[str, float]:
    """Return a validation's numbers under flat names, for W&B and exports."""
    measured: dict[str, float] = {}
    for name, metric in validation.metrics.items():
        measured[name] = metric.value
        if metric.low is not None and metric.high is not None:
            measured[f"{name}_low"] = metric.low
            measured[f"{name}_high"] = metric.high
    measured["seconds"] = validation.seconds
    measured["unscored"] = sum(validation.unscored.values())
    return _under("val", measured)


def _under(group: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return values with their group in each name."""
    return {f"{group}/{name}": value for name, value in values.items()}
