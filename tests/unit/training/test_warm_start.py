"""Runs that begin by imitation of a teacher or of a file, and one of a game; what they keep."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import art
import pytest

from precis.config import DocumentsConfig, TrainConfig
from precis.environments.summaries.baselines import baselines, lead
from precis.errors import BudgetReached, ProviderRejected, RolloutError, StoreConflict, StoreError
from precis.llm.server import (
    ApiError,
    ChatRequest,
    Choice,
    Complete,
    Completion,
    ToolCall,
    completions_app,
)
from precis.records.documents import load_corpus
from precis.records.ledger import load_ledger
from precis.records.rollout import Scenario
from precis.records.samples import tokens_of
from precis.records.trajectories import scan_trajectories
from precis.records.warm_start import Demonstration, ShownConversation, WarmStartRecord
from precis.runs.trained_on import trained_on
from precis.store import FolderStore
from precis.trainer.protocol import decode_groups, encode_groups
from precis.training.preflight import check_warm_start
from precis.training.warm_start import DemonstrationJournal, sft_options, trajectory_of
from tests.support import echoing
from tests.support.dying_store import SilentStore
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


def begun_by(life: Life, model: str = "m") -> WarmStartRecord:
    made = load_ledger(life.store, model).steps[0].warm_start
    assert made is not None
    return made


@contextmanager
def teaching(complete: Complete) -> Iterator[dict[str, Any]]:
    """The settings of a teacher that is dear, and is there within the block."""
    with served(completions_app(complete, lambda: ["t"], KEY)) as url:
        address = {"model": "t", "provider": "url", "base_url": f"{url}/v1"}
        yield {**address, "prices": [1e3, 1e3]}


class Writer:
    """A teacher whose first summary is too long."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self, request: ChatRequest) -> Completion:
        self.asked += 1
        if self.asked == 1:
            return Completion("t", [Choice("mayor " * 400)])
        return await baselines()["lead-350"](request)


async def test_a_teacher_is_paid_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = Writer()
    with teaching(writer) as teacher:
        warm = {"source": "teacher", "scenarios": 5, "teacher": teacher}
        poor = run(tmp_path / "store", {"budget_usd": 4.0}, **warm)
        with pytest.raises(BudgetReached) as stopped:
            await poor.live()
        assert "Raise budget_usd and start the run again to continue" in str(stopped.value)
        paid = writer.asked
        assert 0 < paid < 5
        with pytest.raises(BudgetReached):
            await poor.live()
        assert writer.asked == paid, "what an earlier start has spent is forgotten"
        assert 0 < load_ledger(poor.store, "m").usd <= 4.0
        await run(tmp_path / "store", {"budget_usd": 400.0}, **warm).live()
        await run(tmp_path / "store", {"model": "second", "seed": 1}, **warm).live()
    assert KEY not in caplog.text
    assert writer.asked == 5
    first, second = begun_by(poor), begun_by(poor, "second")
    assert (first.source, first.demonstrations, second.demonstrations) == ("teacher", 4, 4)
    assert first.left_out == {"over_length": 1}, "it would earn nothing"
    assert first.usd == pytest.approx(load_ledger(poor.store, "m").usd)
    assert first.usd > 0
    assert second.usd == load_ledger(poor.store, "second").usd == 0


async def test_a_teacher_that_fails_too_often_stops_the_run_and_says_why(tmp_path: Path) -> None:
    async def answer(_: ChatRequest) -> Completion:
        raise ApiError(500, "overloaded", "server_error")

    with teaching(answer) as teacher:
        once = {**teacher, "tries_max": 1}
        life = run(tmp_path / "store", {}, source="teacher", scenarios=5, teacher=once)
        with pytest.raises(RolloutError, match=r"0 of 5 summaries \(5 generation_server_error\)"):
            await life.live()


