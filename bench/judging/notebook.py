"""The protocol of ART's summarizer notebook, for comparison."""

import asyncio
from typing import Any, TypeVar

import httpx

from bench.judging.cases import Case
from bench.judging.server import MODEL
from precis.environments.summaries.judge import Answer, Scored
from precis.environments.summaries.judge.protocol import (
    Prompt,
    answer_prompt,
    grade_prompt,
)
from precis.records.documents import Question
from precis.records.spend import Spend, Usage

T = TypeVar("T")

_SLOTS = 20


class Notebook:
    """The notebook's judge: one question at a time, answer and grade, for summary and document."""

    def __init__(self, url: str, slots: int = _SLOTS) -> None:
        self._url = f"{url}/chat/completions"
        self._slots = asyncio.Semaphore(slots)
        self._http = httpx.AsyncClient(timeout=None)
        self.spend = Spend()

    async def score(self, case: Case) -> Scored:
        """Return the verdict on the summary; the document's is requested too, and not used."""
        answers = []
        for question in case.document.questions:
            answers.append(await self._judged(case, question, case.summary))
            await self._judged(case, question, case.document.text)
        return Scored(tuple(answers))

    async def close(self) -> None:
        await self._http.aclose()

    async def _judged(self, case: Case, question: Question, text: str) -> Answer:
        [said] = (await self._asked(answer_prompt(text, [question]))).answers
        [correct] = await self._asked(grade_prompt([(question, said)], case.document.text))
        return Answer(question.id, said, correct, question.answerable)

    async def _asked(self, prompt: Prompt[T]) -> T:
        body = {"model": MODEL, "messages": prompt.messages, "temperature": 0}
        async with self._slots:
            response = await self._http.post(self._url, json=body)
        reply: dict[str, Any] = response.raise_for_status().json()
        self.spend += Spend.of_call(MODEL, Usage.from_response(reply["usage"]))
        return prompt.parse(str(reply["choices"][0]["message"]["content"]), prompt.ids)
