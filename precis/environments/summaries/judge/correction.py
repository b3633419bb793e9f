"""Accuracies corrected by a person's rulings on some of the judge's verdicts.

Prediction-powered inference (Angelopoulos et al., Science 382, 2023): the judge's accuracy over
all, minus the rectifier: the judge's excess over the person on the questions that both have judged.
It is unbiased whatever the judge's faults, if the person's questions were drawn at random.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from precis.records.questions import were_read
from precis.statistics.intervals import (
    CONFIDENCE,
    DOCUMENTS_MIN,
    NORMAL,
    Interval,
    ratio_interval,
    widened,
)
from precis.statistics.standings import Contender, contenders, rows_by


@dataclass(frozen=True)
class CorrectedAccuracy:
    """The accuracy of a contender, or of all together (None), by the judge, and as corrected by a
    person's verdicts on some documents; None with fewer than five."""

    contender: Contender | None
    judged: Interval
    corrected: Interval | None
    documents: int


def correct_accuracies(results: pl.DataFrame, person: pl.DataFrame) -> list[CorrectedAccuracy]:
    """Return the accuracy of all contenders together, unless the person has judged only one, then
    of each. `results` are rows of `precis.records.questions.answers_in`, and `person` some of
    these, with the person's verdicts in the column `person`."""
    several = contenders(results)
    found = []
    if len(contenders(person)) != 1 or len(several) == 1:
        found.append(_correct(None, results, person))
    for contender in several:
        rows = rows_by(results, contender)
        if not correct_by_document(rows).is_empty():
            found.append(_correct(contender, rows, rows_by(person, contender)))
    return found


def _correct(
    contender: Contender | None, results: pl.DataFrame, person: pl.DataFrame
) -> CorrectedAccuracy:
    counts = correct_by_document(results)
    judged = ratio_interval(counts["correct"].to_numpy(), counts["asked"].to_numpy())
    answerable = person.filter("answerable")
    documents = answerable["document_id"].n_unique()
    if documents < DOCUMENTS_MIN:
        return CorrectedAccuracy(contender, judged, None, documents)
    return CorrectedAccuracy(contender, judged, prediction_powered(results, answerable), documents)


def prediction_powered(results: pl.DataFrame, person: pl.DataFrame) -> Interval:
    """Return the prediction-powered estimate of an accuracy, with its 95 % interval. The person
    must have judged at least two documents.

    The variance is over whole documents. If judge and person hardly differ it would be too small:
    as in Agresti and Min (2005), half a difference is added each way. Summaries that scored zero
    without a judge need no person, and add nothing to the rectifier.
    """
    over = (pl.col("correct").cast(pl.Float64) - pl.col("person").cast(pl.Float64)).sum()
    both = person.group_by("document_id").agg(over.alias("over"), pl.len().alias("ruled"))
    table = correct_by_document(results).join(both, on="document_id", how="left").fill_null(0)
    counted = table.select(pl.col("correct", "asked", "over", "ruled").cast(pl.Float64))
    correct, asked, excess, ruled_on = counted.to_numpy().T
    read = correct_by_document(results.filter(were_read()))["asked"].to_numpy()
    share = read.sum() / asked.sum()
    judged = correct.sum() / asked.sum()
    rectifier = excess.sum() / ruled_on.sum()
    added = (correct - judged * asked) / asked.sum()
    added -= share * (excess - rectifier * ruled_on) / ruled_on.sum()
    variance = float(np.sum(added**2) + (share / ruled_on.sum()) ** 2)
    # Widened for few documents, and clipped to 0 and 1.
    mean = judged - share * rectifier
    reach = widened(
        NORMAL.inv_cdf((1 + CONFIDENCE) / 2), int(np.count_nonzero(ruled_on))
    ) * np.sqrt(variance)
    ends = np.clip([mean, mean - reach, mean + reach], 0.0, 1.0)
    return Interval(*map(float, ends))


def correct_by_document(frame: pl.DataFrame) -> pl.DataFrame:
    """Return columns document_id, correct, asked: the answerable questions of the scored
    documents."""
    return (
        frame.filter(pl.col("answerable") & pl.col("correct").is_not_null())
        .group_by("document_id")
        .agg(pl.col("correct").sum().cast(pl.Float64), pl.len().cast(pl.Float64).alias("asked"))
        .sort("document_id")
    )
