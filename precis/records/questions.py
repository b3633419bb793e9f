"""The second table of a benchmark of summaries: a row for each question that one was asked."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import polars as pl

from precis.errors import StoreError
from precis.records.results import Provenance, metric, read_results
from precis.records.summary import JudgedSummary
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
"""The columns. `answer` and `correct` are null where the summary is unscored."""

_KEY = ("run", "model", "step", "scenario_id", "question_id")
_ROLLOUT = ("run", "model", "step", "scenario_id")

_UNREAD: tuple[Disqualified, ...] = ("empty", "over_length", "wrong_script")
"""Why a benchmark gives zero without asking the judge."""

ANSWERS_KEY = ("run", "model", "step", "document_id", "question_id")
"""What makes a row of `answers_in` unique."""


def questions_key(model: str, night: str) -> str:
    """Where the questions of one benchmark lie in the store."""
    return f"{model}/questions/{night}.parquet"


def questions_of(judged: Iterable[JudgedSummary], provenance: Provenance) -> pl.DataFrame:
    """What a contender's summaries were asked and answered, ordered."""
    rows: list[dict[str, Any]] = []
    for one in judged:
        rows += _rows(one, provenance)
    return pl.DataFrame(rows, schema=QUESTIONS, orient="row").sort(_KEY, nulls_last=False)


def _rows(judged: JudgedSummary, provenance: Provenance) -> Iterator[dict[str, Any]]:
    answers = {answer.question_id: answer for answer in judged.verdict.answers}
    for question in judged.document.questions:
        answer = answers.get(question.id)
        yield {
            "run": provenance.run,
            "model": provenance.model,
            "step": provenance.step,
            "scenario_id": judged.document.id,
            "question_id": question.id,
            "question": question.text,
            "gold": question.answer,
            "answerable": question.answerable,
            "answer": answer.answer if answer else None,
            "correct": answer.correct if answer else None,
        }


def answers_in(results: pl.DataFrame, questions: pl.DataFrame) -> pl.DataFrame:
    """Both tables as one for a person to audit: a row for each question, with its summary.

    Columns are those of both, `document_id`, `summary`, and `disqualified`: why the summary scored
    zero.
    """
    why = pl.lit(None, pl.String)
    for cause in get_args(Disqualified):
        why = pl.when(metric(cause) > 0).then(pl.lit(cause)).otherwise(why)
    both = questions.join(
        results.with_columns(disqualified=why), on=_ROLLOUT, how="inner", nulls_equal=True
    )
    renamed = both.rename({"scenario_id": "document_id", "text": "summary"})
    return renamed.sort(ANSWERS_KEY, nulls_last=False)


def were_read() -> pl.Expr:
    """Which rows of `answers_in` are of summaries that a judge has read.

    A benchmark has what is no prose by measure judged all the same.
    """
    return ~pl.col("disqualified").is_in(_UNREAD).fill_null(value=False)


def read_answers(path: Path) -> pl.DataFrame:
    """The results of a file with the questions beside it, as `answers_in` has them.

    Raises:
        StoreError: one of the files is missing, or is not what it should be.
    """
    results = read_results(path)
    beside = path.with_name("questions.parquet")
    try:
        questions = pl.read_parquet(beside)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise StoreError(
            f"Can't read the questions in {beside}: {error}", "It lies beside the results."
        ) from error
    if questions.schema != QUESTIONS:
        raise StoreError(f"{beside} is not a file of questions of this version.")
    return answers_in(results, questions)
