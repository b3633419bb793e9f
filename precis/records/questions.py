"""The second table of a benchmark of summaries: a row for each question about one."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import polars as pl

from precis.records.results import KEY, Provenance, metric, read_results, read_table
from precis.records.verdict import Disqualified

_COLUMNS: dict[str, pl.DataType | pl.datatypes.DataTypeClass] = {
    "run": pl.String,
    "model": pl.String,
    "step": pl.Int64,
    "scenario_id": pl.String,
    "question_id": pl.String,
    "question": pl.String,
    "gold": pl.String,
    "answerable": pl.Boolean,
    "answer": pl.String,
    "correct": pl.Boolean,
}
QUESTIONS = pl.Schema(_COLUMNS)
"""The columns. `answer` and `correct` are null if the summary is unscored."""

_KEY = (*KEY, "question_id")

_UNREAD: tuple[Disqualified, ...] = ("empty", "over_length", "wrong_script")
"""The reasons for a zero without the judge in a benchmark."""

ANSWERS_KEY = ("run", "model", "step", "document_id", "question_id")
"""The unique key of a row of `answers_in`."""


@dataclass(frozen=True)
class QuestionRow:
    """A question about a rollout.

    Attributes:
        gold: the golden answer.
        answerable: whether it counts.
        answer: the given answer; None if the rollout is unscored.
        correct: whether that is right; None if the rollout is unscored.
    """

    question_id: str
    question: str
    gold: str
    answerable: bool
    answer: str | None = None
    correct: bool | None = None


def questions_of(
    asked: Iterable[tuple[str, Sequence[QuestionRow]]], provenance: Provenance
) -> pl.DataFrame:
    """Return the questions about a contender's rollouts, given by the scenario's id, ordered."""
    origin = {"run": provenance.run, "model": provenance.model, "step": provenance.step}
    rows: list[dict[str, Any]] = []
    for scenario_id, questions in asked:
        for one in questions:
            rows.append({**origin, "scenario_id": scenario_id, **asdict(one)})
    return pl.DataFrame(rows, schema=QUESTIONS, orient="row").sort(_KEY, nulls_last=False)


def answers_in(results: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Join both tables for an audit: a row for each question, with its summary, and `disqualified`,
    the reason for a zero."""
    why = pl.lit(None, pl.String)
    for cause in get_args(Disqualified):
        why = pl.when(metric(cause) > 0).then(pl.lit(cause)).otherwise(why)
    both = questions.join(
        results.with_columns(disqualified=why), on=KEY, how="inner", nulls_equal=True
    )
    renamed = both.rename({"scenario_id": "document_id", "text": "summary"})
    return renamed.sort(ANSWERS_KEY, nulls_last=False)


def were_read() -> pl.Expr:
    """Return the filter for rows of `answers_in` whose summaries a judge has read. In a benchmark,
    texts that fail the measure of prose are judged too."""
    return ~pl.col("disqualified").is_in(_UNREAD).fill_null(value=False)


def read_answers(path: Path) -> pl.DataFrame:
    """Return the results of a file with its questions, as in `answers_in`. Raises StoreError if one
    of the files is missing, or invalid."""
    results = read_results(path)
    beside = path.with_name("questions.parquet")
    questions = read_table(beside, QUESTIONS, f"questions beside {path.name}")
    return answers_in(results, questions)
