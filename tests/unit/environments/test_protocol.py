"""What an environment inherits."""

from collections.abc import Sequence
from typing import Any

from precis.environments.protocol import Environment
from precis.records.rollout import Call, Rollout, Scenario, Score, Split


class Coin(Environment):
    """The least that an environment can be."""

    closed = False

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        return [Scenario("coin")]

    async def rollout(self, model: Any, scenario: Scenario) -> float:
        return 1.0

    async def close(self) -> None:
        self.closed = True


def call(*messages: dict[str, Any], answer: dict[str, Any]) -> Call:
    message = {"role": "assistant", **answer}
    return Call(messages, {"index": 0, "finish_reason": "stop", "message": message})


ASKED = {"role": "user", "content": "Heads or tails?"}
HEADS = {"role": "assistant", "content": "Heads."}
FALLEN = {"role": "user", "content": "Tails fell."}


async def test_an_environment_is_closed_when_its_block_is_left() -> None:
    async with Coin() as coin:
        assert not coin.closed
    assert coin.closed


async def test_two_functions_are_all_that_an_environment_must_have() -> None:
    coin = Coin()
    assert await coin.rank([]) == []
    assert coin.nouns.rollout == "rollout"
    assert coin.baselines() == {}
    assert await coin.checks() == ()


def test_a_conversation_shows_each_message_once() -> None:
    calls = (
        call(ASKED, answer={"content": "Heads."}),
        call(ASKED, HEADS, FALLEN, answer={"content": "Tails."}),
    )
    shown = Coin().show(Rollout(Scenario("coin"), 0, calls, Score(1.0)))
    assert shown == (
        "**user**\n\n> Heads or tails?\n\n**assistant**\n\n> Heads.\n\n"
        "**user**\n\n> Tails fell.\n\n**assistant**\n\n> Tails."
    )


def test_a_conversation_that_begins_anew_is_parted_from_the_one_before() -> None:
    calls = (
        call(ASKED, answer={"content": "Heads."}),
        call({"role": "user", "content": "Sum up."}, answer={"content": "Nothing."}),
    )
    shown = Coin().show(Rollout(Scenario("coin"), 0, calls, Score(1.0)))
    assert "> Heads.\n\n---\n\n**user**\n\n> Sum up." in shown


def test_what_a_policy_wrote_is_text_and_no_markup() -> None:
    hostile = call(ASKED, answer={"content": "# A heading\n<script>"})
    shown = Coin().show(Rollout(Scenario("coin"), 0, (hostile,), Score(1.0)))
    assert "# A" not in shown.replace("&#35;", "") and "<script>" not in shown


def test_a_tool_call_is_shown_with_its_arguments() -> None:
    function = {"name": "throw", "arguments": '{"side": "heads"}'}
    answer = {
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }
    shown = Coin().show(Rollout(Scenario("coin"), 0, (call(ASKED, answer=answer),), Score(1.0)))
    assert shown.endswith("**assistant**\n\nthrow(&#123;&#34;side&#34;: &#34;heads&#34;&#125;)")
