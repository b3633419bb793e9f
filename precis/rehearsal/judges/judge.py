"""The judge on this machine: a hosted judge's HTTP API, with rules instead of a model, which read
only the data in the request."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from precis.environments.summaries.judge.prompts import data_in
from precis.environments.summaries.judge.protocol import is_too_long
from precis.environments.summaries.prompt import request_in
from precis.errors import PrecisError, RolloutError
from precis.llm.server import ApiError, ChatRequest, Choice, Completion
from precis.rehearsal.judges import grader, reader
from precis.rehearsal.judges.words import has_digit, stem
from precis.text import pieces, sentences, tokens

_REPEATED = 5
_REPEATED_SHARE_MIN = 0.09
"""A text whose five commonest words make up a smaller share is not prose. Prose has 0.12 at least,
in eight languages; 350 words without their documents' commonest have 0.08 at most."""
_WORDS_MIN = 100
"""A shorter text counts as prose: it has too few words to judge."""
_NAME = re.compile(r"(?<=[^\W_])[^\w.!?]*\s[\"\u201c\u2018(]?([A-Z][\w'\u2019-]+)")


async def lexical_judge(request: ChatRequest) -> Completion:
    """Answer and grade the requests of the summaries' judge, and score attempts for RULER, in the
    event loop, in a few milliseconds. Raises ApiError for any other messages."""
    try:
        data = data_in(request.messages)
        if "attempts" in data:
            found = attempt_scores(data)
        elif "questions" in data:
            is_summary = "summary" in data
            text = data["summary"] if is_summary else data["text"]
            answers = []
            for one in data["questions"]:
                answers.append({"id": one["id"], "answer": reader.answer(text, one["question"])})
            found = {"answers": answers} | ({"is_prose": is_prose(text)} if is_summary else {})
        else:
            grades = []
            for item in data["items"]:
                given = item["given_answer"]
                asked = (item["question"], item["golden_answer"], given)
                correct = not is_too_long(given) and grader.grade(*asked)
                grades.append({"id": item["id"], "correct": correct})
            found = {"grades": grades}
    except (LookupError, TypeError, ValueError, AttributeError, PrecisError) as error:
        # Unreadable messages of any shape were not made for this judge.
        said = "The lexical judge only serves the summaries' judge and RULER."
        raise ApiError(400, said, "invalid_request") from error
    return Completion(request.model, [Choice(json.dumps(found, ensure_ascii=False))])


def is_prose(text: str) -> bool:
    """Return whether a text repeats its commonest words as often as prose does, in any language.
    This detects a long list of words; the environment's own measure detects subtler ones."""
    words = list(pieces(text.lower()))
    repeated = sum(count for _, count in Counter(words).most_common(_REPEATED))
    return len(words) < _WORDS_MIN or repeated >= _REPEATED_SHARE_MIN * len(words)


def attempt_scores(data: Mapping[str, Any]) -> dict[str, Any]:
    """Score attempts (`precis.environments.ruler`) between 0 and 1: a summary by the share of its
    document's facts that it keeps, any other by the share of its words after the first answer,
    which only shows that everything runs."""
    scores = []
    for attempt in data["attempts"]:
        messages = [*data["shared"], *attempt["messages"]]
        task = []
        answers = []
        replies = []
        for message in messages:
            if message["role"] == "assistant":
                answers.append(message)
            elif answers:
                replies.append(message)
            else:
                task.append(message)
        try:
            asked = facts(request_in(messages).text)
            found = asked & _words(answers)
            said = f"{len(found)} of the document's {len(asked)} facts are kept."
        except RolloutError:
            asked = frozenset(_words(task))
            found = asked & _words(replies)
            said = f"{len(found)} of the task's {len(asked)} words came back."
        share = round(len(found) / max(1, len(asked)), 4)
        scores.append({"id": attempt["id"], "explanation": said, "score": share})
    return {"scores": scores}


@lru_cache(maxsize=64)
def facts(text: str) -> frozenset[str]:
    """Return the stems of a text's numbers, and of its words capitalized in mid-sentence."""
    found = {stem(token) for token in tokens(text) if has_digit(token)}
    for sentence in sentences(text):
        for name in _NAME.findall(sentence):
            found.add(stem(name.lower()))
    return frozenset(found)


def _words(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    found: set[str] = set()
    for one in messages:
        found.update(map(stem, tokens(str(one.get("content", "")))))
    return found
