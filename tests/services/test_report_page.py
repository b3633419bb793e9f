"""The report in a browser, from a file: filters, the reader, and nothing from elsewhere."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from precis.records.documents import Document, Question
from precis.records.nouns import Nouns
from precis.records.results import Provenance, frame_of
from precis.records.verdict import Answer, Scored
from precis.report.benchmark_view import benchmark_of
from precis.report.curve import StepPoint
from precis.report.page import report_html
from precis.report.wording import Words
from precis.text import count_words
from tests.services.needs import need
from tests.support.reports import HOSTILE, questions, rows
from tests.support.summaries import JudgedSummary, Summary, questions_of, row_of

DOCUMENTS = 12


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of three contenders and two checkpoints on documents of two topics."""
    contenders: list[tuple[str, int | None, list[int | None]]] = [
        ("trained", 0, [1, 2] * 6),
        ("trained", 9, [3, 4] * 6),
        ("lead-350", None, [2, 1] * 6),
        ("gpt-4o", None, [4, 4, 3, None, 4, 4] * 2),
    ]
    results = frame_of(row for each in contenders for row in rows(*each))
    asked = pl.concat([questions(*each) for each in contenders])
    curve = [StepPoint(step, reward=0.3 + 0.02 * step) for step in range(9)]
    path = tmp_path_factory.mktemp("report") / "report.html"
    words = Words(Nouns("summary", "summaries", "document", "documents"))
    benchmark = benchmark_of(results, curve, ceiling=0.96, questions=asked, words=words)
    path.write_text(report_html(benchmark))
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = need("chromium", "chromium")
    # Chromium's sandbox can't be set up by root, whom many CI machines run as.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    """The report, opened from its file; the test fails on any complaint or outside request."""
    complaints: list[str] = []
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url))
        page.goto(report.as_uri())
        expect(page.locator("#left-side h3")).to_be_visible()
        yield page
    # The page itself, and the charts that it holds, are the only requests.
    elsewhere = [each for each in complaints if not each.startswith("data:image/svg+xml;base64,")]
    assert elsewhere == [report.as_uri()]


def shown_rows(page: Page) -> list[str]:
    return page.locator("#standings tbody tr:visible th").all_inner_texts()


