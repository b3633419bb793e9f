"""The report as one self-contained HTML file."""

import base64
from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from precis.report import wording
from precis.report.benchmark_charts import charts_of
from precis.report.benchmark_view import Benchmark
from precis.report.charts import DARK, LIGHT, Chart
from precis.report.page_data import pack, reader_data
from precis.statistics import intervals as statistics
from precis.statistics.standings import UNSCORED_SHARE_MAX

_SOURCES = ("run", "judge", "protocol", "prompts_digest", "corpus_digest", "code_version")


def report_html(
    benchmark: Benchmark,
    facts: Mapping[str, str] | None = None,
    published: Mapping[str, float] | None = None,
) -> str:
    """Return the benchmark as a self-contained page: figures, charts, standings, and every rollout.

    `facts` are shown below the title. Accuracies `published` by others are quoted in a note, and
    not in tables or charts, since they were not measured here.
    """
    template = template_environment().get_template("report.html.j2")
    # One value of each, unless rows of several benchmarks were combined.
    sources = {}
    for column in _SOURCES:
        sources[column] = list(map(str, benchmark.frame[column].drop_nulls().unique().sort()))
    # The smallest difference that these documents detect with 80 % power.
    documents = benchmark.frame["scenario_id"].n_unique()
    smallest = None
    if benchmark.documents_needed is not None:
        smallest = statistics.smallest_difference(benchmark.documents_needed, documents)
    return template.render(
        title="Précis benchmark",
        facts=facts or {},
        benchmark=benchmark,
        pictures=list(map(picture_of, charts_of(benchmark).values())),
        ranked=list(benchmark.ranked),
        priced=any(each.usd_per_1000 is not None for each in benchmark.standings),
        published=published or {},
        sources=sources,
        reader=pack(reader_data(benchmark)),
        wording=wording,
        words=benchmark.words,
        smallest=smallest,
        resamples=statistics.RESAMPLES,
        nights_before=len({each.night for each in benchmark.nights}) - 1,
        unscored_share_max=UNSCORED_SHARE_MAX,
        documents_min=statistics.DOCUMENTS_MIN,
    )


def report_files(benchmark: Benchmark, page: str) -> dict[str, bytes]:
    """Return `report.html` and every picture as SVG and PNG, light and dark, by file name."""
    files = {"report.html": page.encode()}
    for name, chart in charts_of(benchmark).items():
        for theme, suffix in ((LIGHT, ""), (DARK, "-dark")):
            files[f"{name}{suffix}.svg"] = chart.svg(theme).encode()
            files[f"{name}{suffix}.png"] = chart.png(theme)
    return files


def picture_of(chart: Chart) -> Markup:
    """Return both themes as data URLs, for the browser to choose from."""
    light = _data_uri(chart.svg(LIGHT))
    dark = _data_uri(chart.svg(DARK))
    return Markup(
        '<picture><source srcset="{}" media="(prefers-color-scheme: dark)">'
        '<img src="{}" alt="{}"></picture>'
    ).format(dark, light, chart.alt)


def _data_uri(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def template_environment() -> Environment:
    """Return the template environment of all pages, which escapes every value."""
    return Environment(
        loader=PackageLoader("precis.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
