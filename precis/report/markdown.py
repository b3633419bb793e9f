"""The benchmark's report as Markdown, for a page such as Prefect's that renders nothing else.

Pictures are embedded in the text as PNG data.
"""

import base64

from precis.markdown import escape, table
from precis.report import wording
from precis.report.benchmark_charts import charts_of
from precis.report.benchmark_view import Benchmark
from precis.report.charts import Chart

_DPI = 100
_CHARTS = ("learning-curve", "comparison", "nights")
"""The pictures of the artifact; the page has all."""


def benchmark_report(benchmark: Benchmark) -> str:
    """Return the benchmark's figures, charts and standings as Markdown."""
    figures = []
    for each in benchmark.headlines():
        figures.append(f"**{escape(each.label)}: {escape(each.value)}** ({escape(each.detail)})")
    parts = []
    if figures:
        parts.append("  \n".join(figures))
    for name, chart in charts_of(benchmark).items():
        if name in _CHARTS:
            parts.append(picture(chart))
    parts.append(_standings(benchmark))
    if benchmark.words.caveat:
        parts.append(escape(benchmark.words.caveat))
    return "\n\n".join(parts) + "\n"


def picture(chart: Chart) -> str:
    """Return a chart as an image with a data URL."""
    data = base64.b64encode(chart.png(dpi=_DPI)).decode()
    return f"![{escape(chart.alt)}](data:image/png;base64,{data})"


def _standings(benchmark: Benchmark) -> str:
    measure = f"{benchmark.words.measure.capitalize()} (95% interval)"
    priced = any(each.usd_per_1000 for each in benchmark.standings)
    dollars = [f"$ per 1,000 {benchmark.words.nouns.scenarios}"] if priced else []
    head = ["Contender", measure, *benchmark.columns, *dollars, "Not scored"]
    rows = []
    for each in benchmark.standings:
        name = wording.name(each.contender)
        row = [
            name if each.complete else f"{name} (incomplete)",
            benchmark.words.interval(each.accuracy),
            *(column[each.contender] for column in benchmark.columns.values()),
        ]
        if priced:
            row.append("" if each.usd_per_1000 is None else wording.dollars(each.usd_per_1000))
        row.append(wording.causes(each.unscored))
        rows.append(row)
    return table(head, rows)
