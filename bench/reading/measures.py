"""The lexical judge's accuracy and false accepts on a corpus."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from bench.reading.alterations import opposites, other_names, other_numbers
from precis.environments.summaries.baselines import lead, random_sentences, telegraph
from precis.records.documents import UNANSWERABLE, Document, Question
from precis.rehearsal.judges import grader, reader
from precis.statistics.intervals import Interval, ratio_interval
from precis.words import WORDS_MAX


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
        yield Share(name, tuple(_right(one, summarize(one.text)) for one in documents))


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
        shares.append(Share(name, counts))
    yield from shares
    totals = []
    for counts in zip(*(share.counts for share in shares), strict=True):
        parts, wholes = zip(*counts, strict=True)
        totals.append((sum(parts), sum(wholes)))
    yield Share("all of them", tuple(totals))


def right(document: Document, text: str) -> int:
    """Count a document's answerable questions that the judge answers right from a text."""
    return _right(document, text)[0]


def _right(document: Document, text: str) -> tuple[int, int]:
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
