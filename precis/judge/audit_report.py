"""What a person's verdicts say of the judge: how far they agree, and the accuracy that is left."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from precis.judge.audit import Agreement
from precis.judge.audit_sheet import agreement_with, read_sheet
from precis.judge.correction import CorrectedAccuracy, correct_accuracies
from precis.statistics.intervals import DOCUMENTS_MIN, Interval

_COLUMNS = ("", "by the judge", "corrected by the person", "documents ruled on")


def audit_report(results: pl.DataFrame, sheet: Path) -> str:
    """The report of a filled-in sheet, as text.

    Raises:
        ConfigError: the sheet can't be used.
    """
    person = read_sheet(sheet, results)
    rows = [_COLUMNS, *(_row(one) for one in correct_accuracies(results, person))]
    parts = [
        _agreement(agreement_with(person)),
        "Accuracy, with its 95 % interval (prediction-powered inference):",
        _table(rows),
        f"Corrected is right whatever the judge's faults, if what was ruled on is a random sample: "
        f"what was left empty must not have been harder. Fewer than {DOCUMENTS_MIN} documents say "
        "too little; --contender samples one contender alone.",
    ]
    return "\n\n".join(parts)


def _agreement(found: Agreement) -> str:
    return (
        f"Judge and person agree on {found.share:.1%} of {found.questions} answerable questions "
        f"(Cohen's kappa {found.kappa:.2f}): {found.both} correct by both, {found.only_first} by "
        f"the judge only, {found.only_second} by the person only, {found.neither} by neither."
    )


def _row(one: CorrectedAccuracy) -> tuple[str, ...]:
    who = "all together" if one.contender is None else str(one.contender)
    return who, _format(one.judged), _format(one.corrected), str(one.documents)


def _format(interval: Interval | None) -> str:
    return str(interval) if interval else "too few"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
