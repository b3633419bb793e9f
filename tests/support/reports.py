"""What a report shows, with texts that would break a careless page."""

import base64
import gzip
import json
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import polars as pl
from markdown_it import MarkdownIt

from precis.records.documents import Document, Question
from precis.records.results import Provenance, Row, frame_of
from precis.records.verdict import Answer, Scored, Unscored, Verdict
from precis.report.benchmark_view import Benchmark
from precis.report.curve import Curve
from tests.support.summaries import JudgedSummary, Summary, questions_of, row_of

HOSTILE = "</script><script>alert(1)</script> | *b* `c` ![x](y)"
CORRECT: list[tuple[str, int | None, list[int | None]]] = [
    ("trained", 0, [1, 2] * 4),
    ("trained", 5, [2, 3] * 4),
    ("trained", 9, [3, 4] * 4),
    ("lead-350", None, [2, 2, 1, 2, 2, 2, 1, 2]),
    ("gpt-4o", None, [4, 4, 4, None, None, 4, 4, 4]),
]
"""Of each contender, at each step, how many of four answers to each document are right."""


def document(index: int, topic: str = "Topic ") -> Document:
    answerable = [
        Question(f"d{index}-q{k}", f"What of {k}? {HOSTILE}", f"gold{index}{k}", True)
        for k in range(4)
    ]
    missing = Question(f"d{index}-q4", "Who paid?", "UNANSWERABLE", answerable=False)
    return Document(f"d{index}", f"{topic}{index % 2}", "Text.", (*answerable, missing))


def verdict(of: Document, correct: int) -> Scored:
    """So many right of the answerable questions; the last, which has no answer, is declined."""
    answers = []
    for k, question in enumerate(of.questions):
        text = f"🎉 It was {question.answer} <b>." if k < correct else f"answer {k}"
        answers.append(Answer(question.id, text, k < correct or k == 4, question.answerable))
    return Scored(tuple(answers))


def judged(
    model: str, step: int | None, corrects: Sequence[int | None], topic: str = "Topic "
) -> tuple[list[JudgedSummary], Provenance]:
    provenance = Provenance("run-1", model, step, "lexical-judge", "batched/1", "p", "c", "0.1.0")
    outcomes = []
    for index, correct in enumerate(corrects):
        of = document(index, topic)
        ruled: Verdict = Unscored("timeout", "") if correct is None else verdict(of, correct)
        text = f"{model} on {index}. {HOSTILE}"
        outcomes.append(JudgedSummary(of, Summary(text, seconds=1.0), ruled))
    return outcomes, provenance


def rows(
    model: str, step: int | None, corrects: Sequence[int | None], topic: str = "Topic "
) -> list[Row]:
    outcomes, provenance = judged(model, step, corrects, topic)
    return [row_of(one, provenance) for one in outcomes]


def questions(model: str, step: int | None, corrects: Sequence[int | None]) -> pl.DataFrame:
    return questions_of(*judged(model, step, corrects))


def benchmark() -> Benchmark:
    """The benchmark of `CORRECT`, with all its questions."""
    frame = frame_of(row for given in CORRECT for row in rows(*given))
    asked = pl.concat(questions(*given) for given in CORRECT)
    curve = Curve(dict.fromkeys(range(9), 0.5))
    return Benchmark(frame, curve, ceiling=0.96, questions=asked)


def embedded(page: str) -> dict[str, Any]:
    """The data of a page, unpacked as a browser does."""
    found = re.search(r'id="data">([^<]*)<', page)
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return data


def rendered(markdown: str) -> str:
    return str(MarkdownIt("commonmark").enable("table").render(markdown))


def texts(svg: str) -> list[str]:
    return [
        "".join(each.itertext()).strip()
        for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def numbers_in(said: object) -> list[int]:
    """The whole numbers of a sentence, such as a forecast's."""
    return [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", str(said))]
