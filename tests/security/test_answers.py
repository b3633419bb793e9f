"""The whole text is no answer to anything, whoever judges."""

import json
from typing import Any

from precis.config import JudgeConfig
from precis.environments.summaries.baselines import lead
from precis.environments.summaries.judge import Endpoint, JudgeClient, Scored
from precis.environments.summaries.judge.prompts import data_in
from precis.llm.loop_server import LoopServer
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from tests.support.corpora import BUNDLED

DOCUMENT = BUNDLED[0]


async def obliging(request: ChatRequest) -> Completion:
    """A judge that was talked into answering with all it has, and into finding it correct."""
    data = data_in(request.messages) or {}
    reply: dict[str, Any]
    if "questions" in data:
        answers = [{"id": one["id"], "answer": data["summary"]} for one in data["questions"]]
        reply = {"answers": answers, "is_prose": True}
    else:
        reply = {"grades": [{"id": one["id"], "correct": True} for one in data["items"]]}
    return Completion(request.model, [Choice(json.dumps(reply))])


async def test_a_judge_that_answers_with_the_whole_summary_earns_it_nothing() -> None:
    server = LoopServer(completions_app(obliging, lambda: ["m"]))
    await server.start()
    endpoint = Endpoint(f"http://127.0.0.1:{server.port}/v1", "m", "key")
    try:
        async with JudgeClient(endpoint, JudgeConfig()) as judge:
            verdict = await judge.score(DOCUMENT, lead(DOCUMENT.text, 350))
    finally:
        await server.stop()
    assert isinstance(verdict, Scored)
    assert not any(answer.correct for answer in verdict.answers)
