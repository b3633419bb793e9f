"""The judge's client, which gives a verdict on a document's summary. Its ceiling is the share of
questions that it answers from the documents' full texts."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from precis.config import JudgeConfig
from precis.environments.summaries.judge.cache import ReplyCache
from precis.environments.summaries.judge.cached import CachedJudge
from precis.environments.summaries.judge.forecast import forecast
from precis.environments.summaries.judge.protocol import (
    PROTOCOL_VERSION,
    Prompt,
    Reading,
    batches,
    grade_prompt,
    guess_prompt,
    prompts_digest,
    reading_prompt,
    ruling,
)
from precis.errors import ConfigError, ProviderFailed
from precis.llm.budget import PaidOnce
from precis.llm.concurrency import run_for_each
from precis.llm.providers import Endpoint
from precis.llm.retry import Deadline
from precis.record import json_digest
from precis.records.documents import Corpus, Document, Question
from precis.records.spend import Estimate
from precis.records.verdict import Answer, Scored, Unscored
from precis.store import Store
from precis.text import write_number

_LOW = 0.5


class JudgeClient(CachedJudge):
    """Judges summaries by how many questions they answer, within one set of limits.

    async with JudgeClient(endpoint, config) as judge: verdict = await judge.score(...)
    """

    def __init__(
        self, endpoint: Endpoint, config: JudgeConfig, *, cache: ReplyCache | None = None
    ) -> None:
        super().__init__(endpoint, config, cache)
        self.identity |= {
            "protocol": config.protocol,
            "protocol_version": PROTOCOL_VERSION,
            "prompts": prompts_digest(),
        }

    @property
    def protocol(self) -> str:
        """The versions of protocol and rules: results of different ones are not compared."""
        asked = f"{self.identity['protocol']} v{self.identity['protocol_version']}"
        rules = self.identity.get("rules")
        return f"{asked}, rules v{rules}" if rules else asked

    async def score(self, document: Document, summary: str) -> Scored | Unscored:
        """Judge which of the document's questions a summary answers correctly. Raises JudgeRejected
        if the judge rejects the key, the model or the request as such."""
        protocol = self.config.protocol

        async def judge(questions: Sequence[Question]) -> Scored:
            prompt = reading_prompt(summary, questions, protocol)
            return await self._rule(document, questions, prompt)

        try:
            verdicts = await run_for_each(judge, batches(document.questions, protocol))
        except ProviderFailed as error:
            return Unscored(error.cause, str(error))
        answers: list[Answer] = []
        for verdict in verdicts:
            answers.extend(verdict.answers)
        return Scored(tuple(answers), all(verdict.is_prose for verdict in verdicts))

    async def guess(self, document: Document) -> Scored | Unscored:
        """Score the judge's answers to a document's questions without any text; see `score`."""
        questions = document.questions
        try:
            return await self._rule(document, questions, guess_prompt(questions))
        except ProviderFailed as error:
            return Unscored(error.cause, str(error))

    async def check(self) -> str:
        """Ask one small question, uncached; see `try_out`."""
        question = Question("check", "What colour is the door?", "green", answerable=True)
        prompt = reading_prompt("The door is green.", [question], self.config.protocol)
        return await self.try_out(prompt)

    async def _rule(
        self, document: Document, questions: Sequence[Question], prompt: Prompt[Reading]
    ) -> Scored:
        """Ask for answers, and return the verdict on them; another request grades some of them."""
        deadline = Deadline(self.config.verdict_timeout_s)
        read = await self.ask(prompt, deadline)
        given = read.answers
        # By the question's index: at first the answers that need no grader, later the graded ones.
        rulings: dict[int, bool] = {}
        ungraded: dict[int, tuple[Question, str]] = {}
        for place, (question, answer) in enumerate(zip(questions, given, strict=True)):
            right = ruling(question, answer)
            if right is None:
                ungraded[place] = question, answer
            else:
                rulings[place] = right
        if ungraded:
            shown = document.text if self.config.protocol == "per_question" else None
            grades = await self.ask(grade_prompt(list(ungraded.values()), shown), deadline)
            rulings.update(zip(ungraded, grades, strict=True))
        answers = []
        for place, question in enumerate(questions):
            answers.append(Answer(question.id, given[place], rulings[place], question.answerable))
        return Scored(tuple(answers), read.is_prose)


async def check_second_judge(first: JudgeClient, second: JudgeClient) -> str:
    """Check that the second judge answers a trial question, and differs from the first."""
    model = second.identity["model"]
    own = first.identity["model"]
    # OpenRouter prefixes a model's maker.
    if f"/{model}".endswith(f"/{own}") or f"/{own}".endswith(f"/{model}"):
        raise ConfigError(
            f"The second judge is the first one again, {model}: it would see what the reward sees.",
            "Give second_judge another model, best another maker's, or leave it out.",
        )
    return await second.check()


@dataclass(frozen=True)
class KeptVerdicts:
    """A benchmark's judge: within its budget, and asked once for each summary in a store."""

    judge: JudgeClient
    words_max: int
    paid: PaidOnce

    async def score(self, document: Document, summary: str) -> Scored | Unscored:
        """Return the verdict on a summary, or why there is none; see `JudgeClient.score`. Raises
        StoreError if the verdict can't be kept."""
        asked = {**self.judge.identity, "effort": self.judge.config.reasoning_effort}

        def decode(record: Any) -> Scored:
            answers = tuple(Answer(**answer) for answer in record["answers"])
            return Scored(answers, record["is_prose"])

        def usd() -> float:
            whole = summary == document.text  # for the ceiling
            ahead = self.forecast([document], 0 if whole else 1, ceiling=whole)
            sent = 2 if self.judge.config.hedge_quantile else 1  # a late request is sent twice
            return sent * (ahead.usd or 0.0) if ahead else 0.0

        return await self.paid.ask(
            f"verdicts/{json_digest([asked, repr(document), summary])}",
            partial(self.judge.score, document, summary),
            usd,
            encode=asdict,
            decode=decode,
        )

    def forecast(
        self, documents: Sequence[Document], summaries: int, *, ceiling: bool = False
    ) -> Estimate | None:
        """Return the cost of this many verdicts, and of the ceiling; None if they are free."""
        if self.judge.config.provider == "lexical":
            return None
        return forecast(
            self.judge.config,
            self.judge.identity["model"],
            documents,
            summaries=summaries,
            summary_words=self.words_max,
            ceiling=ceiling,
        )


