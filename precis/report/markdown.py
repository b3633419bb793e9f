"""The same reports as markdown, for a page such as Prefect's that renders nothing else.

Pictures travel inside the text as PNG data. Whatever a document, a summary or a judge wrote is
escaped to the last punctuation mark: it can't become a heading, a link, a table or a tag.
"""

import base64
import re
import string
from collections.abc import Sequence

from precis.report import wording
from precis.report.benchmark import Benchmark
from precis.report.canvas import Chart
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
    figures = [
        f"**{escape(each.label)}: {escape(each.value)}** ({escape(each.detail)})"
        for each in benchmark.headlines()
    ]
    charts = [picture(chart) for name, chart in benchmark.charts().items() if name in _CHARTS]
    parts = ["  \n".join(figures), *charts, _standings(benchmark.standings)]
    return "\n\n".join(part for part in parts if part) + "\n"


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
    rows = [
        [
            wording.name(each.contender) + ("" if each.complete else " (incomplete)"),
            str(each.accuracy or ""),
            wording.number(each.words),
            wording.percent(each.over_length),
            wording.percent(each.honesty),
            wording.causes(each.unscored),
        ]
        for each in standings
    ]
    return table(head, rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of plain text."""
    lines = [head, ["---"] * len(head), *([escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
