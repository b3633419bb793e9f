"""The judge on this machine: the same HTTP API as a hosted one, with rules instead of a model,
which read only the data in the request."""

import json
from collections import Counter
from typing import Any

from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.environments.summaries.judge.prompts import data_in
from precis.environments.summaries.judge.protocol import is_too_long
from precis.errors import PrecisError
from precis.llm.server import ApiError, ChatRequest, Choice, Complete, Completion
from precis.rehearsal.judges import grader, reader
from precis.rehearsal.judges.ruler import attempt_scores
from precis.words import pieces

MODEL = LEXICAL_MODEL
"""The name to serve it under."""

_REPEATED = 5
_REPEATED_SHARE_MIN = 0.09
"""The share of a text that its five commonest words make up. Prose has 0.12 at least, in eight
languages; 350 words with their documents' commonest left out have 0.08 at most."""
_WORDS_MIN = 100
"""A shorter text is taken for prose: its words say too little of how it is written."""


def lexical_judge() -> Complete:
    """Answer and grade as the summaries' judge asks, and score attempts as RULER asks.

    Any other messages are an ApiError. Work is done in line, within a few milliseconds.
    """

    async def complete(request: ChatRequest) -> Completion:
        try:
            data = data_in(request.messages) or {}
            found = attempt_scores(data) if "attempts" in data else _judged(data)
        except (LookupError, TypeError, ValueError, AttributeError, PrecisError) as error:
            # Whatever shape the messages have, what can't be read was not made for this judge.
            said = "The lexical judge only serves the summaries' judge and RULER."
            raise ApiError(400, said, "invalid_request") from error
        return Completion(request.model, [Choice(json.dumps(found, ensure_ascii=False))])

    return complete


def _judged(data: dict[str, Any]) -> dict[str, Any]:
    if "questions" in data:
        is_summary = "summary" in data
        text = data["summary"] if is_summary else data["text"]
        answers = []
        for one in data["questions"]:
            answers.append({"id": one["id"], "answer": reader.answer(text, one["question"])})
        return {"answers": answers} | ({"is_prose": is_prose(text)} if is_summary else {})
    grades = []
    for item in data["items"]:
        given = item["given_answer"]
        asked = (item["question"], item["golden_answer"], given)
        correct = not is_too_long(given) and grader.grade(*asked)
        grades.append({"id": item["id"], "correct": correct})
    return {"grades": grades}


def is_prose(text: str) -> bool:
    """Return whether a text says its commonest words as often as prose does, in any language. This
    knows a long list of words; of subtler ones the environment's own measure knows more."""
    words = list(pieces(text.lower()))
    repeated = sum(count for _, count in Counter(words).most_common(_REPEATED))
    return len(words) < _WORDS_MIN or repeated >= _REPEATED_SHARE_MIN * len(words)
