"""A server's history of many runs: one that the flow has run, and copies of it in the database.

Its events are not copied: Prefect deletes them after a week.
"""

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from prefect.server.database.orm_models import Base
from sqlalchemy import Table, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from bench.flow.server import Server
from bench.histories.written import run_name
from precis.config import DocumentsConfig, RolloutsConfig, TrainConfig

MODEL = "summarizer-newest"
"""The model of the run that is no copy."""

_TABLES = (
    "flow_run",
    "flow_run_state",
    "task_run",
    "task_run_state",
    "artifact",
    "artifact_collection",
    "log",
)

Rows = list[dict[str, Any]]


def run_flow(up: Server, steps: int) -> None:
    """Train and benchmark in small steps, reporting to the server."""
    config = TrainConfig(
        model=MODEL,
        steps=steps,
        store=f"{up.environment['PRECIS_HOME']}/store",
        documents=DocumentsConfig(train_size=40, val_size=8),
        rollouts=RolloutsConfig(groups_per_step=2, rollouts_per_group=4),
    )
    command = [sys.executable, "-m", "bench.flow.stepping", "flow", config.model_dump_json(), "0"]
    done = subprocess.run(command, env=up.environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"The run failed:\n{done.stderr[-3000:]}")


def copy_runs(up: Server, count: int, days: float) -> None:
    """Copy what the server holds of its run, with all that belongs to it.

    Args:
        count: how many copies.
        days: over which they lie, the last of them just before the run itself.
    """
    asyncio.run(_copy_runs(up.database, count, timedelta(days=days)))


async def _copy_runs(address: str, count: int, time: timedelta) -> None:
    engine = create_async_engine(address)
    async with engine.connect() as database:
        if engine.dialect.name == "postgresql":
            # A run names its state, and the state its run: neither can be the first.
            await database.execute(text("SET session_replication_role = replica"))
        tables = {name: Base.metadata.tables[name] for name in _TABLES}
        originals = {name: await _read(database, table) for name, table in tables.items()}
        for number in range(count):
            earlier = time * (count - number) / count
            for name, rows in _copies(originals, run_name(number), earlier).items():
                await database.execute(insert(tables[name]), rows)
            await database.commit()
    await engine.dispose()


async def _read(database: AsyncConnection, table: Table) -> Rows:
    found = await database.execute(select(table))
    return [dict(row) for row in found.mappings()]


def _copies(originals: Mapping[str, Rows], model: str, earlier: timedelta) -> dict[str, Rows]:
    """The rows of a run of another model that was so much earlier."""
    ids = {row["id"]: uuid4() for rows in originals.values() for row in rows}

    def copied(value: Any) -> Any:
        if isinstance(value, datetime):
            return value - earlier
        if isinstance(value, UUID):
            return ids.get(value, value)
        return value.replace(MODEL, model) if isinstance(value, str) else value

    return {
        name: [{column: copied(value) for column, value in row.items()} for row in rows]
        for name, rows in originals.items()
        if rows
    }
