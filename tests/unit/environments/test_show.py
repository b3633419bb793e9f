"""A rollout's conversation as Markdown."""

import re
from html import unescape

from precis.environments.show import show_conversation
from precis.records.rollout import Call, Json, Rollout, Scenario, Score
from tests.support.reports import rendered
from tests.support.rollouts import calling


def call(*messages: Json, answer: Json) -> Call:
    message = {"role": "assistant", **answer}
    return Call(messages, {"index": 0, "finish_reason": "stop", "message": message})


ASKED: Json = {"role": "user", "content": "Heads or tails?"}


def show(*calls: Call) -> str:
    return show_conversation(Rollout(Scenario("coin"), 0, calls, Score(1.0)))


def test_a_tool_call_is_folded_with_its_result_and_what_is_written_is_no_markup() -> None:
    thrown = calling("throw", '{"side": "heads"}')
    result = {"role": "tool", "tool_call_id": "1", "content": f"Tails fell.\n</details>{'x' * 500}"}
    calls = (
        call(ASKED, answer=thrown),
        call(ASKED, thrown, result, answer={"content": "# Oh.\n<script>"}),
    )
    shown = show(*calls)
    assert "# Oh" not in shown.replace("&#35;", "") and "<script>" not in shown
    html = rendered(shown)
    folded = re.search(r"<details><summary>(.*?)</summary>(.*?)</details>", html, re.DOTALL)
    assert folded is not None
    assert unescape(folded[1]) == 'throw({"side": "heads"}) → Tails fell. …'
    assert f"&lt;/details&gt;{'x' * 500}" in folded[2]
    assert html.count("<details>") == html.count("</details>") == 1
    assert html.index("</details>") < html.index("Turn 2") < html.index("Oh.")
    # The store keeps the last call alone.
    shown = show(calls[1])
    assert shown.index("**Turn 1**") < shown.index("throw(") < shown.index("**Turn 2**")
    assert "empty" not in shown


def test_a_call_without_a_result_is_shown_and_a_long_prompt_is_folded() -> None:
    rules = {"role": "system", "content": f"The rules. {'y' * 1000}"}
    played = call(rules, ASKED, answer=calling("throw", {}))
    shown = show(played)
    assert shown.startswith("<details><summary>system: The rules. ")
    assert shown.endswith("**Turn 1**\n\nthrow(&#123;&#125;)")
