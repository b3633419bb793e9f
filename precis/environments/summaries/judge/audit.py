"""Some of a judge's verdicts, drawn out of a benchmark's results for a person to read."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import polars as pl

from precis.records.questions import ANSWERS_KEY, were_read

_BY_SUMMARY = ANSWERS_KEY[:-1]  # all but the question
_PROSE_SAID = {None: "", True: "; it is prose", False: "; **it is no prose, and scores zero**"}


Sample = Sequence[Mapping[str, Any]]
"""The rows of one summary."""


def draw_samples(results: pl.DataFrame, count: int, seed: int) -> list[Sample]:
    """So many summaries that a judge read and ruled on, at random but the same for the same seed,
    out of rows as `precis.records.questions.answers_in` has them."""
    ruled = results.filter(pl.col("cause").is_null() & were_read())
    groups = ruled.sort(ANSWERS_KEY, nulls_last=False).partition_by(
        _BY_SUMMARY, maintain_order=True
    )
    chosen = Random(seed).sample(range(len(groups)), min(count, len(groups)))
    return [groups[index].to_dicts() for index in sorted(chosen)]


def is_prose(sample: Sample) -> bool | None:
    """Return whether the judge took a summary for prose; None where nobody asked."""
    if not sample[0]["protocol"].startswith("batched"):
        return None
    return bool(sample[0]["disqualified"] != "judged_not_prose")


def as_markdown(samples: Sequence[Sample]) -> str:
    """Return a page to read: each summary with its questions, golden answers and verdicts."""
    parts = [f"# The judge's verdicts on {len(samples)} summaries"]
    for number, sample in enumerate(samples, start=1):
        said = {name: _escape(str(value)) for name, value in sample[0].items()}
        step = "" if sample[0]["step"] is None else f", step {said['step']}"
        rows = ["| Question | Gold | Answer | On record |", "| --- | --- | --- | --- |"]
        for row in sample:
            mark = "correct" if row["correct"] else "wrong"
            mark += "" if row["answerable"] else " (no reward)"
            cells = map(_escape, (row["question"], row["gold"], row["answer"]))
            rows.append(f"| {' | '.join(cells)} | {mark} |")
        parts += [
            f"## {number}. {said['model']}{step}, document {said['document_id']}",
            f"> {said['summary']}",
            f"On record: judge {said['judge']}, protocol {said['protocol']}"
            f"{_PROSE_SAID[is_prose(sample)]}.",
            "\n".join(rows),
        ]
    return "\n\n".join(parts) + "\n"


def _escape(text: str) -> str:
    """Text on one line that markdown takes for nothing but text, since others wrote it."""
    line = " ".join(text.split())
    return "".join(f"\\{mark}" if mark in r"\`*_[]#|<>~&" else mark for mark in line)
