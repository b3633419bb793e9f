"""Games of TextArena: played to their end through the recorder, in a process that is sealed off."""

import asyncio
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from precis.config import RunConfig, TrainConfig
from precis.environments.isolated import IsolatedError
from precis.environments.recorder import Recorder
from precis.environments.textarena import environment as module
from precis.environments.textarena.environment import Opponent, TextArenaEnvironment, load_textarena
from precis.errors import ConfigError, ProviderRejected
from precis.llm.server import ApiError, ChatRequest, Choice, Completion, completions_app
from precis.records.rollout import Rollout
from precis.settings.environment import OpponentSettings, TextArenaSettings, opponent_of
from tests.support.examples import LIMITS, Baseline, LastingModule, play, score_of
from tests.support.local_server import served
from tests.support.scripted_policy import ScriptedPolicy, asked

KEY = "a-key-that-must-not-be-seen"
BRACKETED = re.compile(r"\[[^\[\]\n]{1,40}\]")
GAMES = ["TicTacToe-v0", "Nim-v0", "KuhnPoker-v0", "ThreePlayerTicTacToe-v0"]
ALONE = ["FrozenLake-v0", "Blackjack-v0"]


GAMES_PROCESS = LastingModule("precis.environments.textarena.games")


@pytest.fixture(scope="module", autouse=True)
def lists(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which the process looks for lists of words; it is empty."""
    folder = tmp_path_factory.mktemp("nltk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NLTK_DATA", str(folder))
        # Both may be there, and nothing of them must get into a game.
        patch.setenv("OPENROUTER_API_KEY", KEY)
        patch.setenv("OPPONENT_API_KEY", KEY)
        yield folder
    GAMES_PROCESS.close_now()


def environment(game: str, **given: Any) -> TextArenaEnvironment:
    settings = TextArenaSettings.model_validate({"game": game, "show_moves": True, **given})
    model = opponent_of(settings)
    opponent = Opponent(model, {"OPPONENT_API_KEY": KEY}) if model else None
    return TextArenaEnvironment(settings, GAMES_PROCESS, "0.7.4", opponent)


def last_allowed(request: ChatRequest) -> str:
    """The last move in brackets of what the game has said: one that it allows."""
    said: list[str] = BRACKETED.findall(request.messages[-1]["content"])
    return said[-1]


@contextmanager
def opponent(say: Any = last_allowed) -> Iterator[tuple[dict[str, Any], list[ChatRequest]]]:
    """The settings of a model that plays, and all that it is asked within the block."""
    requests: list[ChatRequest] = []

    async def complete(request: ChatRequest) -> Completion:
        requests.append(request)
        return Completion("o", [Choice(say(request))])

    with served(completions_app(complete, lambda: ["o"], KEY)) as url:
        yield {"model": "o", "provider": "url", "base_url": f"{url}/v1"}, requests


async def games_of(game: str, count: int = 4, **settings: Any) -> list[Rollout]:
    return await play(environment(game, **settings), ScriptedPolicy(last_allowed), count)


@pytest.mark.parametrize("game", [*GAMES, *ALONE])
async def test_whole_games_are_played_against_random_moves(game: str) -> None:
    rollouts = await games_of(game, 4 if game in GAMES else 1)
    for rollout in rollouts:
        score = score_of(rollout)
        assert score.metrics["turns"] == len(rollout.calls)
        assert score.metrics["illegal"] == 0
        assert score.details["reason"]
        assert score.success == (score.reward >= 1)
    if game in GAMES:
        # The policy is asked first in some of them, and not in others.
        assert len({rollout.calls[0].messages[1]["content"] for rollout in rollouts}) > 1


@pytest.mark.parametrize("game", ["Nim-v0", "KuhnPoker-v0", "ThreePlayerTicTacToe-v0"])
async def test_a_model_has_the_other_seats_and_nothing_of_it_is_recorded(game: str) -> None:
    with opponent() as (settings, requests):
        rollouts = await games_of(game, 2, opponent=settings)
    assert all(score_of(one).metrics["illegal"] == 0 for one in rollouts)
    assert requests
    calls = [call for one in rollouts for call in one.calls]
    assert len(calls) == sum(score_of(one).metrics["turns"] for one in rollouts)
    assert {call.served_by for call in calls} == {"policy@3"}
    for call in calls:
        said = {one["content"] for one in call.messages if one["role"] == "assistant"}
        assert said <= {one.text for one in calls}
    assert KEY not in str(rollouts)


async def test_a_game_follows_from_its_scenario_whatever_else_is_played() -> None:
    alone = await games_of("KuhnPoker-v0", 3)
    with_others = environment("KuhnPoker-v0")
    scenarios = with_others.scenarios("train")
    async with (
        with_others,
        asked(ScriptedPolicy(last_allowed), limits=LIMITS) as policy,
        Recorder() as recorder,
    ):
        runs = [recorder.run(policy, with_others, one) for one in [*scenarios[:3]] * 3]
        together = await asyncio.gather(*runs)
    for place, rollout in enumerate(together):
        twin = alone[place % 3]
        assert [one.messages for one in rollout.calls] == [one.messages for one in twin.calls]
        assert rollout.score == twin.score


def test_splits_have_no_game_in_common() -> None:
    splits = environment("Nim-v0", size=900, val_size=90)
    train, held_out = splits.scenarios("train"), splits.scenarios("validation")
    assert (len(train), len(held_out)) == (900, 90)
    seeds = [one["seed"] for one in (*train, *held_out)]
    others = environment("Nim-v0", seed=2).scenarios("train")
    assert len(set(seeds)) == 990
    assert not {one["seed"] for one in others} & set(seeds)


def test_games_against_another_opponent_are_won_by_other_rules() -> None:
    other = {"model": "o", "provider": "url", "base_url": "http://127.0.0.1:9/v1"}
    random, same = environment("Nim-v0"), environment("Nim-v0")
    assert environment("Nim-v0", opponent=other).rules != random.rules == same.rules


async def test_a_game_that_does_not_end_earns_nothing() -> None:
    [rollout] = await games_of("2048-v0-extreme", 1, moves_max=3)
    score = score_of(rollout)
    assert (score.reward, score.success, len(rollout.calls)) == (0.0, False, 3)
    assert "not over after 3 moves" in score.details["reason"]


async def test_a_random_player_is_a_baseline_that_keeps_to_the_rules() -> None:
    game = environment("ConnectFour-v0", show_moves=False)
    random_player = game.baselines()["random"]

    rollouts = await play(game, Baseline(game, "random"), 6)
    assert {score_of(one).metrics["illegal"] for one in rollouts} == {0.0}
    assert len({tuple(call.text for call in one.calls) for one in rollouts}) == 6
    with pytest.raises(ApiError, match="No game is under way"):
        await random_player(ChatRequest(model="m", messages=[{"role": "user", "content": "?"}]))


async def test_a_failing_opponent_costs_a_game_or_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: ChatRequest) -> str:
        raise ApiError(413, "The prompt is too long.", "too_long")

    with opponent(fail) as (settings, _):
        [rollout] = await games_of("Nim-v0", 1, opponent=settings)
        assert rollout.score.cause == "opponent_failed"
        monkeypatch.setenv("OPPONENT_API_KEY", "wrong")
        monkeypatch.setattr(module, "IsolatedModule", lambda _: GAMES_PROCESS)
        given = TextArenaSettings.model_validate({"game": "Nim-v0", "opponent": settings})
        with pytest.raises(ProviderRejected, match="OPPONENT_API_KEY"):
            await play(load_textarena(given), ScriptedPolicy(lambda _: "[0 1]"), 2)


@pytest.mark.parametrize(("model", "is_priced"), [("o", False), ("openai/gpt-4.1", True)])
def test_the_games_of_a_paid_opponent_are_forecast(model: str, is_priced: bool) -> None:
    sizes = {"groups_per_step": 2, "rollouts_per_group": 4, "replacements_max": 1}
    settings = {"steps": 5, "validate_every": 5, "rollouts": {**sizes, "turns_max": 9}}
    config = TrainConfig.model_validate(settings)
    paid = {"model": model, "provider": "url", "base_url": "http://127.0.0.1:9/v1"}
    (ahead,) = environment("Nim-v0", opponent=paid, val_size=7).forecasts(config, 3)
    games = (5 - 3) * (2 + 1) * 4 + 7
    assert f"opponent {model} will play about {games} games, of at most 9 turns" in str(ahead)
    assert bool(ahead.warnings) != is_priced
    assert not environment("Nim-v0").forecasts(config, 0)


async def test_an_opponent_is_tried_in_preflight() -> None:
    with opponent(lambda _: "ready") as (settings, requests):
        async with environment("Nim-v0", opponent=settings) as game:
            assert await game.checks() == ()
            assert game.spend.calls == len(requests) == 1
    async with environment("Nim-v0", opponent=settings) as game:
        [problem] = await game.checks()
    assert problem.startswith("The opponent 'o' does not answer")
    with pytest.raises(ConfigError, match="OPENROUTER_API_KEY"):
        Opponent(OpponentSettings(model="m"), {})


@pytest.mark.parametrize(
    ("game", "reason"),
    [
        ("Hangman-v0", "needs word lists of nltk"),
        ("GuessWho-v0", "a model at OpenRouter is part of it"),
        ("ScorableGames-v0", "FileNotFoundError"),
        ("CharacterConclave-v0", "each move fails with TypeError"),
        ("NewRecruit-v0", "name a model in environment.opponent"),
        ("ConectFour-v0", "has no game 'ConectFour-v0'; it has ConnectFour-v0"),
        ("TicTacToe-v0", ""),
    ],
)
async def test_preflight_says_what_keeps_a_game_from_being_played(game: str, reason: str) -> None:
    async with environment(game) as tried:
        problems = await tried.checks()
    assert len(problems) == bool(reason)
    assert reason in "".join(problems)
    assert all(problem.endswith(".") and problem.count("\n") == 0 for problem in problems)


def test_preflight_names_the_python_that_a_game_needs() -> None:
    """Python 3.11 can't read the code of Chess, which later ones play."""
    assert "needs Python 3.12" in module._explain(
        "SyntaxError: f-string: unmatched '[' (env.py, line 62)"
    )


async def test_a_process_that_is_killed_costs_the_games_that_it_held() -> None:
    """And no game goes on with another's moves."""
    moves = 0

    def kill_once(request: ChatRequest) -> str:
        nonlocal moves
        moves += 1
        process = GAMES_PROCESS._process
        if moves == 5 and process is not None:
            process.kill()
        return last_allowed(request)

    game = environment("TicTacToe-v0")
    async with game, asked(ScriptedPolicy(kill_once)) as policy, Recorder() as recorder:
        scenarios = game.scenarios("train")[:4]
        first = await asyncio.gather(*[recorder.run(policy, game, one) for one in scenarios])
        later = await asyncio.gather(*[recorder.run(policy, game, one) for one in scenarios])
    assert {one.score.cause for one in first} == {"environment_died"}
    assert {score_of(one).metrics["illegal"] for one in later} == {0.0}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"opponent": {"model": "m", "provider": "url"}}, "must start with http"),
        ({"moves_max": 51}, "lower it, or raise rollouts.turns_max"),
    ],
)
def test_settings_that_can_t_work_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        RunConfig.model_validate({"environment": {"kind": "textarena", "game": "Nim-v0", **given}})


