"""A simulated judge, which answers in a few words, and declines if the text lacks the answer.

It knows the bundled corpus. It answers a question if the text has the document's sentence with the
answer: with the golden answer, in a model's spelling, or with that whole sentence. The share of
sentences is an assumption, and an option of the programs that depend on it.
"""

import hashlib
import json
from collections import defaultdict
from functools import cache
from random import Random
from typing import Any

from precis.config import DocumentsConfig
from precis.environments.summaries.judge.prompts import data_in
from precis.llm.server import ApiError, ChatRequest, Choice, Complete, Completion
from precis.records.documents import UNANSWERABLE, Question, read_documents
from precis.text import tokens

SENTENCES = 0.25
"""The share of answers that are whole sentences; the others are the golden answer."""
_SET_DOWN = ("{}", "{}.", '"{}"')
"""Spellings of a golden answer by a model."""


def answer(text: str, question: str, sentences: float = SENTENCES) -> str:
    """Return the model's answer to a question from a text.

    Args:
        sentences: the share of answers that are a whole sentence.
    """
    for known in _questions().get(question, ()):
        if known.long_answer in text:
            # The same draw for the same request in every process.
            draw = Random(hashlib.sha256(f"{question}\0{text}".encode()).digest())
            if draw.random() < sentences:
                return known.long_answer
            return draw.choice(_SET_DOWN).format(known.answer)
    return UNANSWERABLE


def grade(gold: str, given: str) -> bool:
    """Return whether a given answer has the golden one's words, in their order and together."""
    if UNANSWERABLE in (gold, given):
        return gold == given
    return f" {' '.join(tokens(gold))} " in f" {' '.join(tokens(given))} "


def model_judge(sentences: float) -> Complete:
    """Return the model as a server's function; a token is four characters.

    It raises ApiError for messages that the judge's protocol did not make.
    """
    _questions()  # reading them later would delay the first answers by seconds

    async def complete(request: ChatRequest) -> Completion:
        data = data_in(request.messages)
        if data is None:
            raise ApiError(400, "Only the judge's protocol is understood.", "invalid_request")
        reply = json.dumps(_reply(data, sentences), ensure_ascii=False)
        sent = sum(len(str(message["content"])) for message in request.messages)
        choice = Choice(reply, completion_tokens=len(reply) // 4)
        return Completion(request.model, [choice], prompt_tokens=sent // 4)

    return complete


def _reply(data: dict[str, Any], sentences: float) -> dict[str, Any]:
    if "questions" in data:
        is_summary = "summary" in data
        text = data["summary"] if is_summary else data["text"]
        answers = []
        for asked in data["questions"]:
            said = answer(text, asked["question"], sentences)
            answers.append({"id": asked["id"], "answer": said})
        return {"answers": answers} | ({"is_prose": True} if is_summary else {})
    grades = []
    for item in data["items"]:
        correct = grade(item["golden_answer"], item["given_answer"])
        grades.append({"id": item["id"], "correct": correct})
    return {"grades": grades}


@cache
def _questions() -> dict[str, list[Question]]:
    """Return the bundled corpus's answerable questions by text; documents may share one."""
    found: dict[str, list[Question]] = defaultdict(list)
    for document in read_documents(DocumentsConfig()):
        for question in document.questions:
            if question.answerable:
                found[question.text].append(question)
    return found
