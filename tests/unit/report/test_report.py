import json
import re
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markupsafe import Markup

from precis.benchmark.report import standings_lines
from precis.markdown import escape, mark_bold, table
from precis.records.nouns import COMPARED, PREFERRED
from precis.records.results import SCHEMA, frame_of
from precis.report import wording
from precis.report.benchmark_charts import charts_of
from precis.report.benchmark_view import Benchmark
from precis.report.curve import Curve
from precis.report.page import benchmark_report, reader_data, report_html
from precis.statistics.intervals import Interval, documents_needed
from precis.statistics.standings import Contender, align, rows_by
from precis.text import common_words, decisive_words
from tests.support import reports
from tests.support.reports import HOSTILE, embedded, rendered, rows

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return reports.benchmark()


@pytest.fixture(scope="module")
def page(benchmark: Benchmark) -> str:
    return report_html(benchmark, {"Judge": "lexical-judge"})


def table_rows(page: str) -> list[list[str]]:
    """The text of each cell, by row."""
    rows = []
    for row in re.findall("<tr.*?</tr>", page, re.DOTALL):
        cells = re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        rows.append([Markup(cell).striptags() for cell in cells])
    return rows


def test_the_numbers_on_the_page_are_those_of_the_results(benchmark: Benchmark, page: str) -> None:
    own = benchmark.frame.filter(pl.col("step") == 9)
    share = float(own["score"].sum()) / float(own["weight"].sum())
    line, *_, pairs = (row for row in table_rows(page) if row[0] == "trained, step 9")
    standing = benchmark.standings[0]
    assert share == 0.875
    assert line[1] == "87.5%"
    assert standing.accuracy is not None
    assert line[2] == f"{standing.accuracy.low:.1%} to {standing.accuracy.high:.1%}"
    assert '<p class="value">87.5%</p>' in page
    assert pairs == ["trained, step 9", "+43.8*", "+50.0*"], "a star is beyond chance"
    methods = page[page.index('id="methods"') :]
    for fact in ("lexical-judge", "batched/1", "<dd>p</dd>", "<dd>c</dd>", "0.1.0", "96.0%", "BCa"):
        assert fact in methods
    # Compared with the start, and with the best of the others.
    assert [(label, value) for label, value, _ in benchmark.headlines()] == [
        ("trained, step 9", "87.5%"),
        ("Compared with the start", "+50.0 points"),
        ("Compared with lead-350", "+43.8 points"),
        ("Share of the ceiling", "91.1%"),
    ]


def test_a_contender_too_often_unscored_is_not_ranked(benchmark: Benchmark, page: str) -> None:
    (line,) = [row for row in table_rows(page) if row[0].startswith("gpt-4o")]
    assert line[0] == "gpt-4o incomplete, not ranked"
    assert line[-1] == "2 timeout"
    assert "gpt-4o (incomplete)" in [one[0] for one in standings_lines(benchmark)]
    assert not [name for name, chart in charts_of(benchmark).items() if "gpt-4o" in chart.alt]


def test_the_page_loads_nothing_and_no_summary_leaves_its_place(page: str) -> None:
    addresses = re.findall('(?:src|srcset|href|data)="(.*?)"', page)
    assert addresses
    assert all(address.startswith("data:image/svg+xml;base64,") for address in addresses)
    assert not re.search("<(link|iframe|object)", page)
    assert "default-src 'none'" in page
    assert page.count("<script") == 2
    assert "alert(1)" not in page
    # A name is text wherever it stands.
    hostile = Benchmark(frame_of([*rows(HOSTILE, 1, [3, 2]), *rows(f"{HOSTILE} 2", None, [2, 2])]))
    shown = report_html(hostile, {HOSTILE: HOSTILE})
    assert shown.count("<script") == 2


def test_the_reader_holds_each_summary_with_verdicts(benchmark: Benchmark, page: str) -> None:
    data = embedded(page)
    assert data == reader_data(benchmark)
    names = [contender["name"] for contender in data["contenders"]]
    assert names == ["trained, step 9", "lead-350", "the start", "gpt-4o"]
    assert data["sides"] == [0, 1]
    first = data["contenders"][0]
    assert first["summaries"]["d0"]["summary"] == f"trained on 0. {HOSTILE}"
    answers = first["summaries"]["d0"]["answers"]
    right = ["🎉 It was gold02 <b>.", True, [[9, 15]]]
    assert answers[2:4] == [right, ["answer 3", False, []]]
    assert first["topics"]["Topic 1"] == ["100.0%", "0.0% to 100.0%"], "four documents say little"
    assert data["contenders"][3]["summaries"]["d3"]["cause"] == "timeout"
    assert data["documents"][0]["questions"][4]["answerable"] is False
    ahead = data["ahead"]  # by the planned comparisons
    assert ahead["0-1"].startswith("trained, step 9 is 43.8 points ahead of lead-350 on 8 ")
    assert benchmark.ahead[Contender("trained", 9), Contender("lead-350")].chance in ahead["0-1"]
    assert ahead["1-2"].startswith("lead-350 is 6.2 points ahead of the start")
    assert not {"1-0", "2-1"} & set(ahead)


