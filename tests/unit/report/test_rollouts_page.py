"""The data of the page with all rollouts: what it shows of each, and how much it holds."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import polars as pl
import pytest

from precis.environments.show import plain_conversation, show_conversation
from precis.environments.trajectories import put_trajectories
from precis.errors import StoreError
from precis.records.rollout import Call, Json, Rollout, Score, Unscored
from precis.records.trajectories import trajectories_key
from precis.report.rollouts_page import gather_rollouts, rollouts_html
from precis.report.training_report import said as read_by_examples
from precis.store import FolderStore
from tests.support.reports import HOSTILE, embedded
from tests.support.rollouts import SCENARIO, call, rollout

ASKED = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "N"}'}}


def said(*messages: Json, answer: Json) -> Call:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **answer}}
    return replace(call("", ()), messages=messages, choice=choice)


def game(index: int = 0) -> Rollout:
    """Two turns with a tool call between them, and a sub-agent's conversation."""
    start = {"role": "user", "content": [{"type": "text", "text": "Where is it?"}]}
    first = said(start, answer={"content": None, "tool_calls": [ASKED]})
    result = {"role": "tool", "tool_call_id": "c1", "content": f"\x1b[31m\x9b{HOSTILE}"}
    second = said(start, first.message, result, answer={"content": "North."})
    helper = said({"role": "user", "content": "Think."}, answer={"content": "Done."})
    score = Score(0.5, success=False, metrics={"turns": 2.0}, details={"why": "late"})
    return Rollout(SCENARIO, index, (first, helper, second), score)


def put(store: FolderStore, step: int, *rollouts: Rollout) -> None:
    put_trajectories(store, "m", "train", step, [rollouts], f"m@{step}")


def test_a_rollout_has_all_its_conversations_and_its_score(store: FolderStore) -> None:
    put(store, 3, game(), replace(game(1), score=Unscored("timeout", "It took 300 s.")))
    data = gather_rollouts(store, "m")
    shown, unscored = data.steps["train"]["3"]
    texts = list(data.texts)
    main, helper = shown["conversations"]
    assert [(one["role"], texts[one["text"]]) for one in main] == [
        ("user", "Where is it?"),
        ("assistant", ""),
        ("tool", f"␛[31m\ufffd{HOSTILE}"),
        ("assistant", "North."),
    ]
    ((_, name, arguments),) = main[1]["calls"]
    assert (name, texts[arguments]) == ("look", '{"at": "N"}')
    assert main[2]["of"] == main[1]["calls"][0][0]
    assert [texts[one["text"]] for one in helper] == ["Think.", "Done."]
    assert (shown["reward"], shown["success"], shown["metrics"]) == ("0.5", False, {"turns": "2"})
    assert json.loads(shown["details"]) == {"why": "late"}
    assert (unscored["cause"], unscored["detail"]) == ("timeout", "It took 300 s.")
    assert unscored["reward"] == ""


def test_the_page_holds_no_markup_of_a_rollout(store: FolderStore) -> None:
    put(store, 0, game())
    page = rollouts_html(gather_rollouts(store, "m"), f"m{HOSTILE}", "s3://b", datetime.now(UTC))
    assert "alert(1)" in page and "<script>alert" not in page
    assert any(HOSTILE in text for text in embedded(page)["texts"])
    assert "default-src 'none'" in page
    # Nor is half a character its end.
    cut = {**ASKED, "function": {"name": "look", "arguments": "\ud83d"}}
    put(store, 0, Rollout(SCENARIO, 0, (said(answer={"tool_calls": [cut]}),), Score(0.5)))
    page = rollouts_html(gather_rollouts(store, "m"), "m", "s3://b", datetime.now(UTC))
    assert embedded(page)["texts"] == ["?", ""]


def repeated() -> Rollout:
    """Two turns whose calls have the same id, one after the other, and a call of a custom tool."""
    start = {"role": "user", "content": "Go on."}
    custom = {"id": "c2", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    noted = {"role": "assistant", "content": "", "tool_calls": [custom]}
    first = said(start, noted, answer={"content": None, "tool_calls": [ASKED]})
    north = {"role": "tool", "tool_call_id": "c1", "content": "a wall"}
    second = said(*first.messages, first.message, north, answer=first.message)
    south = {"role": "tool", "tool_call_id": "c1", "content": "a door"}
    third = said(*second.messages, second.message, south, answer={"content": "Out."})
    return Rollout(SCENARIO, 0, (first, second, third), Score(1.0))


def test_each_call_has_its_own_result_though_an_id_comes_again() -> None:
    shown = show_conversation(repeated())
    labels = re.findall("<summary>(.*?)</summary>", shown)
    assert [label.partition("→ ")[2] for label in labels] == ["a wall", "a door"]
    assert "  calls shell(ls)" in plain_conversation(repeated()).splitlines()
    assert "shell" in read_by_examples(repeated())


def test_the_newest_steps_are_shown_or_what_is_asked_for(store: FolderStore) -> None:
    put(store, 0, rollout(text="x" * 300_000))
    (long,) = [text for text in gather_rollouts(store, "m").texts if text.startswith("xx")]
    assert len(long) < 101_000 and "300,000 characters" in long
    for step in range(40):
        put(store, step, rollout(text=f"{step} " * 500))
    data = gather_rollouts(store, "m", bytes_max=10_000)
    steps = sorted(map(int, data.steps["train"]))
    assert steps[-1] == 39 and 4 < len(steps) < 12
    assert data.left_out == 40 - len(steps)
    page = rollouts_html(data, "m", "", datetime.now(UTC))
    assert f"{data.left_out} earlier steps had no room" in page
    assert list(gather_rollouts(store, "m", steps=[7]).steps["train"]) == ["7"]


def test_what_is_not_there_is_a_sentence(store: FolderStore) -> None:
    with pytest.raises(StoreError, match="holds no rollouts of 'm'"):
        gather_rollouts(store, "m")
    put(store, 4, rollout())
    with pytest.raises(StoreError, match=r"holds no such rollouts of 'm'.*It has steps 4 to 4"):
        gather_rollouts(store, "m", steps=[5])


@pytest.mark.parametrize("metadata", ["{", '{"others": "["}', '{"others": "[[1]]"}', "7"])
def test_a_file_that_another_has_written_is_refused(store: FolderStore, metadata: str) -> None:
    put(store, 1, rollout())
    file = store.root / trajectories_key("m", "train", 1)
    pl.read_parquet(file).with_columns(metadata=pl.lit(metadata)).write_parquet(file)
    with pytest.raises(StoreError, match=r"rollouts of 'm' in .* can't be read"):
        gather_rollouts(store, "m")
