"""Tonight against the nights before, and an event where somebody is worse."""

import asyncio

import polars as pl
from prefect import task
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from precis.records.results import results_before
from precis.report.nightly import REGRESSION, regression_payload, verdict_in_words
from precis.statistics.nights import changes
from tasks.lineup import BenchmarkRun
from tasks.policy import RETRIED


@task(name="compare nights", task_run_name="compare {round.name} with before", **RETRIED)
async def compare_nights(round: BenchmarkRun) -> None:
    """Set tonight against the benchmarks before, and raise an event where somebody is worse."""
    store = round.store
    config = round.config
    tonight = pl.concat(round.frames)
    night = round.night.id
    before = await asyncio.to_thread(
        results_before, store, round.name, night, config.compare_nights
    )
    round.nights = before["run"].n_unique()
    round.before = before if round.nights else None
    round.changes = await asyncio.to_thread(changes, tonight, before) if round.nights else []
    if any(change.is_regression for change in round.changes):
        get_run_logger().warning("%s", verdict_in_words(round.changes, round.nights))
        _emit_regression(round)


def _emit_regression(round: BenchmarkRun) -> None:
    related = [
        {
            "prefect.resource.id": f"prefect.flow-run.{flow_run.id}",
            "prefect.resource.role": "flow-run",
            "prefect.resource.name": flow_run.name or "",
        }
    ]
    emit_event(
        REGRESSION,
        resource={
            "prefect.resource.id": f"precis.model.{round.name}",
            "prefect.resource.name": round.name,
        },
        related=related if flow_run.id else [],
        payload=regression_payload(
            round.changes,
            round.nights,
            round.name,
            f"{round.store.url}/{round.own_folder}report.html",
        ),
    )
