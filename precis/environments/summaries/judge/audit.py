"""An audit of a judge: a sample of its verdicts in a sheet, compared with a person's.

The sheet shows neither the judge's verdict nor the summary's author, so that neither biases the
person.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from precis.environments.summaries.judge.correction import correct_accuracies
from precis.errors import ConfigError
from precis.records.questions import ANSWERS_KEY, were_read
from precis.statistics.intervals import DOCUMENTS_MIN

VERDICT = "person"
"""The column to fill in."""

Sample = Sequence[Mapping[str, Any]]
"""The rows of one summary."""
_BY_SUMMARY = ANSWERS_KEY[:-1]  # all but the question
_AS_TEXT = " as text"
_KEY_AS_TEXT = [name + _AS_TEXT for name in ANSWERS_KEY]
_COLUMNS = (VERDICT, "question", "gold", "answer", *ANSWERS_KEY)
_HEADINGS = ("", "by the judge", "corrected by the person", "documents filled in")
_WORDS = {
    "correct": True, "right": True, "yes": True, "true": True, "y": True, "1": True,
    "wrong": False, "incorrect": False, "no": False, "false": False, "n": False, "0": False,
}  # fmt: skip
_FORMULA = re.compile(r"[=+\-@＝＋－＠]")
_BEHIND_APOSTROPHE = re.compile(r"'(?=[=+\-@＝＋－＠])")


@dataclass(frozen=True)
class Agreement:
    """Counts of questions ruled correct by judge and person, by one of them, by neither."""

    both: int
    only_judge: int
    only_person: int
    neither: int

    @property
    def questions(self) -> int:
        return self.both + self.only_judge + self.only_person + self.neither

    @property
    def share(self) -> float:
        """The share of questions on which they agree."""
        return (self.both + self.neither) / self.questions

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: the agreement beyond what their rates of `correct` make by chance, unless
        that is all of it."""
        judge = (self.both + self.only_judge) / self.questions
        person = (self.both + self.only_person) / self.questions
        chance = judge * person + (1 - judge) * (1 - person)
        return None if chance == 1 else (self.share - chance) / (1 - chance)


def draw_samples(results: pl.DataFrame, count: int, seed: int) -> list[Sample]:
    """Draw `count` judged summaries, by `seed`, from the rows of
    `precis.records.questions.answers_in`."""
    ruled = results.filter(pl.col("cause").is_null() & were_read())
    groups = ruled.sort(ANSWERS_KEY, nulls_last=False).partition_by(
        _BY_SUMMARY, maintain_order=True
    )
    chosen = Random(seed).sample(range(len(groups)), min(count, len(groups)))
    return [groups[index].to_dicts() for index in sorted(chosen)]


def as_sheet(samples: Sequence[Sample]) -> str:
    """Return CSV with a line for each answerable question, and an empty column `person`."""
    written = io.StringIO()
    sheet = csv.writer(written, lineterminator="\n")
    sheet.writerow(_COLUMNS)
    for sample in samples:
        for row in sample:
            step = "" if row["step"] is None else str(row["step"])
            keys = [row["run"], row["model"], step, row["document_id"]]
            if row["answerable"]:
                cells = [row["question"], row["gold"], row["answer"], *keys, row["question_id"]]
                sheet.writerow(["", *map(_as_text, cells)])
    return written.getvalue()


def check_sheet(path: Path, samples: Sequence[Sample]) -> None:
    """Refuse an existing sheet with other summaries."""
    if not path.exists():
        return
    try:
        there = set(map(_key, _rows(path.read_text(encoding="utf-8-sig"))))
        same = there == set(map(_key, _rows(as_sheet(samples))))
    except (OSError, UnicodeDecodeError, csv.Error):
        same = False
    if not same:
        raise ConfigError(
            f"{path} is the sheet of other summaries, and a person may have filled it in.",
            "Move it away, or give this audit another place (--out).",
        )


