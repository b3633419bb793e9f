"""The facts kept by a summary: the questions that a judge can still answer from it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from precis.config import JudgeConfig
from precis.environment import Variables
from precis.environments.summaries.judge import JudgeClient, Scored, Unscored, endpoint_for
from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.errors import JudgeUnavailable
from precis.llm.loop_server import served_completions
from precis.llm.providers import Endpoint
from precis.records.documents import Document, Question
from precis.records.rows import read_json_file
from precis.rehearsal.judges.judge import lexical_judge

Fate = Literal["kept", "lost", "not in the document"]
"""The fate of a fact; the last if the judge can't answer from the whole document either."""


@dataclass(frozen=True)
class FactCheck:
    """A question, its fate, and the judge's answer from the summary."""

    question: str
    answer: str
    fate: Fate
    read: str


def read_questions(path: Path) -> list[Question]:
    """Read the questions about a document from a JSONL file with `question` and `answer`. Raises
    ConfigError, which names the line, if the file or a line of it can't be used."""

    def read(number: int, record: dict[str, Any]) -> Question:
        for name in ("question", "answer"):
            if not isinstance(record.get(name), str) or not record[name].strip():
                raise ValueError(f"{name!r} is missing or empty.")
        return Question(str(number), record["question"], record["answer"], answerable=True)

    remedy = 'Write one object a line: {"question": …, "answer": …}.'
    return read_json_file(str(path), "questions", read, remedy)


async def check_facts(
    judge: JudgeClient, text: str, summary: str, questions: Sequence[Question]
) -> list[FactCheck]:
    document = Document("document", "", text, tuple(questions))
    of_summary = _require_scored(await judge.score(document, summary))
    of_document = _require_scored(await judge.score(document, text))
    facts = []
    for one, kept, there in zip(questions, of_summary.answers, of_document.answers, strict=True):
        fate: Fate = "not in the document"
        if kept.correct:
            fate = "kept"
        elif there.correct:
            fate = "lost"
        facts.append(FactCheck(one.text, one.answer, fate, read=kept.answer))
    return facts


@asynccontextmanager
async def open_judge(config: JudgeConfig) -> AsyncIterator[JudgeClient]:
    """Open the judge of a configuration; the lexical one runs in this process."""
    if config.provider != "lexical":
        async with JudgeClient(endpoint_for(config, Variables().keys()), config) as judge:
            yield judge
        return
    async with (
        served_completions(lexical_judge, lambda: [LEXICAL_MODEL]) as (url, key),
        JudgeClient(Endpoint(url, LEXICAL_MODEL, key), config) as judge,
    ):
        yield judge


def _require_scored(verdict: Scored | Unscored) -> Scored:
    if isinstance(verdict, Unscored):
        raise JudgeUnavailable(f"The judge gave no verdict on the summary: {verdict.detail}")
    return verdict
