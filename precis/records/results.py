"""Results of a benchmark: one tidy row for each rollout of a contender.

A row says what it scored, out of what, and where it comes from, so that rows of many nights can be
put under each other and compared. What only one environment has are its metrics, by name; what
summaries were asked stands in a second table (`precis.records.questions`).
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from precis.errors import StoreError
from precis.records.nouns import SUCCESS, Figure
from precis.records.rollout import Rollout, Score
from precis.store import Store
from precis.store.files import files_of

Row = dict[str, Any]

TRAINED = "trained"
"""The name, among the contenders, of the model that is trained here."""

_COLUMNS: dict[str, pl.DataType | pl.datatypes.DataTypeClass] = {
    "run": pl.String,
    "night": pl.Datetime("us", "UTC"),
    "model": pl.String,
    "step": pl.Int64,
    "scenario_id": pl.String,
    "topic": pl.String,
    "score": pl.Float64,
    "weight": pl.Float64,
    "metrics": pl.String,
    "cause": pl.String,
    "text": pl.String,
    "finish": pl.String,
    "seconds": pl.Float64,
    "prompt_tokens": pl.Int64,
    "completion_tokens": pl.Int64,
    "usd": pl.Float64,
    "served_by": pl.String,
    "kept": pl.Boolean,
    "parameters": pl.String,
    "judge": pl.String,
    "protocol": pl.String,
    "prompts_digest": pl.String,
    "corpus_digest": pl.String,
    "code_version": pl.String,
}

SCHEMA = pl.Schema(_COLUMNS)
"""The columns of a row. What a contender achieves is the sum of `score` over that of `weight`, such
as the answers that were right over the questions. Both are null where the rollout is unscored, and
`cause` then says why. `metrics` is JSON. `night` is when the benchmark began, `kept` whether the
text was there from an earlier one: then `usd` was paid and `seconds` were taken that time."""

ATTEMPTS = pl.Schema({**_COLUMNS, "attempt": pl.Int64})
"""A row of what a contender has sampled of a scenario besides its greedy rollout, with the number
of the attempt. These lie in a file of their own: no measure is of them but pass@k."""

KEY = ("run", "model", "step", "scenario_id")
"""The columns that make a row unique, and the order of a file's rows."""


@dataclass(frozen=True)
class Provenance:
    """The origin of a contender's results; the same for all of its rows.

    Attributes:
        model: the contender, such as `trained` or `lead-350`.
        step: the checkpoint's step; None for a contender that is not trained here.
        judge: the model that ruled.
        protocol: how it was asked, with its version.
        night: when the benchmark began, in UTC; None for rows that are of no benchmark.
        parameters: what the contender was sent besides the messages, as JSON.
    """

    run: str
    model: str
    step: int | None
    judge: str
    protocol: str
    prompts_digest: str
    corpus_digest: str
    code_version: str
    night: datetime | None = None
    parameters: str | None = None


def row_of(
    rollout: Rollout,
    provenance: Provenance,
    figure: Figure,
    *,
    text: str,
    topic: str = "",
    kept: bool = False,
) -> Row:
    """Return a rollout's row.

    Args:
        figure: what it is measured by.
        text: the rollout, for a person to read.
        kept: whether all its answers were there from an earlier benchmark.
    """
    calls = rollout.calls
    score = rollout.score if isinstance(rollout.score, Score) else None
    dollars = [call.usd for call in calls]
    usage = rollout.usage
    part = figure.part_of(score)
    whole = figure.whole_of(score)
    metrics: dict[str, float] = {"turns": len(calls)}
    if score is not None:
        # Where successes are the measure, a score without one is a failure.
        success = part if figure.part == SUCCESS else score.success
        counted = {} if success is None else {"success": float(success)}
        metrics.update({"reward": score.reward, **counted, **score.metrics})
    is_measured = part is not None and bool(whole)
    return {
        **asdict(provenance),
        "scenario_id": rollout.scenario.id,
        "topic": topic,
        "score": part if is_measured else None,
        "weight": whole if is_measured else None,
        "metrics": json.dumps(metrics),
        "cause": rollout.score.cause,
        "text": text,
        "finish": calls[-1].finish if calls else "none",
        "seconds": rollout.seconds if calls else None,
        "prompt_tokens": usage.prompt_tokens if calls else None,
        "completion_tokens": usage.completion_tokens if calls else None,
        "usd": None if not calls or None in dollars else sum(one or 0.0 for one in dollars),
        "served_by": calls[-1].served_by if calls else None,
        "kept": kept,
    }


