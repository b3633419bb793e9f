"""Results of a benchmark: one tidy row for each rollout of a contender.

A row has its score, its weight and its origin, so that rows of many nights can be concatenated and
compared. Values of only one environment are its metrics, by name; the questions about summaries are
in a second table (`precis.records.questions`).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from precis.errors import StoreError
from precis.records.nouns import Figure
from precis.records.rollout import Rollout, Score
from precis.store import Store
from precis.store.files import files_of

Row = dict[str, Any]

TRAINED = "trained"
"""The trained model's name among the contenders."""

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
"""The columns of a row. A contender's result is the sum of `score` over that of `weight`, such as
right answers over questions. Both are null if the rollout is unscored, with the reason in `cause`.
`metrics` is JSON. `night` is the start of the benchmark, `kept` whether the text is from an earlier
one, to which `usd` and `seconds` then belong."""

ATTEMPTS = pl.Schema({**_COLUMNS, "attempt": pl.Int64})
"""A row of a contender's sampled attempt at a scenario, with its number. These are in a separate
file, used only for pass@k."""

COMPARABLE = ("judge", "protocol", "prompts_digest", "corpus_digest")
"""The columns that must be the same on two nights for their figures to be comparable."""

KEY = ("run", "model", "step", "scenario_id")
"""The unique key of a row, and the order of a file's rows."""


@dataclass(frozen=True)
class Provenance:
    """The origin of a contender's results; the same for all of its rows.

    Attributes:
        model: the contender, such as `trained` or `lead-350`.
        step: the checkpoint's step; None for a contender that is not trained here.
        judge: the judging model.
        protocol: the judge's protocol, with its version.
        night: the start of the benchmark, in UTC; None for rows of no benchmark.
        parameters: the fields of the contender's requests besides the messages, as JSON.
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
        figure: the measure.
        text: the rollout, as readable text.
        kept: whether all its answers are from an earlier benchmark.
    """
    calls = rollout.calls
    score = rollout.score if isinstance(rollout.score, Score) else None
    dollars = [call.usd for call in calls]
    usage = rollout.usage
    part = figure.part_of(score)
    whole = figure.whole_of(score)
    metrics: dict[str, float] = {"turns": len(calls)}
    if score is not None:
        counted = {} if score.success is None else {"success": float(score.success)}
        metrics.update({**score.metrics, "reward": score.reward, **counted})
    is_measured = part is not None and whole is not None
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
    """Return a metric of each row; null if it has none of that name."""
    # A name may be any text: it must not be read as a JSON path or a pattern of columns.
    decoded = pl.col("metrics").str.json_decode(pl.Struct({name: pl.Float64()}))
    return decoded.struct.rename_fields(["value"]).struct.field("value")


def frame_of(rows: Iterable[Row]) -> pl.DataFrame:
    """Return rows as a frame in SCHEMA, ordered by KEY. Raises StoreError if two rows have the same
    key."""
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
    """Write a frame as parquet, into a folder that exists."""
    frame.select(SCHEMA.names()).write_parquet(path)


def scan_results(store: Store, model: str) -> pl.LazyFrame:
    """Return the results of a model's nights as one lazy table in SCHEMA; a query reads only the
    columns and row groups that it needs."""
    return _scan(store, store.keys(f"{model}/results/"))


def _scan(store: Store, keys: Sequence[str]) -> pl.LazyFrame:
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
    """Return the rows of a model's newest benchmark with a row that matches `took_part`, or none.
    Nights are read from the newest back, until one is found."""
    return next(_nights_back(store, model, took_part), SCHEMA.to_frame())


def results_before(
    store: Store, model: str, night: str, tonight: pl.DataFrame, nights: int
) -> pl.DataFrame:
    """Return the rows comparable with tonight's (`COMPARABLE`) of the newest `nights` nights that
    have some, without the one with the id `night`."""
    alike = pl.lit(False)
    for origin in tonight.select(COMPARABLE).unique().iter_rows(named=True):
        same = [pl.col(name).eq_missing(pl.lit(value)) for name, value in origin.items()]
        alike |= pl.all_horizontal(same)
    alike &= pl.col("run") != night
    found = [rows.filter(alike) for rows in islice(_nights_back(store, model, alike), nights)]
    return pl.concat([SCHEMA.to_frame(), *reversed(found)])


def _nights_back(store: Store, model: str, wanted: pl.Expr) -> Iterator[pl.DataFrame]:
    """Yield the rows of each night with one that matches `wanted`, the newest night first; of other
    nights only the columns that it names are read. Raises StoreError if a night can't be read."""
    from pyarrow import ArrowException

    for key in reversed(store.keys(f"{model}/results/")):
        with files_of(store):
            try:
                scanned = _scan(store, [key])
                rows = scanned.collect() if scanned.select(wanted.any()).collect().item() else None
            except (pl.exceptions.PolarsError, ArrowException) as error:
                raise StoreError(
                    f"The results of a night in {store.url}/{key} can't be read: {error} Move the "
                    "file away if it is not one of results."
                ) from error
        if rows is not None:
            yield rows


def read_results(path: Path) -> pl.DataFrame:
    """Read a file of results. Raises StoreError if it does not exist or is not one."""
    return read_table(path, SCHEMA, "results")


def read_table(path: Path, schema: pl.Schema, holds: str) -> pl.DataFrame:
    """Read a file of a benchmark. Raises StoreError if it does not exist, or has other columns."""
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise StoreError(f"Can't read the {holds} in {path}: {error}") from error
    if frame.schema != schema:
        raise StoreError(
            f"{path} is not a file of {holds} of this version: its columns are "
            f"{', '.join(frame.columns)}. Run the benchmark again to make one."
        )
    return frame
