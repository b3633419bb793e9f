"""The requests for a verdict, and the valid replies to each. Nothing here does I/O.

The judge answers a question from the text alone, and then compares its answer with the golden one,
if that needs a grader. `batched` asks all of a document's questions at once, and whether the
summary is prose; `per_question` asks one at a time and shows the grader the document too, as ART's
notebook does (OpenPipe/art-notebooks, `sft-rl.ipynb`).
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from precis.environments.summaries.judge.prompts import (
    ANSWER_SYSTEM,
    ANSWER_WORDS_MAX,
    GRADE_SYSTEM,
    GUESS_SYSTEM,
    READ_SYSTEM,
    judge_messages,
)
from precis.llm.tokens import estimate_tokens_with_margin
from precis.records.documents import UNANSWERABLE, Question
from precis.records.spend import Usage
from precis.text import count_words

PROTOCOL_VERSION = "4"
"""Raised with every change to a request, to what a valid reply means, or to the answers that need
no grader. docs/judge.md lists the versions."""

_TOKENS_AN_ENTRY = {"answers": 40, "grades": 15, "scores": 60}
"""For a sentence, a boolean, and a number with its explanation, with the JSON around each."""
_ARTICLE = re.compile(r"^(?:the|an?) ")
_QUOTES = "\"'“”‘’«»"

Protocol = Literal["batched", "per_question"]
T = TypeVar("T")
S = TypeVar("S", bound="StrictReply")
E = TypeVar("E", bound="ReplyEntry")


class BadReply(ValueError):
    """An invalid reply; the message gives the problem."""


@dataclass(frozen=True)
class Prompt(Generic[T]):
    """One request to the judge.

    Attributes:
        ids: of the entries that the reply must have: `q1`, `q2`, …
        parse: reads a reply with these entries; raises BadReply for any other.
    """

    name: Literal["answers", "grades", "scores"]
    messages: list[dict[str, str]]
    schema: dict[str, Any]
    ids: tuple[str, ...]
    parse: Callable[[str, Sequence[str]], T]

    @property
    def expected(self) -> Usage:
        """The tokens of the request and its reply, estimated with a margin."""
        characters = len(json.dumps(self.schema))  # which providers count too
        characters += sum(len(message["content"]) for message in self.messages)
        completion = _TOKENS_AN_ENTRY[self.name] * len(self.ids)
        return Usage(estimate_tokens_with_margin(characters), completion)


@dataclass(frozen=True)
class Reading:
    """The judge's answers in the order of the questions, `UNANSWERABLE` for none, and its ruling on
    the summary's prose; True if it was not asked for one."""

    answers: list[str]
    is_prose: bool = True


def ruling(question: Question, given: str) -> bool | None:
    """Return whether an answer is correct, or None if that needs a grader. A declined answer is
    right only if the document has none; the golden answer word for word is correct; one that is too
    long is wrong."""
    if is_too_long(given):
        return False
    declined = given == UNANSWERABLE
    if declined or not question.answerable:
        return declined and not question.answerable
    golden = _bare(question.answer)
    # Golden answers of signs alone would all be equal.
    if golden and _bare(given) == golden:
        return True
    return None


def is_too_long(given: str) -> bool:
    """Return whether an answer is too long to be correct."""
    return count_words(given) > ANSWER_WORDS_MAX


def batches(questions: Sequence[Question], protocol: Protocol) -> list[Sequence[Question]]:
    if protocol == "per_question":
        return [[question] for question in questions]
    return [questions] if questions else []


def reading_prompt(
    summary: str, questions: Sequence[Question], protocol: Protocol
) -> Prompt[Reading]:
    """Return the prompt for answers from a summary and, in `batched`, a ruling on its prose."""
    if protocol == "per_question":
        return answer_prompt(summary, questions)
    ids = _ids(len(questions))
    data = {"summary": summary, "questions": _asked(ids, questions)}
    messages = judge_messages(READ_SYSTEM, data)
    return Prompt("answers", messages, json_schema(_Reading), ids, parse_reading)


def answer_prompt(text: str, questions: Sequence[Question]) -> Prompt[Reading]:
    """Return the prompt for answers to some questions from a text."""
    ids = _ids(len(questions))
    messages = judge_messages(ANSWER_SYSTEM, {"text": text, "questions": _asked(ids, questions)})
    return Prompt("answers", messages, json_schema(_Answers), ids, parse_answers)


def guess_prompt(questions: Sequence[Question]) -> Prompt[Reading]:
    """Return the prompt for answers to some questions without a text."""
    from_text = answer_prompt("", questions)
    system = {"role": "system", "content": GUESS_SYSTEM}
    return replace(from_text, messages=[system, from_text.messages[1]])


def grade_prompt(
    given: Sequence[tuple[Question, str]], document: str | None = None
) -> Prompt[list[bool]]:
    """Return the prompt for comparing given answers with golden ones; the grader may see the
    document."""
    ids = _ids(len(given))
    items = []
    for id, (question, answer) in zip(ids, given, strict=True):
        item = {
            "id": id,
            "question": question.text,
            "golden_answer": question.answer,
            "given_answer": answer,
        }
        items.append(item)
    data = {"items": items} if document is None else {"document": document, "items": items}
    messages = judge_messages(GRADE_SYSTEM, data)
    return Prompt("grades", messages, json_schema(_Grades), ids, parse_grades)


def parse_reading(reply: str, ids: Sequence[str]) -> Reading:
    """Parse a reply to `READ_SYSTEM`. Raises BadReply unless it is one JSON object with one string
    for each id and a boolean for `is_prose`."""
    read = validate_reply(reply, _Reading)
    return Reading(_answers_of(read.answers, ids), read.is_prose)


def parse_answers(reply: str, ids: Sequence[str]) -> Reading:
    """Parse a reply to `ANSWER_SYSTEM` or `GUESS_SYSTEM`. Raises BadReply unless it is one JSON
    object with one string for each id."""
    return Reading(_answers_of(validate_reply(reply, _Answers).answers, ids))


def parse_grades(reply: str, ids: Sequence[str]) -> list[bool]:
    """Return the grades in the order of `ids`. Raises BadReply for any other reply."""
    entries = validate_reply(reply, _Grades).grades
    by_id = entries_by_id(entries, ids)
    return [by_id[id].correct for id in ids]


def prompts_digest() -> str:
    """Return a short fingerprint of the prompts, kept with every result."""
    prompts = "\0".join((READ_SYSTEM, ANSWER_SYSTEM, GRADE_SYSTEM))
    return hashlib.sha256(prompts.encode()).hexdigest()[:16]


def _bare(answer: str) -> str:
    """Normalize an answer: drop case, white space, quotes, a leading article, trailing punctuation.
    Signs with a meaning (`-5`, `$5`, `5%`, `.5`) stay."""
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
    """A reply without missing or extra fields."""

    model_config = ConfigDict(strict=True, extra="forbid")


class ReplyEntry(StrictReply):
    """An entry of a reply, with its prompt's id."""

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
    """Return the JSON schema of a reply in the form for providers: types only, without
    references."""
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
    """Return the validated reply. Raises BadReply for an invalid one."""
    try:
        loaded = json.loads(reply, object_pairs_hook=_refuse_duplicates)
        json.dumps(loaded, ensure_ascii=False).encode()  # JSON can encode half of a character
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
    # json.loads takes the last of two equal keys, so a reply could contradict itself.
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise BadReply("An object of the reply has a key twice.")
    return fields


def entries_by_id(entries: Sequence[E], ids: Sequence[str]) -> dict[str, E]:
    """Return the entries by id. Raises BadReply for other ids than these."""
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
