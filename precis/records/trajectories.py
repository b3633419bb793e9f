"""The rollouts of each step, kept in the store in ART's parquet format.

They have the paths of ART's model folder, `trajectories/{split}/0007.parquet`, so that ART's
readers and charts work on a copy. `scan_trajectories` reads all of a run's as one table, without
ART, which takes seconds to import; `precis.environments.trajectories` writes them.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from precis.errors import StoreError
from precis.records.rollout import Call, Json, Rollout, Scenario, Score, Split, Unscored
from precis.records.spend import Usage
from precis.store import Store
from precis.store.files import read_files

_METADATA = pl.Struct(
    {
        "scenario_id": pl.String,
        "index": pl.Int64,
        "policy": pl.String,
        "calls": pl.Int64,
        "finish": pl.String,
        "seconds": pl.Float64,
        "prompt_tokens": pl.Int64,
        "completion_tokens": pl.Int64,
        "success": pl.Boolean,
        "cause": pl.String,
        "detail": pl.String,
        "details": pl.String,
        "others": pl.String,
    }
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
"""The columns read from ART's file."""
OWN_COLUMNS = {"step", "group", "reward", "text", "messages", *_METADATA.to_schema()}
"""The columns of `scan_trajectories` that are not metrics."""


def trajectories_key(model: str, split: Split, step: int) -> str:
    return f"{_folder(model, split)}{step:04d}.parquet"


def trajectory_steps(store: Store, model: str, split: Split) -> list[int]:
    """Return the steps with rollouts in the store, ascending."""
    names = map(Path, store.keys(_folder(model, split)))
    return sorted(int(name.stem) for name in names if name.stem.isdecimal())


def scan_trajectories(
    store: Store, model: str, split: Split, steps: Collection[int] | None = None
) -> pl.LazyFrame:
    """Return the rollouts of a model, a row each, ordered by step, group and index.

    `reward` is null without a score, with the reason in `cause`. Each metric is a column; `details`
    is JSON. `messages` are the whole conversation, of which `text` is the end, and `others` is a
    JSON list of further ones, such as a sub-agent's.
    """
    keys = {}
    for step in trajectory_steps(store, model, split):
        if steps is None or step in steps:
            keys[trajectories_key(model, split, step)] = step
    contents = read_files(store, keys)
    files = [_scan(store, key, contents[key], step) for key, step in keys.items()]
    # The names of all metrics in the files, except those of other columns.
    names: dict[str, pl.DataType] = {}
    for content in contents.values():
        for metrics in pl.read_parquet(BytesIO(content), columns=["metrics"])["metrics"]:
            for name in json.loads(metrics or "{}"):
                if name not in OWN_COLUMNS:
                    names[name] = pl.Float64()
    frame = pl.concat([_FILE.to_frame().lazy().with_columns(step=pl.lit(0, pl.Int64)), *files])
    spoken = pl.col("messages").list.last().struct
    return frame.with_columns(
        metadata=pl.col("metadata").str.json_decode(_METADATA),
        metrics=pl.col("metrics").str.json_decode(pl.Struct(names)),
    ).select(
        "step",
        pl.col("group_index").alias("group"),
        pl.col("reward").fill_nan(None),
        pl.col("metadata").struct.unnest(),
        pl.col("metrics").struct.unnest(),
        pl.when(spoken.field("trainable")).then(spoken.field("content")).alias("text"),
        "messages",
    )


def read_first_validation(
    store: Store, model: str, scenarios: Iterable[Scenario], before: int | None = None
) -> tuple[int, list[Rollout]] | None:
    """Return the step of a model's first validation in the store, before a step, with its rollouts
    of these scenarios in the store's order, or None.

    Each has the last call of every conversation, with all messages before it; the first
    conversation comes last. The step is not read from the ledger: a rebuilt one has none.
    """
    step = next(iter(trajectory_steps(store, model, "validation")), None)
    if step is None or (before is not None and step >= before):
        return None
    known = {scenario.id: scenario for scenario in scenarios}
    key = trajectories_key(model, "validation", step)
    frame = _scan(store, key, read_files(store, [key])[key], step).collect()
    rollouts = []
    for row in frame.iter_rows(named=True):
        metadata = json.loads(row["metadata"])
        scenario = known.get(metadata["scenario_id"])
        if scenario is not None:
            rollouts.append(_read_rollout(row, metadata, scenario))
    return step, rollouts


def _read_rollout(
    row: Mapping[str, Any], metadata: Mapping[str, Any], scenario: Scenario
) -> Rollout:
    score: Score | Unscored
    if metadata["cause"] is not None:
        score = Unscored(metadata["cause"], metadata["detail"])
    else:
        details = json.loads(metadata["details"])
        metrics = json.loads(row["metrics"] or "{}")
        score = Score(row["reward"], metadata["success"], metrics, details)
    calls: tuple[Call, ...] = ()
    if metadata["calls"]:
        messages = list(map(_read_message, row["messages"]))
        usage = Usage(metadata["prompt_tokens"], metadata["completion_tokens"])
        choice = {"index": 0, "finish_reason": metadata["finish"], "message": messages[-1]}
        others = []
        for conversation in json.loads(metadata["others"] or "[]"):
            *before, last = map(_read_message, conversation)
            others.append(Call(tuple(before), {"index": 0, "message": last}))
        main = Call(tuple(messages[:-1]), choice, usage=usage, seconds=metadata["seconds"])
        calls = (*others, main)
    return Rollout(scenario, metadata["index"], calls, score)


def _read_message(row: Mapping[str, Any]) -> Json:
    message = {"role": row["role"], "content": row["content"]}
    if row["tool_calls"]:
        message["tool_calls"] = json.loads(row["tool_calls"])
    if row["tool_call_id"]:
        message["tool_call_id"] = row["tool_call_id"]
    return message


def _scan(store: Store, key: str, content: bytes, step: int) -> pl.LazyFrame:
    try:
        # All of it: a damaged page is found only when it is read.
        found = pl.read_parquet(BytesIO(content)).schema
    except pl.exceptions.PolarsError as error:
        raise StoreError(
            f"{store.url}/{key} can't be read as parquet: {error}.",
            "Bring it back from a backup, or delete it.",
        ) from error
    others = [name for name, kind in _FILE.items() if found.get(name) != kind]
    if others:
        raise StoreError(
            f"{store.url}/{key} is not a file of trajectories: it has no such column {others[0]!r}."
        )
    return pl.scan_parquet(content).select(_FILE.names()).with_columns(step=pl.lit(step, pl.Int64))


def _folder(model: str, split: Split) -> str:
    # ART's name for its second split.
    return f"{model}/trajectories/{'train' if split == 'train' else 'val'}/"