def metric(name: str) -> pl.Expr:
    """Return a metric of each row; null where it has none of that name."""
    # A name may be any text: it must not be read as a JSON path or a pattern of columns.
    decoded = pl.col("metrics").str.json_decode(pl.Struct({name: pl.Float64()}))
    return decoded.struct.rename_fields(["value"]).struct.field("value")


def frame_of(rows: Iterable[Row]) -> pl.DataFrame:
    """Rows as a frame in SCHEMA, ordered by KEY whatever order they came in; a StoreError says that
    two rows have the same key."""
    frame = pl.DataFrame(list(rows), schema=SCHEMA, orient="row").sort(KEY, nulls_last=False)
    repeated = frame.filter(pl.struct(KEY).is_duplicated())
    if not repeated.is_empty():
        first = repeated.select(KEY).row(0, named=True)
        key = ", ".join(f"{name} {value}" for name, value in first.items())
        raise StoreError(
            f"Two results for one scenario ({key}): keep one of them before writing, or the "
            "statistics would count it twice."
        )
    return frame


def write_results(frame: pl.DataFrame, path: Path) -> None:
    """Write a frame as parquet, whole or not at all: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        frame.select(SCHEMA.names()).write_parquet(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def result_keys(store: Store, model: str) -> list[str]:
    """Return the results of all nights of a model, from the first to the newest."""
    return store.keys(f"{model}/results/")


def scan_results(store: Store, model: str, nights: int | None = None) -> pl.LazyFrame:
    """Return the results of all nights of a model, or of the newest so many, as one lazy table in
    SCHEMA; of the store only the columns and row groups are read that a query needs."""
    keys = result_keys(store, model)
    keys = keys if nights is None else keys[max(0, len(keys) - nights) :]
    if not keys:
        return SCHEMA.to_frame().lazy()
    from pyarrow import dataset

    with files_of(store) as (files, root):
        found = dataset.dataset(
            [f"{root}/{key}" for key in keys],
            schema=SCHEMA.to_frame().to_arrow(compat_level=pl.CompatLevel.oldest()).schema,
            filesystem=files,
            format="parquet",
        )
    return pl.scan_pyarrow_dataset(found)


def newest_results(store: Store, model: str, took_part: pl.Expr) -> pl.DataFrame:
    """Return the rows of a model's newest benchmark that holds a row of which `took_part` is true;
    none where there is none. Nights are read from the newest back, no more than it takes."""
    for key in reversed(result_keys(store, model)):
        blob = store.get(key)
        if blob is not None:
            rows = read_results(BytesIO(blob.data), f"{store.url}/{key}")
            if not rows.filter(took_part).is_empty():
                return rows
    return SCHEMA.to_frame()


def results_before(store: Store, model: str, night: str, nights: int) -> pl.DataFrame:
    """Return the results of the last nights before one, named by its id, at most so many."""
    if not nights:
        return SCHEMA.to_frame()
    from pyarrow import ArrowException

    rows = scan_results(store, model, nights + 1).filter(pl.col("run") != night)
    with files_of(store):
        try:
            frame = rows.collect()
        except (pl.exceptions.PolarsError, ArrowException) as error:
            raise StoreError(
                f"The results of earlier nights in {store.url}/{model}/results/ can't be read: "
                f"{error} Move the file that is not one of results away."
            ) from error
    newest = frame["run"].unique().sort(descending=True).head(nights)
    return frame.filter(pl.col("run").is_in(newest.implode()))


def read_results(source: Path | BytesIO, where: str = "") -> pl.DataFrame:
    """Read a file of results; a StoreError says that there is none, or names what is no such file,
    by its address where it is given."""
    where = where or str(source)
    try:
        frame = pl.read_parquet(source)
    except FileNotFoundError as error:
        raise StoreError(f"Can't read the results in {where}: there is no such file.") from error
    except (OSError, pl.exceptions.PolarsError) as error:
        raise StoreError(f"Can't read the results in {where}: {error}") from error
    if frame.schema != SCHEMA:
        raise StoreError(
            f"{where} is not a file of results of this version: its columns are "
            f"{', '.join(frame.columns)}. Run the benchmark again to make one."
        )
    return frame
