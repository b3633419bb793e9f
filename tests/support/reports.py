"""What a report shows, with texts that would break a careless page."""

from collections.abc import Iterator
from xml.etree import ElementTree

from markdown_it import MarkdownIt

from precis.records.documents import Document, Question
from precis.records.results import Provenance, Row, rows_of
from precis.records.summary import JudgedSummary, Summary
from precis.records.verdict import Answer, Scored, Unscored, Verdict

HOSTILE = "</script><script>alert(1)</script> | *b* `c` ![x](y)"


def document(index: int) -> Document:
    answerable = [
        Question(f"d{index}-q{k}", f"What of {k}? {HOSTILE}", f"gold {k}", True) for k in range(4)
    ]
    missing = Question(f"d{index}-q4", "Who paid?", "UNANSWERABLE", answerable=False)
    return Document(f"d{index}", f"Topic {index % 2}", "Text.", (*answerable, missing))


def verdict(of: Document, correct: int) -> Scored:
    return Scored(
        tuple(
            Answer(question.id, f"answer {k}", k < correct or k == 4, question.answerable)
            for k, question in enumerate(of.questions)
        )
    )


def rows(model: str, step: int | None, corrects: list[int | None]) -> Iterator[Row]:
    provenance = Provenance("run-1", model, step, "lexical-judge", "batched/1", "p", "c", "0.1.0")
    for index, correct in enumerate(corrects):
        of = document(index)
        ruled: Verdict = Unscored("timeout", "") if correct is None else verdict(of, correct)
        text = f"{model} on {index}. {HOSTILE}"
        yield from rows_of(JudgedSummary(of, Summary(text, seconds=1.0), ruled), provenance)


def rendered(markdown: str) -> str:
    return str(MarkdownIt("commonmark").enable("table").render(markdown))


def texts(svg: str) -> list[str]:
    return [
        "".join(each.itertext()).strip()
        for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
