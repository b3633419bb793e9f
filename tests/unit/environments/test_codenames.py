"""The example Codenames: two conversations of one policy, whose team wins or loses together."""

import random
from typing import Any

import pytest

from precis.environments.conversations import conversations_of
from precis.environments.trajectories import trajectory_of
from precis.llm.server import ChatRequest, ToolCall
from precis.records.rollout import Rollout
from tests.support.examples import call, example, module_of, play, score_of
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
    assert score.metrics == {
        "turns": 5 + 9,
        "illegal": 0,
        "rounds": 5,
        "found": 9,
        "assassin": False,
    }
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


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("give_clue", {"word": "animal", "number": 7}, "The number is from 1 to 4."),
        ("give_clue", {"word": "animal", "number": True}, "The number is from 1 to 4."),
        ("give_clue", {"word": "zoo", "number": 1}, "The word is none of the clues"),
        ("give_clue", {"word": ["animal"], "number": 1}, "The word is none of the clues"),
        ("guess", {"word": "zoo"}, "That is no word on the board"),
        ("guess", {"word": "pass"}, "Guess one word at least."),
        ("guess", {"word": {}}, "No call that can be read"),
    ],
)
async def test_an_illegal_call_is_answered_in_its_own_conversation(
    tool: str, arguments: dict[str, Any], said: str
) -> None:
    owners = owners_of(0)

    def say(request: ChatRequest) -> ToolCall:
        if tool_of(request) == tool and len(request.messages) == 2:
            return call(request, tool, **arguments)
        if tool_of(request) == "give_clue":
            return call(request, "give_clue", word="animal", number=1)
        assassin = next(one for one in owners if owners[one] == "assassin")
        return call(request, "guess", word=assassin)

    (rollout,) = await play(example("codenames.py"), ScriptedPolicy(say), 1)
    answered = next(one for one in rollout.calls if len(one.messages) == 4)
    assert answered.tools[0]["function"]["name"] == tool
    assert answered.messages[-1]["role"] == "tool"
    assert answered.messages[-1]["content"].startswith(said)
    assert (rollout.metrics["illegal"], rollout.metrics["turns"]) == (1, 3)
