import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from precis.documents import Document, Question
from precis.judge.verdict import Answer, Scored, Unscored, Verdict
from precis.report.benchmark import Benchmark, benchmark_of
from precis.report.curve import StepPoint
from precis.report.html import reader_data, report_html, sparks
from precis.report.markdown import benchmark_report, escape, training_progress
from precis.report.standings import Contender
from precis.report.statistics import Interval
from precis.results import SCHEMA, Judged, Provenance, Row, Summary, frame_of, rows_of

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
        yield from rows_of(Judged(of, Summary(text, seconds=1.0), ruled), provenance)


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    frame = frame_of(
        [
            *rows("trained", 0, [1, 2, 1, 2, 1, 2, 1, 2]),
            *rows("trained", 5, [2, 3, 2, 3, 2, 3, 2, 3]),
            *rows("trained", 9, [3, 4, 3, 4, 3, 4, 3, 4]),
            *rows("lead-350", None, [2, 2, 1, 2, 2, 2, 1, 2]),
            *rows("gpt-4o", None, [4, 4, 4, None, None, 4, 4, 4]),
        ]
    )
    return benchmark_of(frame, [StepPoint(step, reward=0.5) for step in range(9)], ceiling=0.96)


@pytest.fixture(scope="module")
def page(benchmark: Benchmark) -> str:
    metrics = [{"step": step, "reward": 0.1 * step, "note": "x"} for step in range(9)]
    return report_html(benchmark, metrics, {"Judge": "lexical-judge"})


