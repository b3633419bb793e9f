"""The same reports as markdown, for a page such as Prefect's that renders nothing else.

Pictures travel inside the text as PNG data. Whatever a document, a summary or a judge wrote is
escaped to the last punctuation mark: it can't become a heading, a link, a table or a tag.
"""

import base64
import re
import string
from collections.abc import Sequence

from precis.records.cloze import CRUDE, is_by_rules
from precis.records.summary import JudgedSummary
from precis.records.verdict import Ranked, Unscored
from precis.report import wording
from precis.report.benchmark_view import Benchmark
from precis.report.charts import Chart
from precis.statistics.standings import Standing

_DPI = 100
_CHARTS = ("learning-curve", "comparison", "nights")
"""The pictures of the artifact; the page has them all."""
_CHARACTERS_MAX = 6000
_PLAIN = ",'.-+:;%?/()$="
_ENTITIES = {ord(mark): f"&#{ord(mark)};" for mark in string.punctuation if mark not in _PLAIN}
"""Other punctuation becomes references. These marks stay: Prefect's page shows references in bold
text as they are written, and they are in most figures."""
_SYNTAX = re.compile(r"^[-+:=]|^\d+[.)]|(?<=www)\.|:(?=//)", re.IGNORECASE)
"""Where they are syntax all the same: a list, a table's rule, an address."""


def benchmark_report(benchmark: Benchmark) -> str:
    """The benchmark's figures, charts and standings."""
    figures = []
    for each in benchmark.headlines():
        figures.append(f"**{escape(each.label)}: {escape(each.value)}** ({escape(each.detail)})")
    parts = []
    if figures:
        parts.append("  \n".join(figures))
    for name, chart in benchmark.charts().items():
        if name in _CHARTS:
            parts.append(picture(chart))
    parts.append(_standings(benchmark.standings))
    if any(map(is_by_rules, benchmark.frame["question_id"].drop_nulls())):
        parts.append(escape(CRUDE))
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Text that any markdown renderer shows as it is, on one line, whatever it holds.

    Punctuation that may be syntax becomes character references, which markdown never takes for it.
    """
    shortened = text if len(text) <= _CHARACTERS_MAX else f"{text[:_CHARACTERS_MAX]}…"
    return _SYNTAX.sub(_reference, " ".join(shortened.split()).translate(_ENTITIES))


def _reference(match: re.Match[str]) -> str:
    syntax = match.group()
    return f"{syntax[:-1]}&#{ord(syntax[-1])};"


def picture(chart: Chart) -> str:
    """A chart as an image whose data is in its address."""
    data = base64.b64encode(chart.png(dpi=_DPI)).decode()
    return f"![{escape(chart.alt)}](data:image/png;base64,{data})"


def _standings(standings: Sequence[Standing]) -> str:
    head = ["Contender", "Accuracy (95% interval)", "Words", "Over length", "Honest", "Not scored"]
    return table(head, list(map(_standing, standings)))


def _standing(standing: Standing) -> list[str]:
    name = wording.name(standing.contender)
    return [
        name if standing.complete else f"{name} (incomplete)",
        str(standing.accuracy or ""),
        wording.number(standing.words),
        wording.percent(standing.over_length),
        wording.percent(standing.honesty),
        wording.causes(standing.unscored),
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of plain text."""
    lines = [_line(head), _line(["---"] * len(head))]
    for row in rows:
        lines.append(_line(list(map(escape, row))))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def example(title: str, judged: JudgedSummary) -> str:
    """A summary under a heading, with its questions and verdicts."""
    return "\n\n".join([f"### {title}", about(judged), quote(judged), questions(judged)])


def about(judged: JudgedSummary) -> str:
    """Document, score and length in a line."""
    document = judged.document
    return escape(f"{document.id} ({document.topic}): {_score(judged)}, {judged.words} words")


def quote(judged: JudgedSummary) -> str:
    """The summary as it came, as a quotation."""
    lines = judged.text.splitlines()
    quoted = [f"> {escape(line)}" for line in lines if line.strip()]
    return "\n>\n".join(quoted or ["> (empty)"])


def questions(judged: JudgedSummary) -> str:
    """What was asked, what should have been answered, and what was."""
    by_id = {answer.question_id: answer for answer in judged.verdict.answers}
    rows = []
    for question in judged.document.questions:
        gold = question.answer if question.answerable else "(the document does not say)"
        answer = by_id.get(question.id)
        if answer is None:
            rows.append([question.text, gold, "", "not scored"])
        else:
            mark = "✓" if answer.correct else "✗"
            rows.append([question.text, gold, answer.answer, mark])
    return table(["Question", "Expected", "Answered from the summary", "Verdict"], rows)


def _score(judged: JudgedSummary) -> str:
    verdict = judged.verdict
    if isinstance(verdict, Ranked):
        return f"ranked {verdict.score:.2f}"
    if isinstance(verdict, Unscored):
        return f"not scored ({verdict.cause})"
    zero = f" (scored zero: {judged.disqualified})" if judged.disqualified else ""
    return f"{verdict.correct} of {verdict.asked} right{zero}"
