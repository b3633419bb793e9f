"""A person's verdicts on the judge's: read from a sheet, and what they make of an accuracy."""

import csv
import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from precis.commands.judge import app
from precis.environments.summaries.judge.audit import Agreement, as_sheet, draw_samples, read_sheet
from precis.environments.summaries.judge.correction import correct_accuracies, prediction_powered
from precis.errors import ConfigError
from tests.support.reports import judged
from tests.support.results import answers, write_tables

EXPERIMENTS = 100
CELL_MAX = csv.field_size_limit()


@pytest.fixture(autouse=True)
def cells() -> None:
    """The limit of the whole process, which the reader of documents may have raised meanwhile."""
    csv.field_size_limit(CELL_MAX)


DOZEN, FROM = judged("trained", 3, [2] * 12)
"""Summaries from each of which half of four questions are answered."""


def frame() -> pl.DataFrame:
    """What an audit reads of these."""
    return answers(DOZEN, FROM)


def fill_in(sheet: str, verdicts: dict[int, str], path: Path) -> Path:
    """The sheet with verdicts in some of its lines, counted from 0."""
    rows = list(csv.DictReader(io.StringIO(sheet)))
    for at, verdict in verdicts.items():
        rows[at]["person"] = verdict
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_sheet_of_documents_whose_ids_are_not_plain_is_read_back(tmp_path: Path) -> None:
    found = frame().with_columns(document_id=pl.col("document_id") + "  of '-x\n")
    sheet = as_sheet(draw_samples(found, 3, seed=1))
    ruled = read_sheet(fill_in(sheet, {0: "yes"}, tmp_path / "s.csv"), found)
    assert ruled["document_id"][0] in set(found["document_id"])


@pytest.mark.parametrize(
    ("altered", "why"),
    [
        (lambda text: text, "holds no verdict"),
        (lambda text: text.replace('\n"",', "\n").replace("person", "who"), "'person' is missing"),
        (lambda text: text.replace("\n,", "\nperhaps,", 1), "line 2: 'perhaps' is not a verdict"),
        (lambda text: text.replace("\n,", "\nyes,").replace(",d1", ",e1"), "no verdict of a judge"),
        (lambda text: text.replace("\n,", "\nyes,") + text.splitlines()[1].replace(",", "no,", 1),
         "is there twice. Delete one"),
        (lambda text: text + '"' + " " * 2 * CELL_MAX,
         "can't be read: field larger.*a quotation mark that nothing closes"),
    ],
)  # fmt: skip
def test_a_bad_sheet_is_told_in_a_sentence(altered: object, why: str, tmp_path: Path) -> None:
    found = frame()
    path = tmp_path / "sheet.csv"
    path.write_text(altered(as_sheet(draw_samples(found, 3, seed=1))))  # type: ignore[operator]
    with pytest.raises(ConfigError, match=why):
        read_sheet(path, found)