class Reader(HTMLParser):
    """Collects the text of table rows, and every address that a tag points to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.in_cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v or "" for k, v in attrs if k in ("src", "srcset", "href", "data")]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self.in_cell &= tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.in_cell:
            self.rows[-1][-1] += data.strip()


def test_the_numbers_on_the_page_are_those_of_the_results(benchmark: Benchmark, page: str) -> None:
    own = benchmark.frame.filter((pl.col("step") == 9) & pl.col("answerable"))
    share = own["correct"].cast(pl.Float64).mean()
    (line,) = [row for row in Reader(page).rows if row[0] == "trained, step 9"]
    standing = benchmark.standings[0]
    assert share == 0.875
    assert line[1] == "87.5%"
    assert standing.accuracy is not None
    assert line[2] == f"{standing.accuracy.low:.1%} to {standing.accuracy.high:.1%}"
    assert '<p class="value">87.5%</p>' in page


def test_headlines_compare_with_the_start_and_the_best_other(benchmark: Benchmark) -> None:
    assert [(each.label, each.value) for each in benchmark.headlines()] == [
        ("trained, step 9", "87.5%"),
        ("Ahead of untrained start", "+50.0 points"),
        ("Ahead of lead-350", "+43.8 points"),
        ("Share of the ceiling", "91.1%"),
    ]


def test_the_page_says_how_many_documents_a_small_difference_takes(
    benchmark: Benchmark, page: str
) -> None:
    assert benchmark.documents_needed is not None
    assert f"takes about {benchmark.documents_needed} documents" in page


def test_a_contender_with_too_many_unscored_is_shown_but_not_ranked(
    benchmark: Benchmark, page: str
) -> None:
    line = Reader(page).rows[-1]
    assert line[0] == "gpt-4oincomplete, not ranked"
    assert line[-1] == "2 timeout"
    assert "gpt-4o" not in benchmark.charts()["comparison"].alt


def test_the_curve_takes_its_accuracy_from_the_benchmark(benchmark: Benchmark) -> None:
    measured = {point.step: point.accuracy.mean for point in benchmark.curve if point.accuracy}
    assert measured == {0: 0.375, 5: 0.625, 9: 0.875}
    assert [point.step for point in benchmark.curve] == list(range(10))


def test_the_page_loads_nothing(page: str) -> None:
    reader = Reader(page)
    assert reader.addresses
    assert all(address.startswith("data:image/svg+xml;base64,") for address in reader.addresses)
    assert not {"link", "iframe", "object"} & set(reader.tags)
    assert "default-src 'none'" in page


def test_no_summary_can_leave_its_place_in_the_page(page: str) -> None:
    assert Reader(page).tags.count("script") == 2
    assert "alert(1)</script>" not in page


def test_the_reader_holds_every_shown_summary_with_its_verdicts(
    benchmark: Benchmark, page: str
) -> None:
    embedded = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert embedded is not None
    data = json.loads(embedded[1])
    assert data == reader_data(benchmark)
    names = [contender["name"] for contender in data["contenders"]]
    assert names == ["trained, step 9", "lead-350", "untrained start", "gpt-4o"]
    assert data["sides"] == [0, 1]
    first = data["contenders"][0]["summaries"]["d0"]
    assert first["summary"] == f"trained on 0. {HOSTILE}"
    assert first["answers"][2:4] == [["answer 2", True], ["answer 3", False]]
    assert data["contenders"][3]["summaries"]["d3"]["cause"] == "timeout"
    assert data["documents"][0]["questions"][4]["answerable"] is False


def test_a_page_of_91_documents_and_10_contenders_stays_small() -> None:
    many = [
        row
        for name in range(10)
        for row in rows(f"model-{name}", None, [index % 5 for index in range(91)])
    ]
    words = " ".join(["considerable"] * 175)
    frame = frame_of(many).with_columns(pl.lit(words).alias("summary"))
    assert len(report_html(benchmark_of(frame))) < 3_000_000


def test_metrics_are_drawn_small_with_their_range() -> None:
    (spark,) = sparks([{"step": 1, "kl": 2.0, "a": "x"}, {"step": 0, "kl": 1.0, "b": 3.0}])
    assert (spark.name, spark.first, spark.last, spark.low, spark.high) == ("kl", 1, 2, 1, 2)
    assert spark.path == "0.0,42.0 200.0,2.0 200.0,2.0"


def test_an_empty_benchmark_makes_an_empty_report() -> None:
    empty = benchmark_of(SCHEMA.to_frame())
    assert empty.standings == ()
    assert "Standings" in report_html(empty)
    assert "Contender" in benchmark_report(empty)


def rendered(markdown: str) -> str:
    return str(MarkdownIt("commonmark").enable("table").render(markdown))


def test_the_benchmark_artifact_has_both_pictures_and_all_standings(benchmark: Benchmark) -> None:
    markdown = benchmark_report(benchmark)
    html = rendered(markdown)
    assert html.count('<img src="data:image/png;base64,') == 2
    for standing in benchmark.standings:
        assert standing.accuracy is not None
        assert f"<td>{standing.accuracy}</td>" in html
    assert "<strong>Ahead of untrained start: +50.0 points</strong>" in html


def test_progress_shows_the_curve_the_last_steps_and_two_summaries() -> None:
    best = Judged(
        document(0), Summary(f"Fine.\n\n# Not a heading {HOSTILE}"), verdict(document(0), 4)
    )
    worst = Judged(document(1), Summary(""), Unscored("timeout", "No answer."))
    curve = [StepPoint(step, 0.5, Interval(0.6, 0.5, 0.7), 1.25) for step in range(25)]
    html = rendered(training_progress(curve, {"lead-350": 0.4}, 0.9, best, worst))
    assert html.count("<img ") == 1
    assert "<td>15</td>" in html
    assert "<td>14</td>" not in html
    assert "60.0% (50.0% to 70.0%)" in html
    assert "<h1>" not in html
    assert "<script" not in html
    assert "<p># Not a heading &lt;/script&gt;" in html
    assert "4 of 4 right" in html
    assert "not scored (timeout)" in html


def test_a_thousand_steps_and_a_huge_summary_fit_into_an_artifact() -> None:
    curve = [StepPoint(step, 0.5, Interval(0.6, 0.5, 0.7), 1.0) for step in range(1000)]
    long = Judged(document(0), Summary("*" * 1_000_000), verdict(document(0), 1))
    assert len(training_progress(curve, None, None, long, long)) < 500_000


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(f"> {escape(f'a{text}a')}")
    (inline,) = [token for token in tokens if token.type == "inline"]
    assert [token.type for token in tokens if token.level == 1] == [
        "paragraph_open",
        "paragraph_close",
    ]
    shown = "".join(child.content for child in inline.children or [])
    assert {child.type for child in inline.children or []} <= {"text", "text_special"}
    expected = " ".join(f"a{text}a".split()).replace("\0", "\ufffd")
    assert shown == expected


@pytest.mark.parametrize("line", ["1. one", "- one", "# one", "| a | b |", "    code", "a@b.org"])
def test_a_line_of_text_is_never_a_structure(line: str) -> None:
    assert rendered(escape(line)) == f"<p>{line.strip()}</p>\n"


def test_the_contender_of_a_checkpoint_has_its_name_for_people(benchmark: Benchmark) -> None:
    assert benchmark.trained == Contender("trained", 9)
    assert [str(each.contender) for each in benchmark.shown] == [
        "trained@9",
        "lead-350",
        "trained@0",
        "gpt-4o",
    ]
