"""Checking the judge: some of its verdicts for a person to read, and its protocols compared.

A judge is trusted by reading it. `draw_samples` draws summaries out of a benchmark's results,
`agreement` says how far two verdicts on the same summaries agree, and `audit_report` writes both
down.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import polars as pl

from precis.errors import ConfigError
from precis.records.documents import Document
from precis.records.questions import ANSWERS_KEY, were_read
from precis.records.verdict import Scored, Verdict

_BY_SUMMARY = ANSWERS_KEY[:-1]  # all but the question


@dataclass(frozen=True)
class Asked:
    """One question of a summary, as the results have it; `ruled` is the verdict on record."""

    question_id: str
    question: str
    gold: str
    answerable: bool
    answer: str
    ruled: bool


@dataclass(frozen=True)
class AuditSample:
    """A summary whose verdict is to be read.

    Attributes:
        is_prose: what the judge says of it; None where the protocol does not ask.
    """

    run: str
    model: str
    step: int | None
    document_id: str
    judge: str
    protocol: str
    summary: str
    is_prose: bool | None
    asked: tuple[Asked, ...]


@dataclass(frozen=True)
class Agreement:
    """The rulings of two judges, or of one asked in two ways, on the same answerable questions.

    Attributes:
        both: ruled correct by both.
        neither: ruled correct by neither.
        unscored: summaries that one of them could not judge, and which are left out.
    """

    both: int
    only_first: int
    only_second: int
    neither: int
    unscored: int

    @property
    def questions(self) -> int:
        """The number of questions that both ruled on."""
        return self.both + self.only_first + self.only_second + self.neither

    @property
    def share(self) -> float:
        """The share of questions on which they agree; 1 where there are none."""
        return (self.both + self.neither) / self.questions if self.questions else 1.0

    @property
    def kappa(self) -> float:
        """Cohen's kappa: the agreement beyond what their rates of `correct` make by chance."""
        if not self.questions:
            return 1.0
        first = (self.both + self.only_first) / self.questions
        second = (self.both + self.only_second) / self.questions
        chance = first * second + (1 - first) * (1 - second)
        return 1.0 if chance == 1 else (self.share - chance) / (1 - chance)


def draw_samples(results: pl.DataFrame, count: int, seed: int) -> list[AuditSample]:
    """So many summaries that a judge ruled on, at random but the same for the same seed.

    Args:
        results: rows as `precis.records.questions.answers_in` has them. Unscored summaries, and
            those that scored zero unread, have no verdict to check and are left out.
    """
    ruled = results.filter(pl.col("cause").is_null() & were_read())
    groups = ruled.sort(ANSWERS_KEY, nulls_last=False).partition_by(
        _BY_SUMMARY, maintain_order=True
    )
    chosen = Random(seed).sample(range(len(groups)), min(count, len(groups)))
    return [_sample(groups[index].to_dicts()) for index in sorted(chosen)]


def documents_of(samples: Sequence[AuditSample], corpus: Sequence[Document]) -> list[Document]:
    """Return the document of each sample.

    Raises:
        ConfigError: the corpus does not hold one of them.
    """
    by_id = {document.id: document for document in corpus}
    missing = next((each.document_id for each in samples if each.document_id not in by_id), None)
    if missing is not None:
        raise ConfigError(
            f"The results are about document '{missing}', which this corpus of {len(by_id)} "
            "documents does not hold.",
            "Name the corpus that they were made with (--documents), or leave the protocols "
            "uncompared (--no-compare).",
        )
    return [by_id[sample.document_id] for sample in samples]


def agreement(first: Sequence[Verdict], second: Sequence[Verdict]) -> Agreement:
    """Compare two verdicts on each of the same summaries, over their answerable questions."""
    counts: Counter[tuple[bool, bool]] = Counter()
    unscored = 0
    for one, other in zip(first, second, strict=True):
        if not (isinstance(one, Scored) and isinstance(other, Scored)):
            unscored += 1
            continue
        rulings = _rulings(other)
        counts.update((correct, rulings[id]) for id, correct in _rulings(one).items())
    return Agreement(
        both=counts[True, True],
        only_first=counts[True, False],
        only_second=counts[False, True],
        neither=counts[False, False],
        unscored=unscored,
    )


def _rulings(verdict: Scored) -> dict[str, bool]:
    return {each.question_id: each.correct for each in verdict.answers if each.answerable}


def _sample(rows: Sequence[Mapping[str, Any]]) -> AuditSample:
    asked = tuple(
        Asked(
            row["question_id"],
            row["question"],
            row["gold"],
            row["answerable"],
            row["answer"],
            row["correct"],
        )
        for row in rows
    )
    shared = ("run", "model", "step", "document_id", "judge", "protocol", "summary")
    return AuditSample(
        **{name: rows[0][name] for name in shared}, is_prose=_is_prose(rows[0]), asked=asked
    )


def _is_prose(row: Mapping[str, Any]) -> bool | None:
    if not row["protocol"].startswith("batched"):
        return None
    return bool(row["disqualified"] != "judged_not_prose")