def test_a_topic_filters_figures_and_documents(page: Page) -> None:
    trained = page.locator("#standings tr.trained")
    assert trained.locator(".accuracy").inner_text() == "87.5%"
    page.get_by_label("Topic", exact=True).select_option("Topic 1")
    assert trained.locator(".accuracy").inner_text() == "100.0%"
    assert trained.locator(".documents").inner_text() == str(DOCUMENTS // 2)
    assert not page.locator("#standings .overall").first.is_visible()
    listed = page.get_by_label("Document", exact=True).locator("option").all_inner_texts()
    assert listed == [f"d{n} (Topic 1)" for n in sorted(range(1, DOCUMENTS, 2), key=str)]
    page.get_by_label("Topic", exact=True).select_option("")
    assert trained.locator(".accuracy").inner_text() == "87.5%"
    assert trained.locator(".documents").inner_text() == str(DOCUMENTS)


def test_models_are_filtered_with_the_keyboard_alone(page: Page) -> None:
    everyone = shown_rows(page)
    assert everyone[0] == "trained, step 9"
    page.locator("#models summary").focus()
    page.keyboard.press("Enter")
    page.get_by_role("checkbox", name="lead-350").focus()
    page.keyboard.press("Space")
    assert shown_rows(page) == [each for each in everyone if each != "lead-350"]
    assert page.locator("#models-shown").inner_text() == "3 of 4"
    assert "lead-350" not in page.get_by_label("Right").locator("option").all_inner_texts()
    page.get_by_role("button", name="None").press("Enter")
    assert shown_rows(page) == []
    page.get_by_role("button", name="All").press("Enter")
    assert shown_rows(page) == everyone


def test_two_models_are_read_side_by_side_with_verdicts(page: Page) -> None:
    left, right = page.locator("#left-side"), page.locator("#right-side")
    page.get_by_label("Document", exact=True).select_option("d3")
    page.get_by_label("Right").select_option("untrained start")
    assert left.locator("h3").inner_text() == "trained, step 9"
    assert right.locator("h3").inner_text() == "untrained start"
    assert left.locator("h3 + p").inner_text() == f"4 of 4 right, {words(page)} words"
    assert left.locator("li").count() == 5
    assert left.locator(".right").count() == 5
    assert right.locator(".wrong").count() == 2
    assert "✗ wrong: answer 2" in right.locator(".wrong").first.inner_text()
    assert "50.0 points ahead of untrained start" in page.locator("#ahead").inner_text()
    page.get_by_role("button", name="Next").click()
    # The next of the same topic: documents are listed topic by topic.
    assert page.get_by_label("Document", exact=True).input_value() == "d5"


def test_the_words_that_decided_are_bold(browser: Browser, tmp_path: Path) -> None:
    question = Question("q", "Who opened the bridge?", "Ada Kessler", answerable=True)
    document = Document("d", "Topic", "Text.", (question,))
    verdict = Scored((Answer("q", "🎉 It was Ada Kessler <b>.", correct=True, answerable=True),))
    judged = JudgedSummary(document, Summary("Ada Kessler opened it."), verdict)
    provenance = Provenance("run-1", "lead-350", None, "lexical-judge", "batched/1", "p", "c", "1")
    path = tmp_path / "report.html"
    asked = questions_of([judged], provenance)
    benchmark = benchmark_of(frame_of([row_of(judged, provenance)]), questions=asked)
    path.write_text(report_html(benchmark))
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(path.as_uri())
        line = page.locator("#left-side .right")
        expect(line).to_have_text("✓ right: 🎉 It was Ada Kessler <b>.")
        assert line.locator("b").all_inner_texts() == ["Ada", "Kessler"]


def words(page: Page) -> int:
    return count_words(page.locator("#left-side .summary").inner_text())


def test_only_differing_documents_are_listed_on_request(page: Page) -> None:
    page.get_by_label("Right").select_option("gpt-4o")
    page.get_by_label("only where their scores differ").check()
    listed = page.get_by_label("Document", exact=True).locator("option").all_inner_texts()
    assert 0 < len(listed) < DOCUMENTS
    assert "d1 (Topic 1)" not in listed


def test_a_hostile_summary_is_shown_as_text(page: Page) -> None:
    assert HOSTILE in page.locator("#left-side .summary").inner_text()
    assert page.locator("#left-side script").count() == 0


def test_an_unscored_summary_says_why(page: Page) -> None:
    page.get_by_label("Document", exact=True).select_option("d3")
    page.get_by_label("Right").select_option("gpt-4o")
    assert page.locator("#right-side h3 + p").inner_text() == "not scored: timeout"


def test_the_charts_are_drawn_and_described(page: Page) -> None:
    charts = page.locator(".charts img")
    assert charts.count() == 3
    for image in charts.all():
        image.scroll_into_view_if_needed()
        assert image.evaluate("each => each.naturalWidth") > 300
        assert len(image.get_attribute("alt") or "") > 20


@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_and_nothing_but_a_table_scrolls_sideways(
    browser: Browser, report: Path, width: int
) -> None:
    with browser.new_context(viewport={"width": width, "height": 844}) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        expect(page.locator("#left-side h3")).to_be_visible()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_both_themes(
    browser: Browser, report: Path, scheme: Literal["light", "dark"]
) -> None:
    with browser.new_context(color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(report.as_uri())
        expect(page.locator("#left-side h3")).to_be_visible()
        worst = page.evaluate(CONTRAST)
    # WCAG 2.2, level AA, for text of ordinary size.
    assert worst["ratio"] >= 4.5, worst


CONTRAST = """() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = rgb(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
  };
  const ratios = [...document.querySelectorAll("main *, header *")]
    .filter((node) => [...node.childNodes].some((each) => each.nodeType === 3 && each.data.trim()))
    .filter((node) => node.checkVisibility() && getComputedStyle(node).color !== "transparent")
    .map((node) => {
      const [a, b] = [light(rgb(getComputedStyle(node).color)), light(ground(node))];
      return {text: node.textContent.trim().slice(0, 40),
              ratio: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)};
    });
  return ratios.sort((one, other) => one.ratio - other.ratio)[0];
}"""