async def test_a_teacher_that_rejects_the_key_is_found_out_first(tmp_path: Path) -> None:
    statuses = [402]

    async def answer(request: ChatRequest) -> Completion:
        if statuses[-1] != 200:
            raise ApiError(statuses[-1], "Not now.", "error")
        if request.messages[0]["content"] == "Hello.":
            return Completion("t", [Choice("Hello!")])
        return await baselines()["lead-350"](request)

    async def check(life: Life) -> str:
        async with life.opened() as opened:
            return await check_warm_start(life.config, opened.environment)

    with teaching(answer) as teacher:
        life = run(tmp_path / "store", {}, source="teacher", scenarios=5, teacher=teacher)
        with pytest.raises(ProviderRejected, match="has no credit left"):
            await check(life)
        for status in (503, 422):  # the store may have its answers
            statuses.append(status)
            assert "/v1, which does not answer a greeting: " in await check(life)
        statuses.append(200)
        assert (await check(life)).endswith("/v1, which answers")
        await life.live()
        statuses.append(402)
        assert (await check(life)).endswith("/v1"), "it is asked though the warm start is over"


async def test_a_file_of_summaries_needs_no_judge_to_begin_with(tmp_path: Path) -> None:
    corpus = load_corpus(DocumentsConfig.model_validate(DOCUMENTS))
    rows = []
    for document in (*corpus.train[:4], *corpus.validation[:1]):
        rows.append({"document_id": document.id, "summary": lead(document.text, 100)})
    own = "A harbour was built in Ost."
    rows.append({"text": own, "summary": own})
    file = tmp_path / "summaries.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    life = run(tmp_path / "store", {}, source="file", file=str(file))
    await life.live()
    made = begun_by(life)
    assert (made.source, made.scenarios, made.demonstrations) == ("file", 5, 5)
    assert made.left_out == {"held_out": 1}
    assert made.reward is None
    assert trained_on(life.store, "m", [own]) == [True], "a benchmark on it would test nothing"
    async with life.opened() as again:
        assert {one.id for one in again.drawn} == {one.id for one in corpus.train[4:]}


async def press_the_lamp(request: ChatRequest) -> Completion:
    """A teacher that presses the colours that are shown where the first is red, else wrong ones."""
    first, last = (
        str(request.messages[place]["content"]).removeprefix("The lamp is ").rstrip(".")
        for place in (0, -1)
    )
    pressed = {"red": last, "green": "red", "blue": "green"}[first]
    arguments = json.dumps({"colour": pressed})
    called = ToolCall("1", "press", arguments)
    return Completion("t", [Choice("", "tool_calls", tool_calls=[called])])


AGENT: dict[str, Any] = {
    "environment": {"kind": "python", "file": echoing.__file__},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 3, "scored_min": 2},
    "validate_every": 1,
}


async def test_a_teacher_plays_and_its_won_games_are_imitated(tmp_path: Path) -> None:
    with teaching(press_the_lamp) as teacher:
        warm = {"source": "teacher", "scenarios": 6, "teacher": teacher}
        life = run(tmp_path / "store", AGENT, **warm, epochs=40)
        await life.live()
    made = begun_by(life)
    assert (made.demonstrations, made.left_out) == (2, {"nothing_earned": 4})
    assert made.reward == 1.0
    assert made.usd > 0
    before, after = (one.score.value for one in load_ledger(life.store, "m").validations)
    assert before < after, "it does not play as it was shown"


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


def shown(number: int) -> Demonstration:
    asked = {"role": "user", "content": f"Question {number}"}
    answer = {"role": "assistant", "content": f"Answer {number}."}
    conversation = ShownConversation(messages=(asked, answer))
    return Demonstration(scenario_id=f"s{number}", conversations=(conversation,))


