"""Making questions about documents: written by one model, and tried on a judge.

A question is kept if the judge answers it from the document, and not without; one that the document
does not answer is kept if the judge declines it.
"""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import SequenceMatcher
from functools import partial
from typing import Any, Protocol

from precis.config import JudgeConfig
from precis.environments.summaries.judge import Answer, JudgeClient, Scored, Unscored
from precis.environments.summaries.judge.forecast import forecast
from precis.environments.summaries.judge.protocol import is_too_long
from precis.errors import ProviderFailed, ProviderRejected
from precis.inference.texts import Text
from precis.llm.budget import Budget, PaidOnce
from precis.llm.concurrency import run_for_each
from precis.llm.replies import REFUSALS
from precis.questions.prompts import ANSWERED, UNANSWERED, WrittenQuestion, question_messages
from precis.questions.writer import estimate_usage
from precis.record import json_digest
from precis.records.documents import Document, Question
from precis.records.spend import Prices, Usage, usd
from precis.store.kept import KeptRecords
from precis.text import count_of, write_dollars

ALIKE = 0.85
"""Two questions of a document that share this much of their letters, in order, are duplicates."""

_TYPICAL = WrittenQuestion("q" * 90, "a" * 60, "p" * 150, answerable=True)
"""A question as long as those of RepLiQA, with its answer and its passage."""
_AT_ONCE = 8
"""Documents processed concurrently."""
_FAILED_MAX = 8
"""This many failures before any success are due to the model, not to the documents."""


