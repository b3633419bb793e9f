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
from precis.inference.texts import INPUT_NAME, STANDARD_INPUT
from precis.llm.loop_server import served_completions
from precis.llm.providers import Endpoint
from precis.records.documents import Document, Question
from precis.records.rows import read_json_file
from precis.rehearsal.judges.judge import lexical_judge

Fate = Literal["kept", "lost", "not in the document"]
"""The fate of a fact; the last if the judge can't answer from the whole document either."""


@dataclass(frozen=True)
class FileQuestion:
    """A question with its answer, and its file; empty for any file."""

    question: str
    answer: str
    file: str = ""


@dataclass(frozen=True)
class FactCheck:
    """A question, its fate, and the judge's answer from the summary."""

    question: str
    answer: str
    fate: Fate
    read: str


def read_questions(path: Path) -> list[FileQuestion]:
    """Read questions from a JSONL file: `question`, `answer` and, with several files, `file`.
    Raises ConfigError, which names the line, if the file or a line of it can't be used."""

    def read(_: int, record: dict[str, Any]) -> FileQuestion:
        for name in ("question", "answer"):
            if not isinstance(record.get(name), str) or not record[name].strip():
                raise ValueError(f"{name!r} is missing or empty.")
        return FileQuestion(record["question"], record["answer"], str(record.get("file") or ""))

    remedy = 'Write one object a line: {"question": …, "answer": …}.'
    return read_json_file(str(path), "questions", read, remedy)


def questions_about(file: str, asked: Sequence[FileQuestion]) -> list[FileQuestion]:
    """Return the questions about a file: those that name it, and those that name none.

    Standard input may be named as on the command line, and as in messages.
    """
    names = {"", file, Path(file).name}
    if file in (STANDARD_INPUT, INPUT_NAME):
        names |= {STANDARD_INPUT, INPUT_NAME}
    return [one for one in asked if one.file in names]


async def check_facts(
    judge: JudgeClient, text: str, summary: str, asked: Sequence[FileQuestion]
) -> list[FactCheck]:
    questions = []
    for number, one in enumerate(asked, start=1):
        questions.append(Question(str(number), one.question, one.answer, answerable=True))
    document = Document("document", "", text, tuple(questions))
    of_summary = _require_scored(await judge.score(document, summary))
    of_document = _require_scored(await judge.score(document, text))
    facts = []
    for one, kept, there in zip(asked, of_summary.answers, of_document.answers, strict=True):
        fate: Fate = "not in the document"
        if kept.correct:
            fate = "kept"
        elif there.correct:
            fate = "lost"
        facts.append(FactCheck(one.question, one.answer, fate, read=kept.answer))
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
