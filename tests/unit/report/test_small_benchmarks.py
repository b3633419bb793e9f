"""Benchmarks that are too small, too odd or too long for a figure still end with a report."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.benchmark.measure import BenchmarkId, report_folder
from precis.benchmark.report import store_report
from precis.config import BenchmarkConfig
from precis.records.documents import Corpus, Document
from precis.records.results import frame_of
from precis.report.benchmark_charts import charts_of
from precis.report.benchmark_view import Benchmark
from precis.report.charts import shorten
from precis.report.curve import StepPoint
from precis.report.page import report_html
from precis.statistics.intervals import Interval
from precis.store import FolderStore
from tests.support.reports import rows


def benchmark(
    trained: list[int],
    other: list[int],
    *,
    name: str = "lead-350",
    topic: str = "News",
    **more: Any,
) -> Benchmark:
    frame = frame_of(
        [
            *rows("trained", 0, [1] * len(trained), topic),
            *rows("trained", 4, trained, topic),
            *rows(name, None, other, topic),
        ]
    ).with_columns(pl.lit(0.01).alias("usd"))
    return Benchmark(frame, [StepPoint(0, reward=0.5), StepPoint(4)], **more)


def share(found: Benchmark) -> str:
    (card,) = [each for each in found.headlines() if each.label == "Share of the ceiling"]
    return f"{card.value} {card.detail}"


def test_a_share_of_the_ceiling_takes_documents_and_a_ceiling() -> None:
    assert share(benchmark([1], [0], ceiling=0.25)) == "– too few scenarios to say (1)"
    assert "91.1%" in share(benchmark([3, 4] * 4, [2] * 8, ceiling=0.96))
    assert "the ceiling is 0" in share(benchmark([0] * 8, [0] * 8, ceiling=0.0))
    unmeasured = benchmark([3, 4] * 4, [2] * 8).headlines()
    assert all(each.label != "Share of the ceiling" for each in unmeasured)


@pytest.mark.parametrize(("trained", "other"), [([4] * 8, [2] * 8), ([4, 3, 4, 3], [2, 2, 1, 2])])
def test_too_few_documents_or_too_much_alike_foretell_no_number_of_them(
    trained: list[int], other: list[int]
) -> None:
    found = benchmark(trained, other)
    page = " ".join(report_html(found).split())
    assert found.documents_needed is None
    assert "Too few scenarios, or too much alike, to say how many" in page


def test_more_topics_than_a_picture_has_room_for_are_not_drawn() -> None:
    found = [*rows("trained", 4, [3] * 300), *rows("lead-350", None, [2] * 300)]
    many = frame_of(found).with_columns(topic=pl.col("scenario_id"))
    assert "topics" not in charts_of(Benchmark(many))


def test_a_checkpoint_that_could_not_be_measured_keeps_its_point_of_the_curve() -> None:
    known = Interval(0.5, 0.4, 0.6)
    gone = rows("trained", 4, [4, *[None] * 7])
    found = Benchmark(frame_of(gone), [StepPoint(4, accuracy=known)])
    assert found.curve == [StepPoint(4, accuracy=known)]


def test_a_long_name_can_be_drawn() -> None:
    found = benchmark([3, 4], [2, 2], name="n" * 2000, topic="t" * 2000)
    assert report_html(found)


@given(st.text(max_size=300))
def test_a_shortened_name_is_short_and_keeps_both_ends(name: str) -> None:
    short = shorten(f"begin {name} end")
    assert len(short) <= 32
    assert short.startswith("begin") and short.endswith("end")


def test_a_second_Benchmark_a_step_leaves_the_first_s_report(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    found = Benchmark(frame_of(rows("lead-350", None, [2, 2])), [])
    first = BenchmarkId.now()
    second = BenchmarkId.now()
    for benchmark_id, page in ((first, "first"), (second, "second")):
        store_report(store, "m", benchmark_id.id, "m/benchmarks/0004/", found, page)
    assert (tmp_path / "m/benchmarks/0004/report.html").read_text() == "second"
    for benchmark_id, page in ((first, "first"), (second, "second")):
        folder = tmp_path / "m/benchmarks/0004" / benchmark_id.id
        assert (folder / "report.html").read_text() == page
        assert (folder / "results.parquet").exists()


def test_other_documents_than_were_held_out_have_a_report_of_their_own() -> None:
    corpus = Corpus(train=(), validation=(Document("d", "News", "Text.", ()),))
    other = BenchmarkConfig.model_validate({"test_documents": {"source": "other.jsonl"}})
    standard = report_folder("m", 4, BenchmarkConfig(), corpus.digest)
    assert standard == "m/benchmarks/0004/"
    assert report_folder("m", 4, other, corpus.digest) == f"m/benchmarks/0004-{corpus.digest[:8]}/"
