"""Runs in this process that begin by imitation of a teacher or of a file, and one of a game."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from precis.config import DocumentsConfig
from precis.environments.summaries.baselines import baselines, lead
from precis.errors import BudgetReached, RolloutError
from precis.llm.server import ApiError, ChatRequest, Choice, Completion, ToolCall, completions_app
from precis.records.documents import load_corpus
from precis.records.ledger import load_ledger
from precis.records.trajectories import scan_trajectories
from tests.support import echoing
from tests.support.in_process import Life, one_process
from tests.support.local_server import served

KEY = "a-key-that-must-not-be-seen"
DOCUMENTS = {"source": "bundled", "train_size": 12, "val_size": 3}


@pytest.fixture(autouse=True)
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CONTENDER_API_KEY", KEY)
    with one_process(tmp_path / "home"):
        yield


def run(store: Path, settings: dict[str, Any], **warm_start: Any) -> Life:
    warm = {"measured_scenarios": 2, **warm_start}
    return Life(store, {"steps": 1, "documents": DOCUMENTS, "warm_start": warm, **settings})


@contextmanager
def teaching() -> Iterator[tuple[dict[str, Any], list[ChatRequest]]]:
    """A teacher's settings, and all that it is asked within the block; it is dear, and its first
    summary is too long."""
    asked: list[ChatRequest] = []

    async def complete(request: ChatRequest) -> Completion:
        asked.append(request)
        if len(asked) == 1:
            return Completion("t", [Choice("mayor " * 400)])
        return await baselines()["lead-350"](request)

    with served(completions_app(complete, lambda: ["t"], KEY)) as url:
        address = {"model": "t", "provider": "url", "base_url": f"{url}/v1"}
        yield {**address, "prices": [1e3, 1e3]}, asked


async def test_a_teacher_is_paid_once_for_all_runs_of_a_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledgers = []
    with teaching() as (teacher, asked):
        for seed, model in enumerate(("first", "second")):
            settings = {"model": model, "seed": seed}
            life = run(tmp_path / "store", settings, source="teacher", scenarios=5, teacher=teacher)
            await life.live()
            ledgers.append(load_ledger(life.store, model))
    assert KEY not in caplog.text
    assert len(asked) == 5
    first, second = (ledger.steps[0].warm_start for ledger in ledgers)
    assert first is not None
    assert second is not None
    assert (first.source, first.demonstrations, second.demonstrations) == ("teacher", 4, 4)
    assert first.left_out == {"over_length": 1}, "it would earn nothing"
    assert first.usd == ledgers[0].usd > 0
    assert second.usd == ledgers[1].usd == 0


async def test_a_run_that_has_spent_its_budget_keeps_what_the_teacher_wrote(tmp_path: Path) -> None:
    with teaching() as (teacher, asked):
        warm = {"source": "teacher", "scenarios": 5, "teacher": teacher}
        poor = run(tmp_path / "store", {"budget_usd": 4.0}, **warm)
        with pytest.raises(BudgetReached) as stopped:
            await poor.live()
        assert "Raise budget_usd and start the run again to continue" in str(stopped.value)
        paid = len(asked)
        assert 0 < paid < 5
        assert 0 < load_ledger(poor.store, "m").usd <= 4.0
        await run(tmp_path / "store", {"budget_usd": 400.0}, **warm).live()
    assert len(asked) == 5
    ledger = load_ledger(poor.store, "m")
    made = ledger.steps[0].warm_start
    assert made is not None
    assert made.usd == pytest.approx(ledger.usd)


async def test_a_teacher_that_fails_too_often_stops_the_run_and_says_why(tmp_path: Path) -> None:
    async def answer(_: ChatRequest) -> Completion:
        raise ApiError(500, "overloaded", "server_error")

    with served(completions_app(answer, lambda: ["t"], KEY)) as url:
        address = {"provider": "url", "base_url": f"{url}/v1", "model": "t"}
        teacher = {**address, "prices": [1.0, 1.0], "tries_max": 1}
        life = run(tmp_path / "store", {}, source="teacher", scenarios=5, teacher=teacher)
        with pytest.raises(RolloutError, match="ended only 0 of 5 summaries"):
            await life.live()


async def test_a_file_of_summaries_needs_no_judge_to_begin_with(tmp_path: Path) -> None:
    corpus = load_corpus(DocumentsConfig.model_validate(DOCUMENTS))
    rows = []
    for document in (*corpus.train[:4], *corpus.validation[:1]):
        rows.append({"document_id": document.id, "summary": lead(document.text, 100)})
    file = tmp_path / "summaries.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    life = run(tmp_path / "store", {}, source="file", file=str(file))
    await life.live()
    made = load_ledger(life.store, "m").steps[0].warm_start
    assert made is not None
    assert (made.source, made.scenarios, made.demonstrations) == ("file", 4, 4)
    assert made.left_out == {"held_out": 1}
    assert made.reward is None
    async with life.opened() as again:
        assert {one.id for one in again.drawn} == {one.id for one in corpus.train[4:]}


async def press_the_lamp(request: ChatRequest) -> Completion:
    """A teacher that presses the colour that is shown; of one lamp it does not."""
    said = str(request.messages[-1]["content"])
    colour = said.removeprefix("The lamp is ").rstrip(".")
    arguments = json.dumps({"colour": "red" if "lamp is blue" in said else colour})
    called = ToolCall("1", "press", arguments)
    return Completion("t", [Choice("", "tool_calls", tool_calls=[called])])


def shown_game(number: int) -> dict[str, Any]:
    """A game without a fault, as a line of a file has it."""
    messages: list[Any] = []
    for turn in range(2):
        colour = echoing.COLOURS[(number + turn) % 3]
        # Others write JSON in other ways.
        function = {"name": "press", "arguments": f'{{"colour":"{colour}"}}'}
        call = {"id": str(turn), "type": "function", "function": function}
        messages.append({"role": "user", "content": f"The lamp is {colour}."})
        messages.append({"role": "assistant", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": str(turn), "content": "Pressed."})
    return {"id": f"lamp-{number}", "messages": messages, "tools": [echoing.PRESS]}


AGENT: dict[str, Any] = {
    "environment": {"kind": "python", "file": echoing.__file__},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 3, "scored_min": 2},
    "validate_every": 1,
}


async def test_an_agent_imitates_a_file_of_games_and_plays_as_they_show(tmp_path: Path) -> None:
    file = tmp_path / "games.jsonl"
    file.write_text("\n".join(json.dumps(shown_game(number)) for number in (0, 1, 2, 9)))
    warm = {"source": "file", "file": str(file), "epochs": 40}
    life = run(tmp_path / "store", AGENT, **warm)
    await life.live()
    ledger = load_ledger(life.store, "m")
    made = ledger.steps[0].warm_start
    assert made is not None
    assert (made.source, made.scenarios, made.demonstrations) == ("file", 3, 3)
    assert made.left_out == {"held_out": 1}
    before, after = (one.score.value for one in ledger.validations)
    assert before < after == 1.0


async def test_a_teacher_plays_an_agents_games_and_those_it_won_are_imitated(
    tmp_path: Path,
) -> None:
    with served(completions_app(press_the_lamp, lambda: ["t"], KEY)) as url:
        teacher = {"model": "t", "provider": "url", "base_url": f"{url}/v1", "prices": [1e3, 1e3]}
        warm = {"source": "teacher", "scenarios": 6, "teacher": teacher, "reward_min": 1.0}
        life = run(tmp_path / "store", AGENT, **warm)
        await life.live()
    ledger = load_ledger(life.store, "m")
    made = ledger.steps[0].warm_start
    assert made is not None
    assert (made.demonstrations, made.left_out) == (2, {"below_reward_min": 4})
    assert made.reward == 1.0
    assert made.usd > 0


async def test_a_game_is_trained_on(tmp_path: Path) -> None:
    game = {"kind": "textarena", "game": "TicTacToe-v0", "size": 12, "val_size": 3}
    rollouts = {"groups_per_step": 2, "rollouts_per_group": 3, "scored_min": 2}
    life = Life(tmp_path / "run", {"environment": game, "rollouts": rollouts, "steps": 1})
    await life.live()
    assert [one.step for one in load_ledger(life.store, "m").validations] == [0, 1]
    frame = scan_trajectories(life.store, "m", "train").collect()
    assert frame.height == 2 * 3
    assert frame["reward"].null_count() == 0
    assert set(frame["reward"]) <= {-1.0, 0.0, 1.0}
    assert all(row["turns"] >= max(1, row["illegal"]) for row in frame.iter_rows(named=True))
    assert "You are Player" in frame["messages"][0][1]["content"]
