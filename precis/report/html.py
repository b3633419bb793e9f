"""The report as one file that opens anywhere, with nothing loaded from elsewhere."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from precis.report import wording
from precis.report.benchmark import Benchmark
from precis.report.canvas import DARK, LIGHT, Chart
from precis.report.standings import rows_by

_SPARK_WIDTH, _SPARK_HEIGHT = 200, 44
_SPARK_POINTS_MAX = 200


@dataclass(frozen=True)
class Spark:
    """A metric over the steps, small: `path` holds the points of an SVG polyline."""

    name: str
    path: str
    first: float
    last: float
    low: float
    high: float


def report_html(
    benchmark: Benchmark,
    metrics: Sequence[Mapping[str, Any]] = (),
    facts: Mapping[str, str] | None = None,
    title: str = "Précis benchmark",
) -> str:
    """The benchmark as a self-contained page: figures, charts, standings, and every summary.

    Args:
        benchmark: what to show.
        metrics: one mapping for each training step, with `step`; other numbers are drawn small.
        facts: what to print below the title, such as the run, the judge and the corpus.
        title: the page's title.
    """
    template = _environment().get_template("report.html.j2")
    return template.render(
        title=title,
        facts=facts or {},
        benchmark=benchmark,
        pictures=[_picture(chart) for chart in benchmark.charts().values()],
        sparks=sparks(metrics),
        reader=reader_data(benchmark),
        wording=wording,
    )


def reader_data(benchmark: Benchmark) -> dict[str, Any]:
    """What the page's reader shows: documents with their questions, and all shown summaries.

    Questions stand once for each document; an answer is [text, correct] in their order. The
    page opens with the trained policy on the left and the best of the others on the right.
    """
    shown = [standing.contender for standing in benchmark.shown]
    own = [index for index, each in enumerate(shown) if each == benchmark.trained]
    others = [index for index, each in enumerate(shown) if each != benchmark.trained]
    return {
        "sides": [*own, *others][:2],
        "documents": _documents(benchmark.frame),
        "contenders": [
            {
                "name": wording.name(contender),
                "summaries": _summaries(rows_by(benchmark.frame, contender)),
            }
            for contender in shown
        ],
    }


def sparks(metrics: Sequence[Mapping[str, Any]]) -> list[Spark]:
    """One small line for each numeric metric that was logged at two steps or more."""
    ordered = sorted(metrics, key=lambda each: each["step"])
    names = dict.fromkeys(name for each in ordered for name in each if name != "step")
    lines = {
        name: [(each["step"], float(each[name])) for each in ordered if _is_number(each.get(name))]
        for name in names
    }
    return [_spark(name, line) for name, line in lines.items() if len(line) > 1]


def _documents(frame: pl.DataFrame) -> list[dict[str, Any]]:
    asked = frame.unique(["document_id", "question_id"]).sort("topic", "document_id", "question_id")
    return [
        {
            "id": rows["document_id"][0],
            "topic": rows["topic"][0],
            "questions": rows.select("question", "gold", "answerable").to_dicts(),
        }
        for rows in asked.partition_by("document_id", maintain_order=True)
    ]


def _summaries(rows: pl.DataFrame) -> dict[str, Any]:
    ordered = rows.sort("document_id", "question_id")
    return {
        each["document_id"][0]: {
            **each.select("summary", "words", "cause", "disqualified").row(0, named=True),
            "answers": [list(answer) for answer in each.select("answer", "correct").iter_rows()],
        }
        for each in ordered.partition_by("document_id", maintain_order=True)
    }


def _picture(chart: Chart) -> Markup:
    """Both themes as data, so that the browser takes the one that it is set to."""
    light, dark = (_data_uri(chart.svg(theme)) for theme in (LIGHT, DARK))
    return Markup(
        '<picture><source srcset="{}" media="(prefers-color-scheme: dark)">'
        '<img src="{}" alt="{}"></picture>'
    ).format(dark, light, chart.alt)


def _data_uri(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _spark(name: str, line: list[tuple[int, float]]) -> Spark:
    thinned = [*line[:: max(1, len(line) // _SPARK_POINTS_MAX)], line[-1]]
    values = [value for _, value in line]
    (first, _), (last, _) = line[0], line[-1]
    low, high = min(values), max(values)
    path = " ".join(
        f"{(step - first) / (last - first or 1) * _SPARK_WIDTH:.1f},"
        f"{_SPARK_HEIGHT - 2 - (value - low) / (high - low or 1) * (_SPARK_HEIGHT - 4):.1f}"
        for step, value in thinned
    )
    return Spark(name.replace("_", " "), path, values[0], values[-1], low, high)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("precis.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
