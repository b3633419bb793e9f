"""An audit of the judge written down: a page to read, lines for a program, and what follows from a
person's own verdicts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import polars as pl

from precis.environments.summaries.judge.audit import Agreement, Asked, AuditSample, agreement
from precis.environments.summaries.judge.audit_sheet import PROSE, agreement_with, read_sheet
from precis.environments.summaries.judge.correction import CorrectedAccuracy, correct_accuracies
from precis.records.verdict import Scored, Verdict
from precis.statistics.intervals import DOCUMENTS_MIN, Interval

_PROSE_SAID = {None: "", True: "; it is prose", False: "; **it is no prose, and scores zero**"}
_COLUMNS = ("", "by the judge", "corrected by the person", "documents ruled on")


def as_jsonl(samples: Sequence[AuditSample], verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    """One line of JSON for each sample, with the verdicts of each protocol."""
    lines = []
    for index, sample in enumerate(samples):
        ruled = {name: asdict(some[index]) for name, some in verdicts.items()}
        line = {**asdict(sample), "verdicts": ruled}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines)


def as_markdown(samples: Sequence[AuditSample], verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    """Return a page to read: each summary with what was asked, the gold, the answer and the
    verdict.

    Args:
        verdicts: by protocol, one for each sample; may be empty.
    """
    parts = [f"# The judge's verdicts on {len(samples)} summaries"]
    if len(verdicts) == 2:
        (first, ones), (second, others) = verdicts.items()
        found = agreement(ones, others)
        said = _describe_agreement(found, f"`{first}`", f"`{second}`")
        if found.unscored:
            said += f" {found.unscored} summaries went unscored and are left out."
        parts.append(f"`{first}` and `{second}` {said}")
    for index, sample in enumerate(samples):
        ruled = {name: some[index] for name, some in verdicts.items()}
        parts += [*_heading(index, sample), _rulings_table(sample, ruled)]
    return "\n\n".join(parts) + "\n"


def report_on_sheet(results: pl.DataFrame, sheet: Path) -> str:
    """Describe the judge by a filled-in sheet, as text: how far the two agree, and the accuracy
    that is left.

    Raises:
        ConfigError: the sheet can't be used.
    """
    ruled = read_sheet(sheet, results)
    person = ruled.filter(pl.col("question_id") != PROSE)
    prose = agreement_with(ruled.filter(pl.col("question_id") == PROSE))
    corrected = map(_corrected_row, correct_accuracies(results, person))
    found = agreement_with(person)
    parts = [f"Judge and person {_describe_agreement(found, 'the judge', 'the person')}"]
    if prose.questions:
        parts.append(
            f"On whether a summary is prose they agree on {prose.share:.1%} of {prose.questions}: "
            f"{prose.both} prose by both, {prose.only_first} by the judge only, "
            f"{prose.only_second} by the person only, {prose.neither} by neither."
        )
    # A table for a terminal, each column as wide as its widest cell.
    rows = [_COLUMNS, *corrected]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = map(str.ljust, row, widths)
        lines.append("  ".join(cells).rstrip())
    parts += [
        "Accuracy, with its 95 % interval (prediction-powered inference):",
        "\n".join(lines),
        f"Corrected is right whatever the judge's faults, if what was ruled on is a random sample: "
        f"what was left empty must not have been harder. Fewer than {DOCUMENTS_MIN} documents say "
        "too little; --contender samples one contender alone.",
    ]
    return "\n\n".join(parts)


def _describe_agreement(found: Agreement, first: str, second: str) -> str:
    return (
        f"agree on {found.share:.1%} of {found.questions} answerable questions (Cohen's kappa "
        f"{found.kappa:.2f}): {found.both} correct by both, {found.only_first} by {first} only, "
        f"{found.only_second} by {second} only, {found.neither} by neither."
    )


def _heading(index: int, sample: AuditSample) -> list[str]:
    step = "" if sample.step is None else f", step {sample.step}"
    return [
        f"## {index + 1}. {_escape(sample.model)}{step}, document {_escape(sample.document_id)}",
        f"> {_escape(sample.summary)}",
        f"On record: judge {_escape(sample.judge)}, protocol {_escape(sample.protocol)}"
        f"{_PROSE_SAID[sample.is_prose]}.",
    ]


def _rulings_table(sample: AuditSample, ruled: Mapping[str, Verdict]) -> str:
    head = ["Question", "Gold", "Answer", "On record", *ruled]
    rows = [head, ["---"] * len(head)]
    for asked in sample.asked:
        said = map(_escape, (asked.question, asked.gold, asked.answer))
        row = [*said, _mark(asked.ruled, asked.answerable)]
        for verdict in ruled.values():
            row.append(_describe_ruling(verdict, asked))
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _describe_ruling(verdict: Verdict, asked: Asked) -> str:
    if not isinstance(verdict, Scored):
        return f"unscored ({verdict.cause})"
    [found] = [each for each in verdict.answers if each.question_id == asked.question_id]
    return f"{_mark(found.correct, asked.answerable)}: {_escape(found.answer)}"


def _mark(correct: bool, answerable: bool) -> str:
    return ("correct" if correct else "wrong") + ("" if answerable else " (no reward)")


def _escape(text: str) -> str:
    """Text on one line that markdown takes for nothing but text, since others wrote it."""
    line = " ".join(text.split())
    return "".join(f"\\{mark}" if mark in r"\`*_[]#|<>~&" else mark for mark in line)


def _corrected_row(one: CorrectedAccuracy) -> tuple[str, ...]:
    who = "all together" if one.contender is None else str(one.contender)
    return who, _format(one.judged), _format(one.corrected), str(one.documents)


def _format(interval: Interval | None) -> str:
    return str(interval) if interval else "too few"
