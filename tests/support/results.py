"""Rows of results: what each of some contenders answered."""

from collections.abc import Mapping, Sequence

import polars as pl

from precis.records.results import SCHEMA

Verdicts = Mapping[str, Sequence[bool | None]]


def rows(
    model: str, verdicts: Verdicts, step: int | None = None, **columns: object
) -> pl.DataFrame:
    """Four answerable questions and one unanswerable for each document; None is unscored."""
    records = [
        {
            **dict.fromkeys(SCHEMA, None),
            "model": model,
            "step": step,
            "document_id": document,
            "question_id": f"{document}-{index}",
            "answerable": index < 4,
            "correct": correct,
            "cause": "timeout" if correct is None else None,
            "words": 100,
            **columns,
        }
        for document, given in verdicts.items()
        for index, correct in enumerate(given)
    ]
    return pl.DataFrame(records, schema=SCHEMA)
