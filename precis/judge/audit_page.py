"""An audit of the judge written down: a page for a person, and lines for a program."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from precis.judge.audit import Asked, AuditSample, agreement
from precis.records.verdict import Scored, Verdict


def as_jsonl(samples: Sequence[AuditSample], verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    """One line of JSON for each sample, with the verdicts of each protocol."""
    lines = [
        asdict(sample)
        | {"verdicts": {name: asdict(some[index]) for name, some in verdicts.items()}}
        for index, sample in enumerate(samples)
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def as_markdown(samples: Sequence[AuditSample], verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    """A page to read: each summary with what was asked, the gold, the answer and the verdict.

    Args:
        verdicts: by protocol, one for each sample; may be empty.
    """
    parts = [f"# The judge's verdicts on {len(samples)} summaries", *_compare(verdicts)]
    for index, sample in enumerate(samples):
        ruled = {name: some[index] for name, some in verdicts.items()}
        parts += [*_heading(index, sample), _table(sample, ruled)]
    return "\n\n".join(parts) + "\n"


def _compare(verdicts: Mapping[str, Sequence[Verdict]]) -> list[str]:
    if len(verdicts) != 2:
        return []
    (first, ones), (second, others) = verdicts.items()
    found = agreement(ones, others)
    left_out = f" {found.unscored} summaries went unscored and are left out." * bool(found.unscored)
    return [
        f"`{first}` and `{second}` agree on {found.share:.1%} of {found.questions} answerable "
        f"questions (Cohen's kappa {found.kappa:.2f}): {found.both} correct by both, "
        f"{found.only_first} by `{first}` only, {found.only_second} by `{second}` only, "
        f"{found.neither} by neither.{left_out}"
    ]


def _heading(index: int, sample: AuditSample) -> list[str]:
    step = "" if sample.step is None else f", step {sample.step}"
    return [
        f"## {index + 1}. {_escape(sample.model)}{step}, document {_escape(sample.document_id)}",
        f"> {_escape(sample.summary)}",
        f"On record: judge {_escape(sample.judge)}, protocol {_escape(sample.protocol)}.",
    ]


def _table(sample: AuditSample, ruled: Mapping[str, Verdict]) -> str:
    head = ["Question", "Gold", "Answer", "On record", *ruled]
    rows = [
        [
            _escape(asked.question),
            _escape(asked.gold),
            _escape(asked.answer),
            _mark(asked.ruled, asked.answerable),
            *(_describe_ruling(verdict, asked) for verdict in ruled.values()),
        ]
        for asked in sample.asked
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


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
