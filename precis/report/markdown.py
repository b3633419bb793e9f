"""The same reports as markdown, for a page such as Prefect's that renders nothing else.

Pictures travel inside the text as PNG data.
"""

import base64
from collections.abc import Sequence

from precis.records.cloze import CRUDE, is_by_rules
from precis.report import wording
from precis.report.benchmark_view import Benchmark
from precis.report.charts import Chart
from precis.report.escaping import escape, table
from precis.statistics.standings import Standing

_DPI = 100
_CHARTS = ("learning-curve", "comparison", "nights")
"""The pictures of the artifact; the page has them all."""


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
    if any(map(is_by_rules, benchmark.questions["question_id"].drop_nulls())):
        parts.append(escape(CRUDE))
    return "\n\n".join(parts) + "\n"


def picture(chart: Chart) -> str:
    """A chart as an image whose data is in its address."""
    data = base64.b64encode(chart.png(dpi=_DPI)).decode()
    return f"![{escape(chart.alt)}](data:image/png;base64,{data})"


def _standings(standings: Sequence[Standing]) -> str:
    head = [
        "Contender",
        "Accuracy (95% interval)",
        "Words",
        "Prose",
        "Over length",
        "Honest",
        "Not scored",
    ]
    return table(head, list(map(_standing, standings)))


def _standing(standing: Standing) -> list[str]:
    name = wording.name(standing.contender)
    return [
        name if standing.complete else f"{name} (incomplete)",
        str(standing.accuracy or ""),
        wording.number(standing.words),
        wording.percent(standing.prose),
        wording.percent(standing.over_length),
        wording.percent(standing.honesty),
        wording.causes(standing.unscored),
    ]
