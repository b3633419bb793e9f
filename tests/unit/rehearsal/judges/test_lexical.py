"""The judge on this machine: the replies of a hosted one, from what a hosted one would read."""

import pytest

from precis.environments.summaries.judge.prompts import UNANSWERABLE
from precis.llm.server import ApiError, ChatRequest
from precis.records.documents import Question
from precis.rehearsal.judges.judge import MODEL, lexical_judge


def question(text: str, answer: str) -> Question:
    return Question("id", text, answer, answerable=answer != UNANSWERABLE)


@pytest.mark.parametrize(
    "content",
    [
        "Hello!",
        "{}",
        '{"questions": 3}',
        '{"items": [{}]}',
        '{"items": [{"id": "q1", "question": 2, "golden_answer": 3, "given_answer": 4}]}',
        '<trajectory id="1">\n[]',
        '<trajectory id="1">\n[\n</trajectory>',
        '<trajectory id="1">\n[3]\n</trajectory>',
        '<context>\n{\n</context>\n<trajectory id="1">\n[]\n</trajectory>',
        None,
    ],
)
async def test_it_rejects_other_requests_as_an_api_does(content: str | None) -> None:
    request = ChatRequest(model=MODEL, messages=[{"role": "user", "content": content}])
    with pytest.raises(ApiError) as raised:
        await lexical_judge()(request)
    assert raised.value.status == 400
