"""The requests that a verdict takes, and the valid replies to each. Nothing here does I/O.

The judge answers a question from the text alone, and then compares that answer with the golden one,
where that needs a grader. `batched` asks all of a document's questions at once, and whether the
summary is prose; `per_question` asks one at a time and shows the grader the document too, as ART's
notebook does (OpenPipe/art-notebooks, `sft-rl.ipynb`).
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from precis.environments.summaries.judge.prompts import (
    ANSWER_SYSTEM,
    ANSWER_WORDS_MAX,
    GRADE_SYSTEM,
    GUESS_SYSTEM,
    READ_SYSTEM,
    UNANSWERABLE,
    judge_messages,
)
from precis.records.documents import Question
from precis.words import count_words

PROTOCOL_VERSION = "4"
"""Raised with every change to a request, to what counts as a valid reply, or to what needs none.

1: the judge grades every answer that it has not declined. 2: except those that are the golden
answer word for word (`ruling`), which are correct. 3: nor those of more than
`ANSWER_WORDS_MAX` words, which are wrong. 4: `batched` asks whether the summary is prose.
"""

_ARTICLE = re.compile(r"^(?:the|an?) ")
_QUOTES = "\"'“”‘’«»"

Protocol = Literal["batched", "per_question"]
S = TypeVar("S", bound="StrictReply")
E = TypeVar("E", bound="ReplyEntry")


class BadReply(ValueError):
    """A reply that is not what was asked for; says what is wrong with it."""


@dataclass(frozen=True)
class Prompt:
    """One request to the judge; the entries of its reply must have these `ids`: `q1`, `q2`, …"""

    name: Literal["answers", "grades", "scores"]
    messages: list[dict[str, str]]
    schema: dict[str, Any]
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Reading:
    """The judge's answers in the order of the questions, and whether it takes the summary for
    prose."""

    answers: list[str]
    is_prose: bool = True


@dataclass(frozen=True)
class Graded:
    """A question with the answer that was given, to be compared with the golden one."""

    question: Question
    given: str


def ruling(question: Question, given: str) -> bool | None:
    """Return whether an answer is correct, where that takes no grader; else None. What was declined
    is right where the document has no answer alone; the golden answer word for word is correct, and
    what is too long is wrong."""
    if is_too_long(given):
        return False
    declined = given == UNANSWERABLE
    if declined or not question.answerable:
        return declined and not question.answerable
    golden = _bare(question.answer)
    # A golden answer of nothing but signs is the same as any other of them.
    if golden and _bare(given) == golden:
        return True
    return None


def is_too_long(given: str) -> bool:
    """Return whether a given answer is too long to be one."""
    return count_words(given) > ANSWER_WORDS_MAX


def batches(questions: Sequence[Question], protocol: Protocol) -> list[Sequence[Question]]:
    """Return the questions as they go into requests together."""
    if protocol == "per_question":
        return [[question] for question in questions]
    return [questions] if questions else []


def reading_prompt(summary: str, questions: Sequence[Question], protocol: Protocol) -> Prompt:
    """Ask for the answers from a summary and, in `batched`, whether it is prose."""
    if protocol == "per_question":
        return answer_prompt(summary, questions)
    ids = _ids(len(questions))
    data = {"summary": summary, "questions": _asked(ids, questions)}
    return Prompt("answers", judge_messages(READ_SYSTEM, data), json_schema(_Reading), ids)


def answer_prompt(text: str, questions: Sequence[Question]) -> Prompt:
    """Ask for the answers to some questions from a text."""
    ids = _ids(len(questions))
    data = {"text": text, "questions": _asked(ids, questions)}
    return Prompt("answers", judge_messages(ANSWER_SYSTEM, data), json_schema(_Answers), ids)


def guess_prompt(questions: Sequence[Question]) -> Prompt:
    """Ask for the answers to some questions from no text at all."""
    from_text = answer_prompt("", questions)
    system = {"role": "system", "content": GUESS_SYSTEM}
    return replace(from_text, messages=[system, from_text.messages[1]])


def grade_prompt(graded: Sequence[Graded], document: str | None = None) -> Prompt:
    """Ask whether given answers say what the golden ones say; the grader may see the document."""
    ids = _ids(len(graded))
    items = []
    for id, one in zip(ids, graded, strict=True):
        item = {
            "id": id,
            "question": one.question.text,
            "golden_answer": one.question.answer,
            "given_answer": one.given,
        }
        items.append(item)
    data = {"items": items} if document is None else {"document": document, "items": items}
    return Prompt("grades", judge_messages(GRADE_SYSTEM, data), json_schema(_Grades), ids)


def parse_reading(reply: str, ids: Sequence[str], protocol: Protocol) -> Reading:
    """Parse a reply to `reading_prompt`; a BadReply unless it is one JSON object with one string
    for each id and, in `batched`, a boolean for `is_prose`."""
    if protocol == "per_question":
        return Reading(parse_answers(reply, ids))
    read = validate_reply(reply, _Reading)
    return Reading(_answers_of(read.answers, ids), read.is_prose)


def parse_answers(reply: str, ids: Sequence[str]) -> list[str]:
    """Return the answers in the order of `ids`, `UNANSWERABLE` for none; a BadReply unless it is
    one JSON object with one string for each id."""
    return _answers_of(validate_reply(reply, _Answers).answers, ids)


def parse_grades(reply: str, ids: Sequence[str]) -> list[bool]:
    """Return the grades in the order of `ids`; any other reply is a BadReply."""
    entries = validate_reply(reply, _Grades).grades
    by_id = entries_by_id(entries, ids)
    return [by_id[id].correct for id in ids]


def prompts_digest() -> str:
    """Return a short fingerprint of the prompts, kept with every result that they led to."""
    prompts = "\0".join((READ_SYSTEM, ANSWER_SYSTEM, GRADE_SYSTEM))
    return hashlib.sha256(prompts.encode()).hexdigest()[:16]


def _bare(answer: str) -> str:
    """Return an answer without what makes no difference to it: case, white space, quotes, an
    article before it, punctuation after it. Signs that can mean something (`-5`, `$5`, `5%`, `.5`)
    stay."""
    words = unicodedata.normalize("NFC", answer).casefold().split()
    text = " ".join(words).strip(_QUOTES).rstrip(_QUOTES + ".,;:!?… ")
    return _ARTICLE.sub("", text)


def _ids(count: int) -> tuple[str, ...]:
    return tuple(f"q{number}" for number in range(1, count + 1))


def _asked(ids: Sequence[str], questions: Sequence[Question]) -> list[dict[str, str]]:
    asked = []
    for id, question in zip(ids, questions, strict=True):
        asked.append({"id": id, "question": question.text})
    return asked


class StrictReply(BaseModel):
    """A reply, which has to be what was asked for and nothing else."""

    model_config = ConfigDict(strict=True, extra="forbid")


class ReplyEntry(StrictReply):
    """An entry of a reply, by the id that it was asked for under."""

    id: str


class _AnswerEntry(ReplyEntry):
    answer: str


class _GradeEntry(ReplyEntry):
    correct: bool


class _Answers(StrictReply):
    answers: list[_AnswerEntry]


class _Reading(_Answers):
    is_prose: bool


class _Grades(StrictReply):
    grades: list[_GradeEntry]


@cache
def json_schema(shape: type[StrictReply]) -> dict[str, Any]:
    """Return the JSON schema of a reply as providers take it: types alone, all in one piece."""
    whole = shape.model_json_schema()

    def plain(part: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in part:
            part = whole["$defs"][part["$ref"].rpartition("/")[2]]
        found: dict[str, Any] = {}
        for name in ("type", "required", "additionalProperties"):
            if name in part:
                found[name] = part[name]
        if "items" in part:
            found["items"] = plain(part["items"])
        if "properties" in part:
            found["properties"] = {name: plain(one) for name, one in part["properties"].items()}
        return found

    return plain(whole)


def validate_reply(reply: str, shape: type[S]) -> S:
    """Return the reply as what was asked for; anything else is a BadReply."""
    try:
        loaded = json.loads(reply, object_pairs_hook=_refuse_duplicates)
        json.dumps(loaded, ensure_ascii=False).encode()  # JSON can spell half of a character
    except BadReply:
        raise
    except (ValueError, RecursionError) as error:
        raise BadReply(f"The reply is not JSON ({error}): {reply[:200]!r}") from error
    try:
        return shape.model_validate(loaded)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the reply"
        given = str(problem["input"])[:200]
        raise BadReply(
            f"`{where}` is not what was asked for ({problem['msg']}): {given}"
        ) from error


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # json.loads lets the last of two equal keys win, so a reply could say both of two things.
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise BadReply("An object of the reply has a key twice.")
    return fields


def entries_by_id(entries: Sequence[E], ids: Sequence[str]) -> dict[str, E]:
    """Return the entries by id; others than these ids are a BadReply."""
    given = [entry.id for entry in entries]
    if sorted(given) != sorted(ids):
        raise BadReply(f"The reply has the ids {str(given)[:200]} instead of {', '.join(ids)}.")
    return {entry.id: entry for entry in entries}


def _answers_of(entries: Sequence[_AnswerEntry], ids: Sequence[str]) -> list[str]:
    by_id = entries_by_id(entries, ids)
    answers = []
    for id in ids:
        answer = by_id[id].answer.strip()
        if answer.strip(" \t\r\n.\"'`*").upper() in ("", UNANSWERABLE):
            answer = UNANSWERABLE
        answers.append(answer)
    return answers