def test_what_was_collected_is_there_for_the_same_settings(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    DemonstrationJournal(store, "m", "c").add([shown(0), shown(1)])
    again, late = (DemonstrationJournal(store, "m", "c") for _ in range(2))
    scenarios = [Scenario(f"s{number}") for number in range(3)]
    assert again.missing(scenarios) == scenarios[2:]
    again.add([shown(2)])
    collected = DemonstrationJournal(store, "m", "c").kept.demonstrations
    assert collected == tuple(map(shown, range(3)))
    assert len(store.keys("m/warm-start/")) == 2, "each batch is written once"
    with pytest.raises(StoreConflict):
        late.add([shown(3)])  # two processes can't both add
    other = DemonstrationJournal(store, "m", "other")
    assert other.kept.demonstrations == ()
    other.add([shown(1)])
    assert DemonstrationJournal(store, "m", "other").kept.demonstrations == (shown(1),)


def test_what_a_batch_has_cost_counts_though_its_write_is_tried_again(tmp_path: Path) -> None:
    """A second try asks for nothing that was paid for, so it costs nothing more."""
    store = SilentStore(tmp_path)
    journal = DemonstrationJournal(store, "m", "c")
    store.silent = True
    with pytest.raises(StoreError, match="No whole answer"):
        journal.add([shown(0)], usd=2.0)
    store.silent = False
    journal.add([shown(0)])
    again = DemonstrationJournal(store, "m", "c")
    assert journal.kept == again.kept
    assert (again.kept.demonstrations, again.kept.usd) == ((shown(0),), 2.0)


def test_a_damaged_collection_says_what_to_do(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    journal = DemonstrationJournal(store, "m", "c")
    for number in range(3):
        journal.add([shown(number)])
    store.put("m/warm-start/c/00000.json", b"{")
    with pytest.raises(StoreError, match=r"00000.json can't be read .* Delete .*/m/warm-start/c/:"):
        DemonstrationJournal(store, "m", "c")
    store.delete_keys(["m/warm-start/c/00000.json", "m/warm-start/c/00001.json"])
    journal = DemonstrationJournal(store, "m", "c")
    for number in range(2):
        journal.add([shown(number)])
    kept = DemonstrationJournal(store, "m", "c").kept.demonstrations
    assert kept == (shown(2), shown(0), shown(1))


def test_what_the_policy_has_sampled_keeps_its_tokens_and_the_rest_is_as_it_was_shown() -> None:
    example = {"role": "assistant", "content": "So.", "weight": 0}
    said = {"role": "assistant", "content": "Own."}
    own = ShownConversation(messages=(example, said), tools=(echoing.PRESS,), token_ids={1: (5, 6)})
    other = ShownConversation(messages=({"role": "user", "content": "Other."}, said))
    one = Demonstration(scenario_id="s", conversations=(own, other))
    (sent,) = decode_groups(encode_groups([art.TrajectoryGroup([trajectory_of(one)])]))
    (trajectory,) = sent.trajectories
    assert trajectory.tools == [echoing.PRESS]
    assert trajectory.messages_and_choices[0] == example
    choice: Any = trajectory.messages_and_choices[1]
    assert (choice.message.content, list(tokens_of(choice).token_ids)) == ("Own.", [5, 6])
    assert trajectory.additional_histories[0].messages_and_choices == list(other.messages)


def test_the_learning_rate_rises_and_falls_over_all_updates_to_that_of_its_trainer() -> None:
    def options(warm_start: dict[str, Any], demonstrations: int, kind: str = "art") -> Any:
        settings = {"store": "/s", "warm_start": warm_start, "trainer": {"kind": kind}}
        return sft_options(TrainConfig.model_validate(settings), demonstrations)

    own = options({"epochs": 4, "batch_size": 3, "learning_rate": 0.1}, 14)
    rates = own["learning_rates"]
    assert own["batch_size"] == 3
    assert len(rates) == 20
    assert rates[:2] == pytest.approx([0.05, 0.1])
    assert rates[-1] == pytest.approx(0.1 / 18), "an update at a rate of 0 learns nothing"
    assert rates[1:] == sorted(rates[1:], reverse=True)
    assert max(options({}, 40)["learning_rates"]) == 2e-4
    assert max(options({}, 40, "extractive")["learning_rates"]) == 0.02