def simulated(rng: np.random.Generator, documents: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows that a judge ruled on, and the same with the truth: it accepts 30 % of what is wrong and
    rejects 5 % of what is right; the questions of a document are alike."""
    shares = rng.beta(3, 3, documents).repeat(4)
    truths = rng.random(4 * documents) < shares
    columns = {
        "document_id": [f"d{number}" for number in range(documents) for _ in range(4)],
        "question_id": [f"q{number}" for number in range(4)] * documents,
        "correct": rng.random(4 * documents) < np.where(truths, 0.95, 0.30),
    }
    found = pl.DataFrame(columns).with_columns(
        answerable=True,
        disqualified=pl.lit(None, pl.String),
        model=pl.lit("m"),
        step=pl.lit(None, pl.Int64),
    )
    return found, found.with_columns(pl.Series("person", truths))


def test_the_corrected_interval_holds_the_truth_as_often_as_it_says() -> None:
    """The judge is 12.5 points too kind; a person has ruled on 30 of 200 documents."""
    rng = np.random.default_rng(13)
    held = uncorrected = 0
    widths = []
    for experiment in range(EXPERIMENTS):
        found, truth = simulated(rng, 200)
        chosen = [f"d{number}" for number in rng.choice(200, 30, replace=False)]
        interval = prediction_powered(found, truth.filter(pl.col("document_id").is_in(chosen)))
        held += interval.low <= 0.5 <= interval.high
        widths.append(interval.high - interval.low)
        if experiment < 20:
            judged = correct_accuracies(found, truth.head(0))[0].judged
            uncorrected += judged.low <= 0.5 <= judged.high
    assert 0.93 <= held / EXPERIMENTS <= 0.99
    assert uncorrected == 0
    assert np.mean(widths) < 0.25


def test_verdicts_on_one_of_several_contenders_correct_none_of_the_others() -> None:
    found, truth = simulated(np.random.default_rng(3), 40)
    other = found.with_columns(pl.lit("n").alias("model"))
    one_alone = correct_accuracies(pl.concat([found, other]), truth)
    assert [str(each.contender) for each in one_alone] == ["m", "n"]
    assert [each.corrected is None for each in one_alone] == [False, True]
    ruled = pl.concat([truth, truth.with_columns(pl.lit("n").alias("model"))])
    assert correct_accuracies(pl.concat([found, other]), ruled)[0].contender is None


def audit(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments])


def test_the_command_makes_a_sheet_and_reads_it(tmp_path: Path) -> None:
    path, sheet = tmp_path / "results.parquet", tmp_path / "out" / "audit.csv"
    write_tables(DOZEN, FROM, path)
    made = audit(str(path), str(path), "--out", str(sheet), "--samples", "8")
    assert "Fill in" in made.output
    fill_in(sheet.read_text(), dict.fromkeys(range(32), "correct"), sheet)
    again = audit(str(path), "--out", str(sheet), "--samples", "8")
    assert "stays as it is" in again.output
    told = audit(str(path), "--filled", str(sheet))
    assert told.exit_code == 0, told.output
    assert "agree on 50.0% of 32 answerable questions" in told.output
    assert "trained@3" in told.output
    assert "50.0% (" in told.output and "100.0% (" in told.output


UNCLOSED = f'"{" " * 2 * CELL_MAX}'


@pytest.mark.parametrize(
    "content",
    ["of another", "a person's work", "", pytest.param(UNCLOSED, id="an unclosed quotation")],
)
def test_a_sheet_of_other_summaries_is_left_alone(content: str, tmp_path: Path) -> None:
    path, sheet = tmp_path / "r.parquet", tmp_path / "audit.csv"
    write_tables(DOZEN, FROM, path)
    if content == "of another":
        assert audit(str(path), "--out", str(sheet), "--seed", "1", "--samples", "2").exit_code == 0
        content = sheet.read_text()
    sheet.write_text(content)
    told = audit(str(path), "--out", str(sheet), "--seed", "7", "--samples", "3")
    assert told.exit_code == 1
    assert "is the sheet of other summaries" in " ".join(told.output.split())
    assert sheet.read_text() == content


def test_what_the_command_can_t_do_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    write_tables(DOZEN, FROM, path)
    for given, said in {
        ("--out", str(path / "audit.csv")): "Can't use",
        ("--contender", "nobody"): "'nobody' is none of trained@3",
        ("--filled", str(tmp_path / "none.csv")): "Can't read",
    }.items():
        told = audit(str(path), *given)
        assert told.exit_code == 1 and isinstance(told.exception, SystemExit)
        assert said in " ".join(told.output.split())
    for folder in (".", "/"):
        told = audit(folder)
        assert told.exit_code == 1 and isinstance(told.exception, SystemExit), folder


@pytest.mark.parametrize(
    ("counts", "kappa"), [((20, 5, 10, 15), 0.4), ((0, 5, 5, 0), -1.0), ((7, 0, 0, 0), None)]
)
def test_the_agreement_beyond_chance_is_cohens(
    counts: tuple[int, ...], kappa: float | None
) -> None:
    assert Agreement(*counts).kappa == (kappa and pytest.approx(kappa))
