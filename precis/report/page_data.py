"""What the page's reader knows: every document, question, summary and verdict that is shown."""

import base64
import gzip
import json
from typing import Any, get_args

import polars as pl

from precis.records.verdict import Disqualified
from precis.report import wording
from precis.report.benchmark_view import Benchmark
from precis.report.decisive import Spans, common_words, decisive_words
from precis.statistics.comparisons import Pair
from precis.statistics.intervals import Difference
from precis.statistics.standings import Contender, contenders_of, rows_by


def pack(data: dict[str, Any]) -> str:
    """The data as text that a page can hold: compressed, and without a sign that is markup.

    Whatever a summary holds, it can't leave the tag that holds it. The same data gives the same
    text.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def reader_data(benchmark: Benchmark) -> dict[str, Any]:
    """What the page's reader shows: documents with their questions, and all shown summaries.

    Questions stand once for each document; an answer is [text, correct, spans] in their order,
    with the spans of the words that decided. The page opens with the trained policy on the left
    and the best of the others on the right.
    """
    shown = contenders_of(benchmark.shown)
    own = [index for index, each in enumerate(shown) if each == benchmark.trained]
    others = [index for index, each in enumerate(shown) if each != benchmark.trained]
    common = common_words(benchmark.questions["answer"].drop_nulls())
    return {
        "sides": [*own, *others][:2],
        "documents": _documents(benchmark),
        "contenders": [_contender(benchmark, contender, common) for contender in shown],
        "ahead": _ahead(benchmark, shown),
    }


def _contender(
    benchmark: Benchmark, contender: Contender, common: frozenset[str]
) -> dict[str, Any]:
    return {
        "name": wording.name(contender),
        "topics": _by_topic(benchmark, contender),
        "summaries": _summaries(
            rows_by(benchmark.frame, contender), rows_by(benchmark.questions, contender), common
        ),
    }


def _documents(benchmark: Benchmark) -> list[dict[str, Any]]:
    topics = benchmark.frame.select("scenario_id", "topic").unique()
    questions = benchmark.questions.unique(["scenario_id", "question_id"]).join(
        topics, on="scenario_id"
    )
    ordered = questions.sort("topic", "scenario_id", "question_id")
    documents = []
    for rows in ordered.partition_by("scenario_id", maintain_order=True):
        document = {
            "id": rows["scenario_id"][0],
            "topic": rows["topic"][0],
            "questions": rows.select("question", "gold", "answerable").to_dicts(),
        }
        documents.append(document)
    return documents


def _by_topic(benchmark: Benchmark, contender: Contender) -> dict[str, list[str]]:
    """Accuracy and its bounds on each topic, as they are written."""
    topics = {}
    for topic, accuracies in benchmark.topics.items():
        if contender in accuracies:
            accuracy = accuracies[contender]
            topics[topic] = [wording.percent(accuracy.mean), wording.bounds(accuracy)]
    return topics


def _ahead(benchmark: Benchmark, shown: list[Contender]) -> dict[str, str]:
    """By `first-second`, as positions of the shown: how far the first is ahead, in words.

    The comparisons of the trained policy are those that were planned (`Benchmark.ahead`).
    """
    trained = benchmark.trained
    differences: dict[Pair, Difference] = {}
    if trained is not None:
        for other, difference in benchmark.ahead.items():
            differences[trained, other] = difference
    for pair, difference in benchmark.pairs.items():
        if trained not in pair:
            differences[pair] = difference
    sentences = {}
    for (first, second), difference in differences.items():
        key = f"{shown.index(first)}-{shown.index(second)}"
        sentences[key] = wording.ahead(first, second, difference)
    return sentences


def _summaries(
    rows: pl.DataFrame, questions: pl.DataFrame, common: frozenset[str]
) -> dict[str, Any]:
    answers: dict[str, list[list[Any]]] = {}
    for row in questions.sort("scenario_id", "question_id").iter_rows(named=True):
        answered = [row["answer"], row["correct"], list(map(list, _spans(row, common)))]
        answers.setdefault(row["scenario_id"], []).append(answered)
    summaries = {}
    for scenario, text, cause, encoded in (
        rows.sort("scenario_id").select("scenario_id", "text", "cause", "metrics").iter_rows()
    ):
        metrics = json.loads(encoded)
        why = [one for one in get_args(Disqualified) if metrics.get(one)]
        summaries[scenario] = {
            "summary": text,
            "words": int(metrics["words"]),
            "cause": cause,
            "disqualified": why[0] if why else None,
            "answers": answers.get(scenario, []),
        }
    return summaries


def _spans(row: dict[str, Any], common: frozenset[str]) -> Spans:
    if not row["correct"] or not row["answerable"]:
        return []
    return decisive_words(row["question"], row["gold"], row["answer"], common)
