"""The judge on this machine: the replies of a hosted one, from what a hosted one would read."""

import pytest

from precis.environments.summaries.judge.prompts import UNANSWERABLE
from precis.environments.summaries.judge.protocol import (
    Graded,
    Prompt,
    grade_prompt,
    parse_grades,
)
from precis.llm.server import ApiError, ChatRequest
from precis.records.documents import Question
from precis.rehearsal.judges.judge import MODEL, lexical_judge

TEXT = (
    "The Linden Street bakery was opened by Ada Kessler in 1987. It sells 640 loaves a day. "
    "The oven was replaced in March 2019 because the old one had cracked."
)


def question(text: str, answer: str) -> Question:
    return Question("id", text, answer, answerable=answer != UNANSWERABLE)


async def reply_to(prompt: Prompt) -> str:
    request = ChatRequest(model=MODEL, messages=prompt.messages, temperature=0)
    return (await lexical_judge()(request)).choices[0].content


async def test_the_full_document_does_not_help_an_answer_that_is_graded() -> None:
    wrong = Graded(question("Who opened the Linden Street bakery?", "Ada Kessler"), "Tom Fry")
    prompt = grade_prompt([wrong], document=TEXT)
    assert parse_grades(await reply_to(prompt), prompt.ids) == [False]


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