def test_a_page_has_room_for_a_part_of_long_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precis.report.page._TEXTS_MAX", 10_000)
    long = frame_of(rows("player", None, [0, 2])).with_columns(text=pl.lit("x" * 5001))
    (shown,) = reader_data(Benchmark(long))["contenders"]
    texts = [one["summary"] for one in shown["summaries"].values()]
    cut = "\n… cut here: it has 5,001 characters (see results.parquet)"
    assert texts == [f"{'x' * 5000}{cut}"] * 2


def test_an_empty_benchmark_makes_an_empty_report() -> None:
    empty = Benchmark(SCHEMA.to_frame())
    assert empty.standings == []
    assert "Standings" in report_html(empty)
    assert "Contender" in benchmark_report(empty)


def test_once_the_page_is_made_no_figure_is_left_to_compute() -> None:
    benchmark = reports.benchmark()
    report_html(benchmark)
    computed = set(vars(benchmark))
    standings_lines(benchmark)
    benchmark_report(benchmark)
    assert set(vars(benchmark)) == computed, "the event loop would wait for it"


def test_the_benchmark_artifact_has_both_pictures_and_all_standings(benchmark: Benchmark) -> None:
    markdown = benchmark_report(benchmark)
    html = rendered(markdown)
    assert html.count('<img src="data:image/png;base64,') == 2
    for standing in benchmark.standings:
        assert standing.accuracy is not None
        assert f"<td>{standing.accuracy}</td>" in html
    assert "<strong>Compared with the start: +50.0 points</strong>" in html


