"""A benchmark's report: as one self-contained HTML file, and as Markdown for a page such as
Prefect's that renders nothing else."""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from precis.markdown import escape, table
from precis.report import wording
from precis.report.benchmark_charts import charts_of
from precis.report.benchmark_view import Benchmark
from precis.report.charts import DARK, LIGHT, Chart
from precis.report.wording import Words
from precis.statistics import intervals as statistics
from precis.statistics.standings import UNSCORED_SHARE_MAX, Contender, rows_by
from precis.text import Spans, common_words, decisive_words

_SOURCES = ("run", "judge", "protocol", "prompts_digest", "corpus_digest", "code_version")
_TEXTS_MAX = 60_000_000
"""About the most characters of all rollouts in a page: a browser hardly opens one with more."""
_TEXT_MIN = 4000
"""No rollout is cut to fewer characters."""
_PICTURES = ("learning-curve", "comparison", "nights")
"""The pictures of the Markdown; the page has all."""


def report_html(benchmark: Benchmark, facts: Mapping[str, str] | None = None) -> str:
    """Return the benchmark as a self-contained page: figures, charts, standings, and every rollout.
    `facts` are shown below the title."""
    # One value of each, unless rows of several benchmarks were combined.
    sources = {}
    for column in _SOURCES:
        sources[column] = list(map(str, benchmark.frame[column].drop_nulls().unique().sort()))
    return render_page(
        "report.html.j2",
        title="Précis benchmark",
        facts=facts or {},
        benchmark=benchmark,
        pictures=list(map(picture_of, charts_of(benchmark).values())),
        ranked=list(benchmark.ranked),
        priced=any(each.usd_per_1000 is not None for each in benchmark.standings),
        sources=sources,
        reader=pack(reader_data(benchmark)),
        wording=wording,
        words=benchmark.words,
        statistics=statistics,
        unscored_share_max=UNSCORED_SHARE_MAX,
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


def render_page(template: str, **values: Any) -> str:
    """Return a page made from a template, which escapes every value."""
    environment = Environment(
        loader=PackageLoader("precis.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)


def pack(data: dict[str, Any]) -> str:
    """Return the data as text for a page: compressed, and without markup characters.

    No summary can break out of the enclosing tag. The same data gives the same text. Half a
    surrogate pair, which is possible in JSON but not in a page, becomes `?`.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(errors="replace"), mtime=0)).decode()


def reader_data(benchmark: Benchmark) -> dict[str, Any]:
    """Return the data of the page's reader: documents with their questions, and all shown
    summaries.

    Each document's questions are listed once; an answer is [text, correct, spans] in their order,
    with the spans of the decisive words. The page opens with the trained policy on the left and the
    best of the others on the right.
    """
    shown = [each.contender for each in benchmark.shown]
    own = [index for index, each in enumerate(shown) if each == benchmark.trained]
    others = [index for index, each in enumerate(shown) if each != benchmark.trained]
    common = common_words(benchmark.questions["answer"].drop_nulls())
    text_max = max(_TEXT_MIN, _TEXTS_MAX // max(1, len(benchmark.frame)))
    contenders = []
    for contender in shown:
        rows = rows_by(benchmark.frame, contender)
        questions = rows_by(benchmark.questions, contender)
        topics = {}
        for topic, accuracies in benchmark.topics.items():
            if contender in accuracies:
                found = accuracies[contender]
                topics[topic] = [
                    benchmark.words.figure(found.mean),
                    benchmark.words.bounds(found),
                ]
        told = {
            "name": wording.name(contender),
            "topics": topics,
            "summaries": _summaries(rows, questions, common, benchmark.words, text_max),
        }
        contenders.append(told)
    asked: dict[str, list[dict[str, Any]]] = {}
    unique = benchmark.questions.unique(["scenario_id", "question_id"])
    for row in unique.sort("scenario_id", "question_id").iter_rows(named=True):
        one = {name: row[name] for name in ("question", "gold", "answerable")}
        asked.setdefault(row["scenario_id"], []).append(one)
    scenarios = benchmark.frame.select("scenario_id", "topic").unique()
    documents = []
    for name, topic in scenarios.sort("topic", "scenario_id").iter_rows():
        documents.append({"id": name, "topic": topic or "", "questions": asked.get(name, [])})
    return {
        "sides": [*own, *others][:2],
        "documents": documents,
        "contenders": contenders,
        "ahead": _ahead(benchmark, shown),
    }


def _ahead(benchmark: Benchmark, shown: list[Contender]) -> dict[str, str]:
    """Return the first's lead over the second in words, by `first-second`, as indices of the shown.

    The trained policy's comparisons are the planned ones (`Benchmark.ahead`).
    """
    others = {pair: gap for pair, gap in benchmark.pairs.items() if benchmark.trained not in pair}
    sentences = {}
    for (first, second), difference in {**benchmark.ahead, **others}.items():
        key = f"{shown.index(first)}-{shown.index(second)}"
        sentences[key] = benchmark.words.ahead(first, second, difference)
    return sentences


def _summaries(
    rows: pl.DataFrame,
    questions: pl.DataFrame,
    common: frozenset[str],
    words: Words,
    text_max: int,
) -> dict[str, Any]:
    answers: dict[str, list[list[Any]]] = {}
    for row in questions.sort("scenario_id", "question_id").iter_rows(named=True):
        spans: Spans = []
        if row["correct"] and row["answerable"]:
            spans = decisive_words(row["question"], row["gold"], row["answer"], common)
        answered = [row["answer"], row["correct"], list(map(list, spans))]
        answers.setdefault(row["scenario_id"], []).append(answered)
    summaries = {}
    for row in rows.sort("scenario_id").iter_rows(named=True):
        text = row["text"] or ""
        if len(text) > text_max:
            cut = f"… cut here: it has {len(text):,} characters (see results.parquet)"
            text = f"{text[:text_max]}\n{cut}"
        scenario = row["scenario_id"]
        metrics = json.loads(row["metrics"])
        why = [one for one in words.disqualifiers if metrics.get(one)]
        length = f", {metrics['words']:.0f} words" if "words" in metrics else ""
        prose = f"{metrics.get('prose', 1.0):.0%} prose"
        if prose != "100% prose" and not why:  # its right answers count by this share
            length += f", {prose}"
        score = ""
        if row["score"] is not None:
            score = f"{words.measure} {words.figure(row['score'] / row['weight'])}"
        summaries[scenario] = {
            "summary": text,
            "score": score,
            "length": length,
            "cause": row["cause"],
            "disqualified": why[0] if why else None,
            "answers": answers.get(scenario, []),
        }
    return summaries


def benchmark_report(benchmark: Benchmark) -> str:
    """Return the benchmark's figures, charts and standings as Markdown."""
    figures = []
    for label, value, detail in benchmark.headlines():
        figures.append(f"**{escape(label)}: {escape(value)}** ({escape(detail)})")
    parts = []
    if figures:
        parts.append("  \n".join(figures))
    for name, chart in charts_of(benchmark).items():
        if name in _PICTURES:
            parts.append(chart.markdown())
    parts.append(_standings(benchmark))
    if benchmark.words.caveat:
        parts.append(escape(benchmark.words.caveat))
    return "\n\n".join(parts) + "\n"


def _standings(benchmark: Benchmark) -> str:
    measure = f"{benchmark.words.measure.capitalize()} (95 % interval)"
    priced = any(each.usd_per_1000 for each in benchmark.standings)
    dollars = [f"$ per 1,000 {benchmark.words.nouns.scenarios}"] if priced else []
    head = ["Contender", measure, *benchmark.columns, *dollars, "Not scored"]
    rows = []
    for each in benchmark.standings:
        row = [
            wording.of_standing(each),
            benchmark.words.interval(each.accuracy),
            *(column[each.contender] for column in benchmark.columns.values()),
        ]
        if priced:
            row.append(wording.cost(each))
        row.append(wording.causes(each.unscored))
        rows.append(row)
    return table(head, rows)
