"""The example Codenames: two conversations of one policy, whose team wins or loses together."""

import random
from pathlib import Path
from typing import Any

import pytest

from precis.environments.conversations import conversations_of
from precis.environments.trajectories import trajectory_of
from precis.llm.server import ChatRequest, ToolCall
from precis.records.rollout import Rollout
from tests.support.examples import EXAMPLES, call, example, module_of, play, score_of, with_settings
from tests.support.scripted_policy import ScriptedPolicy

GAME: Any = module_of(example("codenames.py"))


def tool_of(request: ChatRequest) -> str:
    return str((request.tools or [])[0]["function"]["name"])


def owners_of(number: int) -> dict[str, str]:
    """Whose the words of the scenario of this number are."""
    seed = example("codenames.py").scenarios("train")[number]["seed"]
    owners: dict[str, str] = GAME.dealt(random.Random(seed))
    return owners


def board_of(request: ChatRequest) -> list[str]:
    return list(request.messages[-1]["content"].partition("\n")[0].split(", "))


async def play_one(owner: str) -> Rollout:
    """A game whose guesser knows the key, and touches words of this owner."""
    owners = owners_of(0)

    def say(request: ChatRequest) -> ToolCall:
        if tool_of(request) == "give_clue":
            return call(request, "give_clue", word="animal", number=2)
        word = next(one for one in board_of(request) if owners[one] == owner)
        return call(request, "guess", word=word)

    (rollout,) = await play(example("codenames.py"), ScriptedPolicy(say), 1)
    return rollout


async def test_a_team_that_finds_all_its_words_wins_together() -> None:
    rollout = await play_one("ours")
    score = score_of(rollout)
    assert (score.reward, score.success) == (1.0, True)
    assert (score.metrics["turns"], score.metrics["rounds"], score.metrics["found"]) == (14, 5, 9)
    conversations = conversations_of(rollout.calls)
    assert len(conversations) == 2
    for conversation, name in zip(conversations, ("give_clue", "guess"), strict=True):
        assert conversation.tools[0]["function"]["name"] == name
    assert len(trajectory_of(rollout).additional_histories) == 1


async def test_the_guesser_never_sees_whose_the_words_are() -> None:
    _, guesser = conversations_of((await play_one("ours")).calls)
    for owner in ("ours", "theirs", "bystander", "assassin"):
        said = [one["content"] for one in guesser.messages[1:] if one["role"] != "assistant"]
        assert not any(owner in content for content in said)


@pytest.mark.parametrize(("owner", "rounds", "turns"), [("assassin", 1, 2), ("theirs", 4, 8)])
async def test_the_assassin_ends_the_game_and_so_do_the_other_team_s_words(
    owner: str, rounds: int, turns: int
) -> None:
    score = score_of(await play_one(owner))
    assert (score.reward, score.success) == (0.0, False)
    assert score.metrics["assassin"] == (owner == "assassin")
    # Of the other team's 8 words a round uncovers two.
    assert (score.metrics["rounds"], score.metrics["turns"]) == (rounds, turns)


async def test_who_passes_keeps_what_was_found() -> None:
    owners = owners_of(0)

    def say(request: ChatRequest) -> ToolCall:
        if tool_of(request) == "give_clue":
            return call(request, "give_clue", word="animal", number=4)
        ours = [one for one in board_of(request) if owners[one] == "ours"]
        last = [one for one in request.messages if one["role"] == "assistant"][-1:]
        if last and "pass" not in str(last):
            return call(request, "guess", word="pass")
        return call(request, "guess", word=ours[0])

    (rollout,) = await play(example("codenames.py"), ScriptedPolicy(say), 1)
    # The other team finds its eighth word in the eighth round.
    assert score_of(rollout).reward == pytest.approx(0.5 * 8 / 9)
    assert (rollout.metrics["turns"], rollout.metrics["found"]) == (24, 8)


def test_a_call_against_the_rules_is_told_which() -> None:
    left = owners_of(0)
    assert GAME.clue_problem({"word": "animal", "number": 7}, left) == "The number is from 1 to 4."
    for word, said in (("animal", ""), ("zoo", "The word is none of the clues in the list.")):
        assert GAME.clue_problem({"word": word, "number": 1}, left) == said
    for word, guesses, said in (
        (next(iter(left)), 0, ""),
        ("zoo", 1, "That is no word on the board, or no longer."),
        ("pass", 1, ""),
        ("pass", 0, "Guess one word at least."),
    ):
        assert GAME.guess_problem({"word": word}, left, guesses) == said


async def test_a_free_clue_is_no_part_of_a_word_on_the_board(tmp_path: Path) -> None:
    words = tmp_path / "codenames_words.py"
    words.write_text((EXAMPLES / words.name).read_text("utf-8"), "utf-8")
    environment = with_settings("codenames.py", tmp_path, FREE_CLUES=True)
    board = next(iter(owners_of(0)))
    given = iter([f"{board}s", board[:-1].upper(), "two words", "zoo"])

    def say(request: ChatRequest) -> ToolCall:
        if tool_of(request) == "give_clue":
            return call(request, "give_clue", word=next(given), number=1)
        return call(request, "guess", word="pass")

    (rollout,) = await play(environment, ScriptedPolicy(say), 1)
    said = [one["content"] for one in rollout.calls[2].messages if one["role"] == "tool"]
    assert (
        said
        == [f"A clue may not be part of a word on the board: {board}. Call `give_clue` again."] * 2
    )
    assert score_of(rollout).reward == 0.0
