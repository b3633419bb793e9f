"""The rollouts of each step, kept in the store as ART's own parquet.

They lie below the model as they do below ART's folder of one, `trajectories/{split}/0007.parquet`,
so that ART's readers and charts work on a copy of it. `scan_trajectories` reads all of a run's as
one table, and imports no ART, which takes seconds.
"""

from collections.abc import Collection, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from precis.errors import StoreError
from precis.records.documents import Document
from precis.records.summary import JudgedSummary, Summary
from precis.records.verdict import Answer, Ranked, Scored, Unscored, Verdict
from precis.store import Store
from precis.store.files import read_files

if TYPE_CHECKING:
    import art

Split = Literal["train", "val"]

_METRICS = pl.Struct(
    {
        "words": pl.Int64,
        "correct": pl.Int64,
        "asked": pl.Int64,
        "second_correct": pl.Int64,
        "prose": pl.Float64,
        "seconds": pl.Float64,
        "prompt_tokens": pl.Int64,
        "completion_tokens": pl.Int64,
    }
)
_METADATA = pl.Struct(
    {
        "scenario_id": pl.String,
        "topic": pl.String,
        "index": pl.Int64,
        "policy": pl.String,
        "finish": pl.String,
        "verdict": pl.String,
        "cause": pl.String,
        "detail": pl.String,
        "disqualified": pl.String,
        "answers": pl.String,
    }
)
_ANSWERS = pl.List(
    pl.Struct(
        {
            "question_id": pl.String,
            "answer": pl.String,
            "correct": pl.Boolean,
            "answerable": pl.Boolean,
        }
    )
)
_MESSAGES = pl.List(
    pl.Struct(
        {
            "role": pl.String,
            "content": pl.String,
            "tool_calls": pl.String,
            "tool_call_id": pl.String,
            "trainable": pl.Boolean,
        }
    )
)
_FILE = pl.Schema(
    [
        ("group_index", pl.Int64()),
        ("reward", pl.Float64()),
        ("metrics", pl.String()),
        ("metadata", pl.String()),
        ("messages", _MESSAGES),
    ]
)
"""The columns of ART's file that are read."""


def trajectories_key(model: str, split: Split, step: int) -> str:
    """The object that holds a step's rollouts."""
    return f"{_folder(model, split)}{step:04d}.parquet"


def put_trajectories(
    store: Store, model: str, split: Split, step: int, groups: Sequence["art.TrajectoryGroup"]
) -> None:
    """Keep a step's groups; a step that is done again replaces them.

    ART's format has no place for log probabilities, nor for exceptions and policy versions.

    Args:
        groups: best those of `precis.sampling.transcript`, which leave nothing out.

    Raises:
        StoreError: the store can't be written.
    """
    # Readers do without ART, which takes seconds to import.
    from art.utils.trajectory_logging import write_trajectory_groups_parquet

    with TemporaryDirectory() as folder:
        file = Path(folder) / "groups.parquet"
        write_trajectory_groups_parquet(list(groups), file)
        store.put(trajectories_key(model, split, step), file.read_bytes())


def trajectory_steps(store: Store, model: str, split: Split) -> list[int]:
    """The steps whose rollouts the store holds, ascending."""
    names = map(Path, store.keys(_folder(model, split)))
    return sorted(int(name.stem) for name in names if name.stem.isdecimal())


def scan_trajectories(
    store: Store, model: str, split: Split, steps: Collection[int] | None = None
) -> pl.LazyFrame:
    """All rollouts of a model, a row each, ordered by step, group and index.

    `reward` is null where there is no verdict, and `cause` then says why; `messages` are the
    whole conversation, of which `summary` is the end. The files are fetched at once, as they
    are, and decoded when the frame is collected.

    Args:
        steps: those to read; all if not given.

    Raises:
        StoreError: the store can't be read.
    """
    wanted = []
    for step in trajectory_steps(store, model, split):
        if steps is None or step in steps:
            wanted.append(step)
    keys = {step: trajectories_key(model, split, step) for step in wanted}
    contents = read_files(store, keys.values())
    files = [_scan(store, keys[step], contents[keys[step]], step) for step in wanted]
    return _tidy(pl.concat(files) if files else _FILE.to_frame().lazy().with_columns(step=_step(0)))


def read_judged(
    store: Store, model: str, split: Split, step: int, documents: Iterable[Document]
) -> list[JudgedSummary]:
    """The summaries of a step that the store holds, with their verdicts, in their order.

    Args:
        documents: those that the summaries may be of; others are left out.

    Raises:
        StoreError: the store can't be read.
    """
    known = {document.id: document for document in documents}
    rows = scan_trajectories(store, model, split, [step]).collect().iter_rows(named=True)
    judged = []
    for row in rows:
        if row["scenario_id"] in known:
            judged.append(_read_summary(row, known[row["scenario_id"]]))
    return judged


def _read_summary(row: dict[str, Any], document: Document) -> JudgedSummary:
    summary = None
    if row["finish"] is not None:
        summary = Summary(
            row["summary"] or "",
            row["finish"],
            row["seconds"],
            row["prompt_tokens"],
            row["completion_tokens"],
        )
    prose = 1.0 if row["prose"] is None else row["prose"]
    return JudgedSummary(document, summary, _verdict(row), row["disqualified"], prose=prose)


def _verdict(row: dict[str, Any]) -> Verdict:
    if row["verdict"] == "unscored":
        return Unscored(row["cause"], row["detail"])
    if row["verdict"] == "ranked":
        return Ranked(row["reward"])
    return Scored(tuple(Answer(**answer) for answer in row["answers"]))


def _scan(store: Store, key: str, content: bytes, step: int) -> pl.LazyFrame:
    try:
        missing = set(_FILE) - set(pl.read_parquet_schema(BytesIO(content)))
    except pl.exceptions.PolarsError as error:
        raise StoreError(f"{store.url}/{key} is no parquet file: {error}") from error
    if missing:
        raise StoreError(
            f"{store.url}/{key} is no file of trajectories: it has no column {min(missing)!r}."
        )
    return pl.scan_parquet(content).select(_FILE.names()).with_columns(step=_step(step))


def _tidy(frame: pl.LazyFrame) -> pl.LazyFrame:
    metadata = pl.col("metadata")
    metrics = pl.col("metrics")
    decoded = frame.with_columns(
        metadata=metadata.str.json_decode(_METADATA), metrics=metrics.str.json_decode(_METRICS)
    )
    spoken = pl.col("messages").list.last().struct
    return decoded.select(
        "step",
        pl.col("group_index").alias("group"),
        pl.col("reward").fill_nan(None),
        metadata.struct.unnest(),
        metrics.struct.unnest(),
        pl.when(spoken.field("trainable")).then(spoken.field("content")).alias("summary"),
        "messages",
    ).with_columns(pl.col("answers").str.json_decode(_ANSWERS))


def _step(step: int) -> pl.Expr:
    return pl.lit(step, dtype=pl.Int64)


def _folder(model: str, split: Split) -> str:
    return f"{model}/trajectories/{split}/"
