"""The accuracy and the false accepts of the lexical judge.

    python bench/lexical_judge.py documents.parquet other.jsonl

Each file has RepLiQA's columns. Accuracies are over the answerable questions; false accepts over
golden answers of other questions of the same document, and golden answers with one number or date,
one name or one denial changed. telegraph-350 is not prose: its reward is 0, whatever its accuracy.
Intervals are of 95 %, whole documents resampled.
"""

import calendar
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from precis.config import DocumentsConfig
from precis.environments.summaries.baselines import lead, random_sentences, telegraph
from precis.records.documents import UNANSWERABLE, Document, Question, read_documents
from precis.rehearsal.judges import grader, reader
from precis.rehearsal.judges.words import is_content
from precis.statistics.intervals import Interval, ratio_interval
from precis.text import WORDS_MAX

_MONTHS = [month for month in calendar.month_name if month]
_DAYS = list(calendar.day_name)
_COUNTS = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "forty",
]  # fmt: skip
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
_WORDS = [
    (words, re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE if words is _COUNTS else 0))
    for words in (_MONTHS, _DAYS, _COUNTS)
]
_NAME = re.compile(r"\b[A-Z][\w\u2019-]+(?: [A-Z][\w\u2019-]+)*")
_IN_MID_SENTENCE = re.compile(r"(?<=[a-z,;] )[A-Z][\w-]+(?: [A-Z][\w-]+)*")
_AUXILIARY = re.compile(
    r"\b(?:is|are|was|were|has|have|had|will|would|can|could|may|might|must|shall|should|does|do"
    r"|did)\b"
)
_DENIAL = re.compile(r"\b(?:not|never) ")
_OTHER_DENIAL = re.compile(
    r"\b(?:no|none|nobody|nothing|neither|nor|without)\b|n['\u2019]t\b", re.I
)


@dataclass(frozen=True)
class Share:
    """A share of questions, by document.

    Attributes:
        counts: for each document the questions that count, and all of them.
    """

    name: str
    counts: tuple[tuple[int, int], ...]

    @property
    def of(self) -> int:
        return sum(whole for _, whole in self.counts)

    @property
    def interval(self) -> Interval | None:
        """The share with its 95 % interval, whole documents resampled; None without questions."""
        asked = [(part, whole) for part, whole in self.counts if whole]
        if not asked:
            return None
        return ratio_interval([part for part, _ in asked], [whole for _, whole in asked])


def accuracies(documents: Sequence[Document]) -> Iterator[Share]:
    """Yield the share of answerable questions answered right from each kind of text."""
    summaries: dict[str, Callable[[str], str]] = {
        "full document": lambda text: text,
        "lead-350": lambda text: lead(text, WORDS_MAX),
        "random-350": lambda text: random_sentences(text, WORDS_MAX),
        "telegraph-350": lambda text: telegraph(text, WORDS_MAX),
    }
    for name, summarize in summaries.items():
        yield Share(name, tuple(right(one, summarize(one.text)) for one in documents))


def declined(documents: Sequence[Document]) -> Share:
    """Return the share of unanswerable questions that the reader declines, given the full
    document."""
    counts = []
    for document in documents:
        silent = [one for one in document.questions if not one.answerable]
        said = [reader.answer(document.text, one.text) for one in silent]
        counts.append((said.count(UNANSWERABLE), len(said)))
    return Share("declined, of the unanswerable", tuple(counts))


def false_accepts(documents: Sequence[Document]) -> Iterator[Share]:
    """Yield the share of wrong answers that the grader accepts, by kind and over all."""
    kinds: dict[str, Callable[[Document, Question], Iterable[str]]] = {
        "another question's answer": _of_others,
        "another number or date": lambda document, one: other_numbers(one.answer, Random(one.id)),
        "another name": lambda document, one: other_names(
            one.answer, document.text, Random(one.id)
        ),
        "the opposite": lambda document, one: opposites(one.answer),
    }
    shares = []
    for name, wrong in kinds.items():
        counts = tuple(_accepted(document, wrong) for document in documents)
        shares.append(Share(f"accepted: {name}", counts))
    yield from shares
    totals = []
    for counts in zip(*(share.counts for share in shares), strict=True):
        parts, wholes = zip(*counts, strict=True)
        totals.append((sum(parts), sum(wholes)))
    yield Share("accepted: all of them", tuple(totals))