@dataclass(frozen=True)
class DocumentQuestions:
    """A document's questions that only it answers, and those that it does not; the numbers dropped,
    by cause; and the problem if there are none."""

    text: Text
    answered: tuple[WrittenQuestion, ...] = ()
    unanswered: tuple[WrittenQuestion, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


class Writer(Protocol):
    """Writes the questions of a document: a model (`QuestionWriter`), or rules (`RuleWriter`)."""

    @property
    def model(self) -> str:
        """Its name, which identifies its kept questions."""

    async def write(self, text: str) -> list[WrittenQuestion]:
        """Return the questions of a document. Raises ProviderFailed if there are none."""


class QuestionMaker:
    """Makes the questions of documents; with kept records, each document is paid for once.

    `made = await QuestionMaker(writer, judge, kept).make(texts)`
    """

    def __init__(self, writer: Writer, judge: JudgeClient, kept: KeptRecords | None = None) -> None:
        self._writer = writer
        self._judge = judge
        self._kept = kept
        self._paid = PaidOnce(kept, Budget(None))
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._has_written = False
        self._failed = 0

    async def unwritten(self, texts: Sequence[Text]) -> list[Text]:
        """Return the texts without kept questions by this model."""
        assert self._kept is not None
        found = []
        for text in texts:
            if await self._kept.get(self._key(text), _read_written) is None:
                found.append(text)
        return found

    async def untried(self, texts: Sequence[Text]) -> list[Text]:
        """Return the texts whose questions are not kept, or not yet tried by this judge."""
        dry = QuestionMaker(self._writer, self._judge, self._kept)
        dry._paid = replace(self._paid, dry=True)
        return [one.text for one in await dry.make(texts) if one.problem]

    async def make(
        self, texts: Sequence[Text], on_made: Callable[[], None] = lambda: None
    ) -> list[DocumentQuestions]:
        """Return the questions of each text; call `on_made` as soon as one is done. Raises a
        ProviderError or JudgeRejected if the key or the model is rejected or the writer fails at
        each of the first documents, and StoreError if paid replies can't be kept."""

        async def make_in_turn(text: Text) -> DocumentQuestions:
            async with self._turns:
                made = await self._make_one(text)
            on_made()
            return made

        return await run_for_each(make_in_turn, texts)

    async def _make_one(self, text: Text) -> DocumentQuestions:
        try:
            written = await self._paid.ask(
                self._key(text),
                partial(self._writer.write, text.text),
                encode=lambda written: list(map(asdict, written)),
                decode=_read_written,
            )
        except (ProviderFailed, ProviderRejected) as error:
            self._failed += 1
            is_rejected = isinstance(error, ProviderRejected) and error.status not in REFUSALS
            if is_rejected or (self._failed >= _FAILED_MAX and not self._has_written):
                raise
            return DocumentQuestions(text, problem=f"no questions were written: {error}")
        if isinstance(written, Unscored):  # without kept ones, in a dry run
            return DocumentQuestions(text, problem=written.detail)
        self._has_written = True
        different = without_duplicates(written)
        document = document_of(text, different)
        verdicts = []
        for shown in (document.text, None):
            verdict = await self._try(document, shown)
            if isinstance(verdict, Unscored):
                problem = f"the judge did not try the questions: {verdict.detail}"
                return DocumentQuestions(text, problem=problem)
            verdicts.append(verdict)
        return _sift(text, written, different, *verdicts)

    async def _try(self, document: Document, text: str | None) -> Scored | Unscored:
        """Return the judge's verdict from a text, or without one; requested once."""
        key = f"trials/{json_digest([self._judge.identity, repr(document.questions), text])}"

        async def ask() -> Scored | Unscored:
            if text is None:
                return await self._judge.guess(document)
            return await self._judge.score(document, text)

        def encode(verdict: Scored) -> list[bool]:
            return [one.correct for one in verdict.answers]

        def decode(record: Any) -> Scored:
            answers = []
            for question, correct in zip(document.questions, record, strict=True):
                answers.append(Answer(question.id, "", correct, question.answerable))
            return Scored(tuple(answers))

        return await self._paid.ask(key, ask, encode=encode, decode=decode)

    def _key(self, text: Text) -> str:
        return f"questions/{json_digest([self._writer.model, question_messages(text.text)])}"


def _read_written(record: Any) -> list[WrittenQuestion]:
    return [WrittenQuestion(**one) for one in record]


def document_of(
    text: Text, written: Sequence[WrittenQuestion], topic: str = "", mark: str = "q"
) -> Document:
    """Return a document with its written questions; its id is a digest of its content, and its
    questions' ids have a mark before their number."""
    id = hashlib.sha256(text.text.encode()).hexdigest()[:16]
    questions = []
    for number, one in enumerate(written, start=1):
        question = Question(
            f"{id}-{mark}{number}", one.question, one.answer, one.answerable, one.passage
        )
        questions.append(question)
    return Document(id, topic, text.text, tuple(questions))


def without_duplicates(written: Sequence[WrittenQuestion]) -> list[WrittenQuestion]:
    """Return the questions without near duplicates of earlier ones, ignoring case and
    punctuation."""
    different: dict[str, WrittenQuestion] = {}
    for one in written:
        own = " ".join(re.findall(r"[^\W_]+", one.question.casefold()))
        matchers = [SequenceMatcher(None, own, other, autojunk=False) for other in different]
        if all(matcher.ratio() < ALIKE for matcher in matchers):
            different[own] = one
    return list(different.values())


def _sift(
    text: Text,
    written: Sequence[WrittenQuestion],
    different: Sequence[WrittenQuestion],
    read: Scored,
    guessed: Scored,
) -> DocumentQuestions:
    answered: list[WrittenQuestion] = []
    unanswered: list[WrittenQuestion] = []
    dropped = Counter({"nearly the same": len(written) - len(different)})
    for one, by_text, by_guess in zip(different, read.answers, guessed.answers, strict=True):
        if not one.answerable:
            if by_text.correct:
                unanswered.append(one)
            else:
                dropped["answered though unanswerable"] += 1
        elif not by_text.correct or is_too_long(one.answer):
            dropped["not answered from the document"] += 1
        elif by_guess.correct:
            dropped["answered without it"] += 1
        else:
            answered.append(one)
    return DocumentQuestions(text, tuple(answered), tuple(unanswered), dropped)


def forecast_writer(model: str, texts: Sequence[Text], prices: Prices) -> str:
    """Return a sentence on the writing model's cost for these texts."""
    prompts = completions = 0
    for text in texts:
        usage = estimate_usage(text.text)
        prompts += usage.prompt_tokens
        completions += usage.completion_tokens
    total = Usage(prompts, completions)
    cost = usd(model, total, prices)
    dollars = "at an unknown price" if cost is None else f"about {write_dollars(cost)}"
    documents = count_of(len(texts), "document")
    return (
        f"{model} will write questions for {documents}: about {total.tokens:,} tokens, {dollars}."
    )


def forecast_judge(config: JudgeConfig, model: str, texts: Sequence[Text]) -> str:
    """Return a sentence on the cost of trying the questions, with and without each document."""
    questions = [_TYPICAL] * (ANSWERED + UNANSWERED)
    documents = [document_of(text, questions) for text in texts]
    return str(forecast(config, model, documents, summaries=len(documents), summary_words=0))