@settings(max_examples=60)
@given(st.text(max_size=60))
def test_escaped_text_is_shown_as_it_is(text: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(f"> {escape(f'a{text}a')}")
    (inline,) = [token for token in tokens if token.type == "inline"]
    outer = [token.type for token in tokens if token.level == 1]
    assert outer == ["paragraph_open", "paragraph_close"]
    shown = "".join(child.content for child in inline.children or [])
    assert {child.type for child in inline.children or []} <= {"text", "text_special"}
    expected = " ".join(f"a{text}a".split()).replace("\0", "\ufffd")
    assert shown == expected


@pytest.mark.parametrize(
    "line",
    ["12. one", "3) one", "- one", "# one", "---", "===", "| a | b |", "    code", "a@b.org"],
)
def test_a_line_of_text_is_never_a_structure(line: str) -> None:
    assert rendered(escape(line)) == f"<p>{line.strip()}</p>\n"
    assert escape("58.2%") == "58.2%", "no item of a list"
    plain = 'environment="a.py", trainer.learning_rate=0.1'
    assert escape(plain) == plain, "no syntax in a word"


def test_what_is_known_of_all_figures_and_of_zeros_is_said_in_the_environments_words() -> None:
    crude = wording.Words(caveat="Dice were thrown.", disqualifiers=("cheated",))
    preference = {PREFERRED: 0.5, COMPARED: 1.0}  # which is the measure
    of_each = (
        {"cheated": 1.0, "prose": 0.5, **preference},
        {"cheated": 0.0, "words": 9.0, "prose": 0.6},
    )
    metrics = pl.Series("metrics", list(map(json.dumps, of_each)))
    played = frame_of(rows("player", None, [0, 2])).with_columns(metrics)
    benchmark = Benchmark(played, words=crude)
    assert "Dice were thrown." in benchmark_report(benchmark)
    assert list(benchmark.columns) == ["Cheated", "Prose", "Words"], "no tokens were counted"
    (shown,) = reader_data(benchmark)["contenders"]
    told = {one["disqualified"]: one["length"] for one in shown["summaries"].values()}
    assert told == {"cheated": "", None: ", 9 words, 60% prose"}


def small(trained: list[int], other: list[int], ceiling: float | None = None) -> Benchmark:
    start = rows("trained", 0, [1] * len(trained))
    frame = frame_of([*start, *rows("trained", 4, trained), *rows("lead-350", None, other)])
    return Benchmark(frame, ceiling=ceiling)


def test_a_share_of_the_ceiling_takes_documents_and_a_ceiling() -> None:
    share = small([1], [0], ceiling=0.25).headlines()[-1]
    assert share[1:] == ("–", "too few scenarios to say (1)")
    assert small([0] * 8, [0] * 8, ceiling=0.0).headlines()[-1][2] == "the ceiling is 0"
    unmeasured = small([3, 4] * 4, [2] * 8).headlines()
    assert all(label != "Share of the ceiling" for label, *_ in unmeasured)


@pytest.mark.parametrize(("trained", "other"), [([4] * 8, [2] * 8), ([4, 3, 4, 3], [2, 2, 1, 2])])
def test_too_few_or_too_alike_foretell_no_number(trained: list[int], other: list[int]) -> None:
    found = small(trained, other)
    page = " ".join(report_html(found).split())
    assert found.documents_needed is None
    assert "Too few scenarios, or too much alike, to say how many" in page


def test_the_documents_needed_are_those_of_the_trained_model_and_the_best_of_the_others() -> None:
    found = small([0, 1, 2, 0, 1, 0, 1, 0], [4, 4, 3, 4, 4, 2, 4, 4])
    lead, start, own = (rows_by(found.frame, one) for one in found.ranked)
    needed = documents_needed(*align(own, lead)[:3])
    assert found.documents_needed == needed
    page = " ".join(report_html(found).split())
    assert "trained, step 4 and the best of the others" in page
    assert needed is not None
    # The standard error falls with the root of the number of documents.
    smallest = 3 * (needed / own.height) ** 0.5
    assert f"show a difference of {smallest:.1f} points as often" in page
    assert replace(found, words=wording.Words(is_share=False)).documents_needed is None
    unscored = own.with_columns(score=pl.lit(None, pl.Float64), cause=pl.lit("timeout"))
    incomplete = Benchmark(pl.concat([lead, start, unscored]))
    assert incomplete.documents_needed == documents_needed(*align(lead, start)[:3])
    assert "between the two best, four times" in " ".join(report_html(incomplete).split())


def test_more_topics_than_a_picture_has_room_for_are_not_drawn() -> None:
    found = [*rows("trained", 4, [3] * 300), *rows("lead-350", None, [2] * 300)]
    many = frame_of(found).with_columns(topic=pl.col("scenario_id"))
    assert "topics" not in charts_of(Benchmark(many))


def test_a_checkpoint_that_could_not_be_measured_keeps_its_point_of_the_curve() -> None:
    known = Curve(held_out={4: Interval(0.5, 0.4, 0.6)})
    gone = rows("trained", 4, [4, *[None] * 7])
    unmeasured = Benchmark(frame_of(gone), known)
    assert unmeasured.curve == known
    assert [label for label, *_ in unmeasured.headlines()] == ["trained, step 4 (incomplete)"]
    measured = Benchmark(frame_of(rows("trained", 4, [4] * 8)), known)
    assert measured.curve.held_out[4].mean == 1.0, "in place of the training's"


BRIDGE = "On 9 January the bridge, approved in 1987, was opened by Ada Kessler."
COMMON = common_words(["It is by the sea.", "By the lake.", "By a hill.", "The sea"])


@pytest.mark.parametrize(
    ("question", "gold", "answer", "decisive"),
    [
        ("Who opened the bridge?", "Ada Kessler", BRIDGE, ["Ada", "Kessler"]),
        ("When was it?", "In 1987, after its approval", BRIDGE, ["approved", "in", "1987"]),
        ("Where?", "by the sea", "It lies by the sea.", ["sea"]),
    ],
)
def test_the_words_that_the_golden_answer_adds_to_its_question_decide_but_those_of_many_answers(
    question: str, gold: str, answer: str, decisive: list[str]
) -> None:
    assert sorted(COMMON) == ["by", "the"]
    spans = decisive_words(question, gold, answer, COMMON)
    assert [answer[start:end] for start, end in spans] == decisive


def test_a_table_sets_them_in_bold_and_nothing_that_a_text_or_a_metric_s_name_asks_for() -> None:
    answer = "The *mayor* Ada Kessler paid \ue00040 euros."
    spans = decisive_words("Who paid?", "Ada Kessler", answer, ())
    head, *_, cell = table(["Won | <b>lost"], [[mark_bold(answer, spans)]]).splitlines()
    assert head == "| Won &#124; &#60;b&#62;lost |"
    assert cell == "| The &#42;mayor&#42; **Ada** **Kessler** paid 40 euros. |"
