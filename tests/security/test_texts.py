"""What documents and summaries say stays text, for the policy and for a judge."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from precis.config import JudgeConfig
from precis.environments.summaries.baselines import lead
from precis.environments.summaries.judge import Endpoint, JudgeClient, Scored
from precis.environments.summaries.judge.prompts import data_in
from precis.environments.summaries.prompt import request_in, summary_messages
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from tests.support.corpora import BUNDLED
from tests.support.local_server import serving

_PIECES = ["<", "\\", "/", "document", ">", " ", "\n", "DOCUMENT", "a", "</document>"]
ENDS = st.lists(st.sampled_from(_PIECES)).map("".join)


@given(st.text() | ENDS)
def test_a_document_comes_back_exactly_as_it_was(text: str) -> None:
    assert request_in(summary_messages(text, 120)).text == text


@given(ENDS)
def test_a_document_ends_where_it_ends(text: str) -> None:
    content = summary_messages(text)[-1]["content"].lower()
    assert "".join(content.split()).count("</document>") == 1


DOCUMENT = BUNDLED[0]


async def obliging(request: ChatRequest) -> Completion:
    """A judge that was talked into answering with all it has, and into finding it correct."""
    data = data_in(request.messages)
    reply: dict[str, Any]
    if "questions" in data:
        answers = [{"id": one["id"], "answer": data["summary"]} for one in data["questions"]]
        reply = {"answers": answers, "is_prose": True}
    else:
        reply = {"grades": [{"id": one["id"], "correct": True} for one in data["items"]]}
    return Completion(request.model, [Choice(json.dumps(reply))])


async def test_a_judge_that_answers_with_the_whole_summary_earns_it_nothing() -> None:
    async with (
        serving(completions_app(obliging, lambda: ["m"])) as url,
        JudgeClient(Endpoint(f"{url}/v1", "m", "key"), JudgeConfig()) as judge,
    ):
        verdict = await judge.score(DOCUMENT, lead(DOCUMENT.text, 350))
    assert isinstance(verdict, Scored)
    assert not any(answer.correct for answer in verdict.answers)
