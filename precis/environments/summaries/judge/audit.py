"""Some of a judge's verdicts, drawn out of a benchmark's results for a person to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import polars as pl

from precis.records.questions import ANSWERS_KEY, were_read

_BY_SUMMARY = ANSWERS_KEY[:-1]  # all but the question
_PROSE_SAID = {None: "", True: "; it is prose", False: "; **it is no prose, and scores zero**"}


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
    """A summary whose verdict is to be read; whether it is prose is None where nobody asked."""

    run: str
    model: str
    step: int | None
    document_id: str
    judge: str
    protocol: str
    summary: str
    is_prose: bool | None
    asked: tuple[Asked, ...]


def draw_samples(results: pl.DataFrame, count: int, seed: int) -> list[AuditSample]:
    """So many summaries that a judge read and ruled on, at random but the same for the same seed.

    Args:
        results: rows as `precis.records.questions.answers_in` has them.
    """
    ruled = results.filter(pl.col("cause").is_null() & were_read())
    groups = ruled.sort(ANSWERS_KEY, nulls_last=False).partition_by(
        _BY_SUMMARY, maintain_order=True
    )
    chosen = Random(seed).sample(range(len(groups)), min(count, len(groups)))
    return [_sample(groups[index].to_dicts()) for index in sorted(chosen)]


def _sample(rows: Sequence[Mapping[str, Any]]) -> AuditSample:
    first = rows[0]
    asked = []
    for row in rows:
        said = (row["question"], row["gold"], row["answerable"], row["answer"], row["correct"])
        asked.append(Asked(row["question_id"], *said))
    is_prose: bool | None = None
    if first["protocol"].startswith("batched"):
        is_prose = first["disqualified"] != "judged_not_prose"
    names = ("run", "model", "step", "document_id", "judge", "protocol", "summary")
    shared = {name: first[name] for name in names}
    return AuditSample(**shared, is_prose=is_prose, asked=tuple(asked))


def as_markdown(samples: Sequence[AuditSample]) -> str:
    """Return a page to read: each summary with its questions, golden answers and verdicts."""
    parts = [f"# The judge's verdicts on {len(samples)} summaries"]
    for number, sample in enumerate(samples, start=1):
        step = "" if sample.step is None else f", step {sample.step}"
        by = f"{_escape(sample.model)}{step}, document {_escape(sample.document_id)}"
        judge = f"judge {_escape(sample.judge)}, protocol {_escape(sample.protocol)}"
        rows = ["| Question | Gold | Answer | On record |", "| --- | --- | --- | --- |"]
        for asked in sample.asked:
            mark = "correct" if asked.ruled else "wrong"
            mark += "" if asked.answerable else " (no reward)"
            said = map(_escape, (asked.question, asked.gold, asked.answer))
            rows.append(f"| {' | '.join(said)} | {mark} |")
        parts += [
            f"## {number}. {by}",
            f"> {_escape(sample.summary)}",
            f"On record: {judge}{_PROSE_SAID[sample.is_prose]}.",
            "\n".join(rows),
        ]
    return "\n\n".join(parts) + "\n"


def _escape(text: str) -> str:
    """Text on one line that markdown takes for nothing but text, since others wrote it."""
    line = " ".join(text.split())
    return "".join(f"\\{mark}" if mark in r"\`*_[]#|<>~&" else mark for mark in line)