def check_ceiling(ceiling: float, ceiling_min: float, judge: str) -> str:
    """Return a warning of a low ceiling, or "". Raises ConfigError below `ceiling_min`."""
    share = write_number(100 * ceiling)  # rounded less, for one just below the limit
    found = f"The judge {judge} answers {share}% of the questions from the full documents"
    remedy = (
        "See whether questions and golden answers belong to these documents, or have another "
        "model judge (judge.provider, judge.model)"
    )
    if ceiling < ceiling_min:
        raise ConfigError(
            f"{found}, less than ceiling_min ({100 * ceiling_min:g}%): no summary could earn a "
            "reward worth learning from.",
            f"{remedy}; or set ceiling_min to 0 to train all the same.",
        )
    return f"{found}: rewards will be sparse. {remedy}." if ceiling < _LOW else ""


async def measure_ceiling(
    store: Store,
    judge: JudgeClient,
    corpus: Corpus,
    documents_max: int | None = None,
    verdicts: KeptVerdicts | None = None,
) -> float | None:
    """Return the judge's accuracy on the full text of the held-out documents, or some of them; in a
    benchmark by its `verdicts`. It is kept in the store. None, which is not kept, if there is no
    verdict on one of them."""
    documents = corpus.validation[:documents_max]
    parts: list[Any] = [corpus.digest, judge.identity, judge.parameters]
    if len(documents) < len(corpus.validation):
        parts.append(len(documents))
    key = f"ceilings/{json_digest(parts)[:16]}.json"
    kept = await asyncio.to_thread(store.get, key)
    if kept:
        with suppress(ValueError, TypeError, KeyError):  # a damaged one is measured again
            return float(json.loads(kept.data)["accuracy"])

    async def read(document: Document) -> Scored | Unscored:
        return await (verdicts or judge).score(document, document.text)

    correct = 0
    asked = 0
    for verdict in await run_for_each(read, documents):
        if not isinstance(verdict, Scored):
            return None
        correct += verdict.correct
        asked += verdict.asked
    accuracy = correct / asked
    record = {"accuracy": accuracy, "judge": judge.identity, "corpus": corpus.digest}
    await asyncio.to_thread(store.put, key, json.dumps(record).encode())
    return accuracy
