"""What the store keeps of a step's rollouts, and how it reads back."""

import json
from collections.abc import Sequence

import polars as pl
import pytest

from precis.environments.trajectories import put_trajectories
from precis.errors import StoreError
from precis.records.rollout import Rollout
from precis.records.trajectories import (
    read_first_validation,
    scan_trajectories,
    trajectories_key,
    trajectory_steps,
)
from precis.store import FolderStore
from tests.support.rollouts import DOCUMENT, ROLLOUTS, SCENARIO


def put(store: FolderStore, step: int, rollouts: Sequence[Sequence[Rollout]] = ROLLOUTS) -> None:
    put_trajectories(store, "m", "train", step, rollouts, f"m@{step}")


def test_every_rollout_is_kept_with_its_score(store: FolderStore) -> None:
    put(store, 3)
    frame = scan_trajectories(store, "m", "train").collect()
    columns = ["step", "group", "index", "reward", "success", "cause", "over_length", "correct"]
    assert frame.select(columns).rows() == [
        (3, 0, 0, 1.0, None, None, None, 1),
        (3, 0, 1, None, None, "rate_limited", None, None),
        (3, 0, 2, None, None, "generation_timeout", None, None),
        (3, 1, 0, 0.0, False, None, 1.0, None),
        (3, 1, 1, 0.25, True, None, None, None),
    ]
    first = frame.row(0, named=True)
    assert (first["policy"], first["scenario_id"], first["words"]) == ("m@3", "d7", 2)
    (answer,) = json.loads(first["details"])["answers"]
    assert answer["answer"] == "the mayor – “hers”"
    assert frame["text"].to_list() == ["She did.", "She did.", None, "She did.", "She did."]
    assert DOCUMENT.text in first["messages"][-2]["content"]


def test_what_was_kept_reads_back_as_it_was_but_for_token_ids(store: FolderStore) -> None:
    assert read_first_validation(store, "m", [SCENARIO]) is None
    for step in (3, 4):
        put_trajectories(store, "m", "validation", step, ROLLOUTS, f"m@{step}")
    found = read_first_validation(store, "m", [SCENARIO], before=4)
    assert found
    step, kept = found
    assert step == 3
    told = [one for group in ROLLOUTS for one in group]
    assert [(one.index, one.score, one.text) for one in kept] == [
        (one.index, one.score, one.text) for one in told
    ]
    (call,) = kept[0].calls
    assert (call.messages, call.usage) == (told[0].calls[0].messages, told[0].calls[0].usage)
    assert read_first_validation(store, "m", []) == (3, [])
    assert read_first_validation(store, "m", [], before=3) is None


def test_all_steps_of_a_model_are_one_frame(store: FolderStore) -> None:
    for step in (10, 2, 9):
        put(store, step)
    put_trajectories(store, "m", "validation", 2, ROLLOUTS, "m@2")
    put_trajectories(store, "another", "train", 1, ROLLOUTS, "m@1")
    assert trajectory_steps(store, "m", "train") == [2, 9, 10]
    frame = scan_trajectories(store, "m", "train")
    counted = frame.group_by("step").len().sort("step").collect()
    assert counted.rows() == [(2, 5), (9, 5), (10, 5)]
    some = scan_trajectories(store, "m", "train", steps={9, 11}).select(pl.col("step").unique())
    assert some.collect().rows() == [(9,)]


def test_a_model_without_trajectories_has_an_empty_frame(store: FolderStore) -> None:
    empty = scan_trajectories(store, "m", "train")
    assert empty.collect().is_empty()
    for kept in ([], [ROLLOUTS[0][1:]]):
        put(store, 1, kept)
        assert scan_trajectories(store, "m", "train").collect_schema() == empty.collect_schema()


def test_what_is_no_file_of_trajectories_is_named(store: FolderStore) -> None:
    key = trajectories_key("m", "train", 1)
    put(store, 1, ROLLOUTS)
    whole = (store.root / key).read_bytes()
    for damaged in (b"not parquet", whole[:8] + b"damage" * 8 + whole[56:]):
        store.put(key, damaged)
        with pytest.raises(StoreError, match=r"train/0001\.parquet can't be read as parquet"):
            scan_trajectories(store, "m", "train")
    pl.DataFrame({"reward": [1.0]}).write_parquet(store.root / key)
    with pytest.raises(StoreError, match=r"is not a file of trajectories.*group_index"):
        scan_trajectories(store, "m", "train")
