"""What the store keeps of a step's rollouts, and how it reads back."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from precis.errors import StoreError
from precis.records.summary import JudgedSummary
from precis.records.trajectories import (
    put_trajectories,
    read_judged,
    scan_trajectories,
    trajectories_key,
    trajectory_steps,
)
from precis.sampling.rollouts import Rollout
from precis.sampling.transcript import transcript
from precis.store import FolderStore
from tests.support.rollouts import DOCUMENT, ROLLOUTS


def put(store: FolderStore, step: int, rollouts: Sequence[Sequence[Rollout]] = ROLLOUTS) -> None:
    put_trajectories(store, "m", "train", step, transcript(rollouts, f"m@{step}"))


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def test_every_rollout_is_kept_with_its_verdict(store: FolderStore) -> None:
    put(store, 3)
    frame = scan_trajectories(store, "m", "train").collect()
    columns = ["step", "group", "index", "reward", "verdict", "cause", "disqualified", "correct"]
    assert frame.select(columns).rows() == [
        (3, 0, 0, 1.0, "scored", None, None, 1),
        (3, 0, 1, None, "unscored", "rate_limited", None, None),
        (3, 0, 2, None, "unscored", "generation_timeout", None, None),
        (3, 1, 0, 0.0, "scored", None, "over_length", 0),
        (3, 1, 1, 0.25, "ranked", None, None, None),
    ]
    first = frame.row(0, named=True)
    assert (first["policy"], first["scenario_id"], first["words"]) == ("m@3", "d7", 2)
    assert first["answers"] == [
        {
            "question_id": "q",
            "answer": "the mayor – “hers”",
            "correct": True,
            "answerable": True,
        }
    ]
    assert frame["summary"].to_list() == ["She did.", "She did.", None, "She did.", "She did."]
    assert DOCUMENT.text in first["messages"][-2]["content"]


def test_what_was_judged_reads_back_as_it_was(store: FolderStore) -> None:
    put(store, 0)
    kept = read_judged(store, "m", "train", 0, [DOCUMENT])
    assert kept == [
        JudgedSummary(one.document, one.summary, one.verdict, one.disqualified, prose=one.prose)
        for row in ROLLOUTS
        for one in row
    ]
    assert read_judged(store, "m", "train", 0, []) == []


def test_all_steps_of_a_model_are_one_frame(store: FolderStore) -> None:
    for step in (10, 2, 9):
        put(store, step)
    put_trajectories(store, "m", "val", 2, transcript(ROLLOUTS, "m@2"))
    put_trajectories(store, "another", "train", 1, transcript(ROLLOUTS, "m@1"))
    assert trajectory_steps(store, "m", "train") == [2, 9, 10]
    frame = scan_trajectories(store, "m", "train")
    counted = frame.group_by("step").len().sort("step").collect()
    assert counted.rows() == [(2, 5), (9, 5), (10, 5)]
    some = scan_trajectories(store, "m", "train", steps={9, 11}).select(pl.col("step").unique())
    assert some.collect().rows() == [(9,)]


def test_a_model_without_trajectories_has_an_empty_frame_of_the_same_columns(
    store: FolderStore,
) -> None:
    empty = scan_trajectories(store, "m", "train")
    assert empty.collect().is_empty()
    put(store, 1)
    assert scan_trajectories(store, "m", "train").collect_schema() == empty.collect_schema()


def test_a_step_that_is_done_again_replaces_its_trajectories(store: FolderStore) -> None:
    put(store, 1)
    once = store.get(trajectories_key("m", "train", 1))
    put(store, 1)
    assert store.get(trajectories_key("m", "train", 1)) == once
    put(store, 1, ROLLOUTS[:1])
    assert scan_trajectories(store, "m", "train").collect().height == 3


def test_a_step_with_nothing_in_it_is_kept_too(store: FolderStore) -> None:
    put(store, 1, [])
    assert scan_trajectories(store, "m", "train").collect().is_empty()


def test_what_is_no_file_of_trajectories_is_named(store: FolderStore) -> None:
    key = trajectories_key("m", "train", 1)
    store.put(key, b"not parquet")
    with pytest.raises(StoreError, match=r"train/0001\.parquet is no parquet file"):
        scan_trajectories(store, "m", "train")
    pl.DataFrame({"reward": [1.0]}).write_parquet(store.root / key)
    with pytest.raises(StoreError, match=r"0001\.parquet is no file of trajectories.*group_index"):
        scan_trajectories(store, "m", "train")