def right(document: Document, text: str) -> tuple[int, int]:
    """Count a document's answerable questions that the judge answers right from a text, and all."""
    asked = [one for one in document.questions if one.answerable]
    grades = [grader.grade(one.text, one.answer, reader.answer(text, one.text)) for one in asked]
    return sum(grades), len(grades)


def _accepted(
    document: Document, wrong: Callable[[Document, Question], Iterable[str]]
) -> tuple[int, int]:
    grades = []
    for one in document.questions:
        if one.answerable:
            for given in wrong(document, one):
                if given != one.answer:
                    grades.append(grader.grade(one.text, one.answer, given))
    return sum(grades), len(grades)


def _of_others(document: Document, question: Question) -> Iterator[str]:
    for other in document.questions:
        if other.answerable and other.answer != question.answer:
            yield other.answer


def other_numbers(gold: str, draw: Random) -> Iterator[str]:
    """Yield the answer with one number or date changed, for each of them."""
    for match in _DIGITS.finditer(gold):
        other = match.group()
        while other == match.group():
            other = re.sub(r"\d", lambda _: draw.choice("123456789"), other)
        yield _with(gold, match, other)
    for words, pattern in _WORDS:
        for match in pattern.finditer(gold):
            others = [word for word in words if word.lower() != match.group().lower()]
            yield _with(gold, match, draw.choice(others))


def other_names(gold: str, text: str, draw: Random) -> Iterator[str]:
    """Yield the answer with one name replaced by another of the document, for each of them."""
    no_names = set(re.findall(r"[a-z]+", text)) | {word.lower() for word in (*_MONTHS, *_DAYS)}
    known = []
    for name in sorted(set(_IN_MID_SENTENCE.findall(text))):
        words = [word.lower() for word in name.split()]
        if all(is_content(word) and word not in no_names for word in words):
            known.append(name)
    parts = {part for name in known for part in name.split()}
    for match in _NAME.finditer(gold):
        named = set(match.group().split())
        others = [name for name in known if not named & set(name.split())]
        if named <= parts and others:
            yield _with(gold, match, draw.choice(others))


def opposites(gold: str) -> Iterator[str]:
    """Yield the answer with its yes or no, or one denial, reversed."""
    rest = gold
    verdict = re.match(r"(yes|no)\b", gold, re.IGNORECASE)
    if verdict:
        yield ("No" if verdict.group().lower() == "yes" else "Yes") + gold[verdict.end() :]
        rest = gold[verdict.end() :]
    lead = gold[: len(gold) - len(rest)]
    denial = _DENIAL.search(rest)
    if denial:
        yield lead + rest[: denial.start()] + rest[denial.end() :]
    elif not _OTHER_DENIAL.search(rest) and (auxiliary := _AUXILIARY.search(rest)):
        yield lead + rest[: auxiliary.end()] + " not" + rest[auxiliary.end() :]


def _with(gold: str, match: re.Match[str], other: str) -> str:
    return gold[: match.start()] + other + gold[match.end() :]


def main(
    files: Annotated[
        list[str] | None, typer.Argument(help="Corpora in RepLiQA's columns; none: the bundled.")
    ] = None,
) -> None:
    """Print one table for all files."""
    table = Table("documents", "measure", "of", "share (95 %)")
    for file in files or ["bundled"]:
        documents = read_documents(DocumentsConfig(source=file))
        shares = [*accuracies(documents), declined(documents), *false_accepts(documents)]
        for share in shares:
            table.add_row(Path(file).name, share.name, str(share.of), str(share.interval or "–"))
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