async def test_a_game_whose_start_is_given_up_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[Any, ...]] = []
    call = LastingModule.call

    async def watched(games: LastingModule, function: str, *arguments: Any) -> Any:
        called.append((function, *arguments))
        return await call(games, function, *arguments)

    monkeypatch.setattr(LastingModule, "call", watched)
    game = environment("TicTacToe-v0")
    [scenario, *_] = game.scenarios("train")
    model: Any = None  # it is asked for nothing
    rollout = asyncio.create_task(game.rollout(model, scenario))
    while not called:
        await asyncio.sleep(0)
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    number = called[0][1]
    assert called[-1] == ("end", number)
    with pytest.raises(IsolatedError, match="The game was lost"):
        GAMES_PROCESS.call_now("moves", number)


async def test_a_game_of_words_is_played_once_its_lists_are_there(lists: Path) -> None:
    words = lists / "corpora" / "words"
    words.mkdir(parents=True)
    for name in ("en", "en-basic"):
        (words / name).write_text("apple\nbread\ncheese\n")
    game = environment("Hangman-v0")
    try:
        async with game:
            assert await game.checks() == ()
        letters = iter("aeiouplbrdchs")
        [rollout] = await play(game, ScriptedPolicy(lambda _: f"[{next(letters)}]"), 1)
    finally:
        shutil.rmtree(lists / "corpora")
        GAMES_PROCESS.close_now()  # it has read them
    assert score_of(rollout).reward > 0
