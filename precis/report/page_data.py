"""The data of the page's reader: all shown documents, questions, summaries and verdicts."""

import base64
import gzip
import json
from typing import Any

import polars as pl

from precis.report import wording
from precis.report.benchmark_view import Benchmark
from precis.statistics.standings import Contender, rows_by
from precis.text import Spans, common_words, decisive_words


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
            "summaries": _summaries(rows, questions, common, benchmark.words),
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
    exploratory = {}
    for pair, difference in benchmark.pairs.items():
        if benchmark.trained not in pair:
            exploratory[pair] = difference
    sentences = {}
    for (first, second), difference in {**benchmark.ahead, **exploratory}.items():
        key = f"{shown.index(first)}-{shown.index(second)}"
        sentences[key] = benchmark.words.ahead(first, second, difference)
    return sentences


def _summaries(
    rows: pl.DataFrame, questions: pl.DataFrame, common: frozenset[str], words: wording.Words
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
        scenario = row["scenario_id"]
        metrics = json.loads(row["metrics"])
        why = [one for one in words.disqualifiers if metrics.get(one)]
        length = f", {metrics['words']:.0f} words" if "words" in metrics else ""
        score = ""
        if row["score"] is not None and not answers.get(scenario):
            score = f"{words.measure} {words.figure(row['score'] / row['weight'])}"
        summaries[scenario] = {
            "summary": row["text"],
            "score": score,
            "length": length,
            "cause": row["cause"],
            "disqualified": why[0] if why else None,
            "answers": answers.get(scenario, []),
        }
    return summaries