def read_sheet(path: Path, results: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the results that a person has judged, with the verdicts as `person`.
    Raises ConfigError if the file can't be read, holds no verdict, or is not of these results."""
    try:
        ruled = list(_verdicts(path))
    except csv.Error as error:  # a cell that is too long
        raise ConfigError(
            f"{path} can't be read: {error}.",
            "See whether a cell begins with a quotation mark that nothing closes.",
        ) from error
    if not ruled:
        raise ConfigError(
            f"{path} holds no verdict: write `correct` or `wrong` into the column {VERDICT!r}."
        )
    given = pl.DataFrame(ruled, schema=["line", VERDICT, *_KEY_AS_TEXT], orient="row")
    as_text = pl.col(ANSWERS_KEY).cast(pl.String).fill_null("")
    written = as_text.map_elements(lambda cell: _read(_as_text(cell)), return_dtype=pl.String)
    keyed = results.with_columns(written.name.suffix(_AS_TEXT))
    found = given.join(keyed, on=_KEY_AS_TEXT, how="left", maintain_order="left")
    unknown = found.filter(pl.col("correct").is_null())
    if not unknown.is_empty():
        raise ConfigError(
            f"{path}, line {unknown['line'][0]}: no verdict of a judge in these results belongs to "
            "it.",
            "Name the results that the sheet was made of, and leave its last columns alone.",
        )
    twice = found.filter(pl.struct(_KEY_AS_TEXT).is_duplicated())
    if not twice.is_empty():
        said = f"{path}, line {twice['line'][-1]}: its question is there twice."
        raise ConfigError(said, "Delete one of the lines.")
    return found


def report_on_sheet(results: pl.DataFrame, sheet: Path) -> str:
    """Report the agreement of judge and person in a filled-in sheet, and the corrected accuracies.
    Raises ConfigError if the sheet can't be used."""
    person = read_sheet(sheet, results)
    answerable = person.filter("answerable")
    ruled = Counter(zip(answerable["correct"], answerable[VERDICT], strict=True))
    found = Agreement(
        ruled[True, True], ruled[True, False], ruled[False, True], ruled[False, False]
    )
    kappa = "undefined" if found.kappa is None else f"{found.kappa:.2f}"
    # A table for a terminal, with columns as wide as their widest cells.
    rows: list[tuple[str, ...]] = [_HEADINGS]
    for one in correct_accuracies(results, person):
        who = "all together" if one.contender is None else str(one.contender)
        corrected = "too few" if one.corrected is None else str(one.corrected)
        rows.append((who, str(one.judged), corrected, str(one.documents)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = map(str.ljust, row, widths)
        lines.append("  ".join(cells).rstrip())
    parts = [
        f"Judge and person agree on {found.share:.1%} of {found.questions} answerable questions "
        f"(Cohen's kappa {kappa}): {found.both} correct by both, {found.only_judge} by "
        f"the judge only, {found.only_person} by the person only, {found.neither} by neither.",
        "Share answered rightly, prose or not (95 % interval; prediction-powered inference):",
        "\n".join(lines),
        "The corrected share is right whatever the judge's faults, if the filled lines are a "
        f"random sample: leave out no hard ones. Fewer than {DOCUMENTS_MIN} documents say too "
        "little; --contender samples one contender alone.",
    ]
    return "\n\n".join(parts)


def _verdicts(path: Path) -> Iterator[tuple[int | bool | str, ...]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"Can't read {path}: {reason}.") from error
    rows = _rows(text)
    missing = [name for name in (VERDICT, *ANSWERS_KEY) if name not in (rows.fieldnames or ())]
    if missing:
        raise ConfigError(
            f"{path} is not a sheet of an audit: the column {missing[0]!r} is missing.",
            "Make one with `precis judge audit RESULTS`.",
        )
    for row in rows:
        word = (row[VERDICT] or "").strip().lower()
        if not word:
            continue
        if word not in _WORDS:
            raise ConfigError(
                f"{path}, line {rows.line_num}: {word[:40]!r} is not a verdict.",
                "Write `correct` or `wrong`, or leave it empty.",
            )
        yield rows.line_num, _WORDS[word], *_key(row)


def _rows(text: str) -> "csv.DictReader[str]":
    # Spreadsheets in some languages write semicolons.
    head = text.partition("\n")[0]
    return csv.DictReader(io.StringIO(text), delimiter=";" if ";" in head else ",")


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key of the question and the summary of a sheet's row."""
    return tuple(_read(row.get(name) or "") for name in ANSWERS_KEY)


def _read(cell: str) -> str:
    """Return a cell of the sheet without the apostrophe of `_as_text`."""
    return _BEHIND_APOSTROPHE.sub("", cell, 1)


def _as_text(cell: str) -> str:
    """Prefix an apostrophe to a cell that a spreadsheet would read as a formula."""
    line = " ".join(cell.split())
    return f"'{line}" if _FORMULA.match(line) else line
