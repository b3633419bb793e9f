"""Rows of results: what each of some contenders answered."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from precis.records.questions import answers_in
from precis.records.results import SCHEMA, Provenance, frame_of, write_results
from tests.support.summaries import JudgedSummary, questions_of, row_of

Verdicts = Mapping[str, Sequence[bool | None]]


def rows(
    model: str, verdicts: Verdicts, step: int | None = None, words: float = 100, **columns: object
) -> pl.DataFrame:
    """Four answerable questions and one unanswerable for each document; None is unscored."""
    records = []
    for document, given in verdicts.items():
        is_scored = given[0] is not None
        metrics: dict[str, float] = {"words": words, "over_length": 0.0}
        if is_scored:
            others = given[4:]
            metrics |= {"unanswerable": len(others), "declined": sum(map(bool, others))}
        record = {
            **dict.fromkeys(SCHEMA, None),
            "model": model,
            "step": step,
            "scenario_id": document,
            "score": float(sum(map(bool, given[:4]))) if is_scored else None,
            "weight": float(len(given[:4])) if is_scored else None,
            "cause": None if is_scored else "timeout",
            "metrics": json.dumps(metrics),
            **columns,
        }
        records.append(record)
    return pl.DataFrame(records, schema=SCHEMA)


def tables(
    judged: Sequence[JudgedSummary], provenance: Provenance
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both tables of a contender."""
    frame = frame_of(row_of(one, provenance) for one in judged)
    return frame, questions_of(judged, provenance)


def answers(judged: Sequence[JudgedSummary], provenance: Provenance) -> pl.DataFrame:
    """Both as one, for an audit."""
    return answers_in(*tables(judged, provenance))


def write_tables(judged: Sequence[JudgedSummary], provenance: Provenance, path: Path) -> None:
    """Write both, as a benchmark does."""
    frame, questions = tables(judged, provenance)
    write_results(frame, path)
    questions.write_parquet(path.with_name("questions.parquet"))
