"""The pages that we write, opened from their files in a browser: a benchmark's report, a run's
rollouts of games that were really played, runs compared, and the documentation."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from precis.environments.trajectories import put_trajectories
from precis.records.rollout import Split
from precis.report.page import report_html
from precis.report.rollouts_page import gather_rollouts, rollouts_html
from precis.report.run_comparison import compare, comparison_html
from precis.store import FolderStore
from tests.services.browser import chromium
from tests.services.conftest import ROOT
from tests.services.patience import patience_s
from tests.support.examples import embedded, example, play
from tests.support.reports import HOSTILE, benchmark
from tests.support.runs import NOW, make_run
from tests.unit.report.test_rollouts_page import game, repeated

GAMES = 4
SHOWN = {"report": "#left-side h3", "rollouts": "#left .score", "compared": "main"}
"""What each page shows once it is at work."""
SCREENS: dict[int, Literal["light", "dark"]] = {1280: "light", 390: "dark"}
"""By their widths."""


def rollouts_page(store: FolderStore) -> str:
    """Games by two policies, each of a step, and two rollouts with hostile texts."""
    environment = example("tic_tac_toe.py")
    splits: tuple[Split, ...] = ("train", "validation")
    for step, seed in ((0, 1), (8, 2)):
        groups = [[one] for one in asyncio.run(play(environment, embedded(seed), GAMES))]
        for split in splits:
            put_trajectories(store, "m", split, step, groups, f"m@{step}")
    put_trajectories(store, "m", "train", 9, [[game()]], "m@9")
    put_trajectories(store, "m", "train", 10, [[repeated()]], "m@10")
    return rollouts_html(gather_rollouts(store, "m"), "m", store.url, NOW)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    store = FolderStore(folder / "store")
    for model in ("a", "b", "c"):
        make_run(store, model, 3)
    pages = {
        "report": report_html(benchmark()),
        "rollouts": rollouts_page(store),
        "compared": comparison_html(compare(store, ["a", "b", "c"]), store.url, NOW),
    }
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page)
    return {name: (folder / f"{name}.html").as_uri() for name in pages}


@pytest.fixture(scope="module")
def browser(addresses: dict[str, str]) -> Iterator[Browser]:
    """Chromium, once the games are over: both have an event loop of this thread."""
    started = chromium()
    with sync_playwright() as playwright:
        expect.set_options(timeout=patience_s() * 1000)
        browser = playwright.chromium.launch(**started)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, addresses: dict[str, str], name: str) -> Iterator[Page]:
    """A page as it first is; whatever it complains of, or asks of others, fails the test."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(patience_s() * 1000)
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda request: told.append(request.url))
    page.goto(addresses[name])
    expect(page.locator(SHOWN[name])).to_be_visible()
    yield page
    # The page itself, and the charts that it holds, are the only requests.
    elsewhere = [one for one in told if not one.startswith("data:image/svg+xml;base64,")]
    assert elsewhere == [addresses[name]]
    page.context.close()


@pytest.fixture
def report(browser: Browser, addresses: dict[str, str]) -> Iterator[Page]:
    with opened(browser, addresses, "report") as page:
        yield page


@pytest.fixture
def rollouts(browser: Browser, addresses: dict[str, str]) -> Iterator[Page]:
    with opened(browser, addresses, "rollouts") as page:
        yield page


@pytest.mark.parametrize("name", SHOWN)
def test_axe_finds_nothing_and_nothing_but_a_table_scrolls_sideways(
    browser: Browser, addresses: dict[str, str], name: str
) -> None:
    """On a bright screen and on a dark phone."""
    with opened(browser, addresses, name) as page:
        if name == "rollouts":
            page.get_by_label("unfold all").check()
        for width, scheme in SCREENS.items():
            page.set_viewport_size({"width": width, "height": 844})
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            assert page.evaluate("document.documentElement.scrollWidth") == width


def test_a_topic_and_models_filter_also_by_the_keyboard(report: Page) -> None:
    trained = report.locator("#standings tr.trained")
    topic = report.get_by_label("Topic", exact=True)
    assert trained.locator(".accuracy").inner_text() == "87.5%"
    topic.select_option("Topic 1")
    assert trained.locator(".accuracy").inner_text() == "100.0%"
    assert trained.locator(".documents").inner_text() == "4"
    assert not report.locator("#standings .overall").first.is_visible()
    listed = report.get_by_label("Scenario", exact=True).locator("option").all_inner_texts()
    assert listed == [f"d{n} (Topic 1)" for n in (1, 3, 5, 7)]
    topic.select_option("")
    assert trained.locator(".accuracy").inner_text() == "87.5%"
    assert trained.locator(".documents").inner_text() == "8"

    shown = report.locator("#standings tbody tr:visible th")
    everyone = shown.all_inner_texts()
    assert everyone[0] == "trained, step 9"
    report.locator("#models summary").focus()
    report.keyboard.press("Enter")
    report.get_by_role("checkbox", name="lead-350").focus()
    report.keyboard.press("Space")
    assert shown.all_inner_texts() == [each for each in everyone if each != "lead-350"]
    assert report.locator("#models-shown").inner_text() == "3 of 4"
    assert "lead-350" not in report.get_by_label("Right").locator("option").all_inner_texts()
    report.get_by_role("button", name="None").press("Enter")
    assert shown.count() == 0
    report.get_by_role("button", name="All").press("Enter")
    assert shown.all_inner_texts() == everyone


def test_two_models_are_read_side_by_side_and_hostile_ones_as_text(report: Page) -> None:
    left, right = report.locator("#left-side"), report.locator("#right-side")
    assert HOSTILE in left.locator(".summary").inner_text()
    assert left.locator("script").count() == 0
    decided = left.locator(".right").first
    expect(decided).to_have_text("✓ right: 🎉 It was gold00 <b>.")
    assert decided.locator("b").all_inner_texts() == ["gold00"]
    report.get_by_label("Scenario", exact=True).select_option("d3")
    report.get_by_label("Right").select_option("the start")
    assert left.locator("h3").inner_text() == "trained, step 9"
    assert right.locator("h3").inner_text() == "the start"
    assert left.locator("h3 + p").inner_text() == "4 of 4 right, 12 words"
    assert left.locator("li").count() == 5
    assert left.locator(".right").count() == 5
    assert right.locator(".wrong").count() == 2
    assert "✗ wrong: answer 2" in right.locator(".wrong").first.inner_text()
    assert "50.0 points ahead of the start" in report.locator("#ahead").inner_text()
    report.get_by_label("Right").select_option("gpt-4o")
    assert right.locator("h3 + p").inner_text() == "not scored: timeout"
    report.get_by_role("button", name="Next").click()
    # The next of the same topic: documents are listed topic by topic.
    assert report.get_by_label("Scenario", exact=True).input_value() == "d5"
    report.get_by_label("only where their scores differ").check()
    listed = report.get_by_label("Scenario", exact=True).locator("option").all_inner_texts()
    assert 0 < len(listed) < 8
    assert "d1 (Topic 1)" not in listed


def test_the_charts_are_drawn_and_described(report: Page) -> None:
    charts = report.locator(".charts img")
    assert charts.count() == 3
    for image in charts.all():
        image.scroll_into_view_if_needed()
        assert image.evaluate("each => each.naturalWidth") > 300
        assert len(image.get_attribute("alt") or "") > 20


def test_a_game_is_read_side_by_side_turn_by_turn_with_its_calls(rollouts: Page) -> None:
    left, right = rollouts.locator("#left"), rollouts.locator("#right")
    assert left.locator("h2").inner_text().startswith("Step 0: game-")
    name = left.locator("h2").inner_text().removeprefix("Step 0: ")
    assert right.locator("h2").inner_text() == f"Step 8: {name}"
    turns = left.locator(".by-policy")
    assert turns.locator("h3").all_inner_texts() == [
        f"Turn {turn + 1}" for turn in range(turns.count())
    ]
    assert left.locator(".score").inner_text().splitlines()[0] == "Score"
    assert "calls to the model" in left.locator(".score").inner_text()
    calls = left.locator("details.call")
    assert "play(" in calls.first.locator("summary").inner_text()
    assert not calls.first.locator("pre").first.is_visible()
    rollouts.get_by_label("unfold all").check()
    assert all(each.get_attribute("open") is not None for each in calls.all())
    rollouts.get_by_role("button", name="Next rollout").first.click()
    following = left.locator("h2").inner_text().removeprefix("Step 0: ")
    assert following != name
    assert right.locator("h2").inner_text() == f"Step 8: {following}", "the other side follows"
    assert calls.first.get_attribute("open") is not None


def test_a_hostile_rollout_stays_text_and_each_call_has_its_own_result(rollouts: Page) -> None:
    rollouts.get_by_label("Rollouts of").select_option("training")
    rollouts.locator("#left-step").select_option("9")
    rollouts.get_by_label("unfold all").check()
    shown = rollouts.locator("#left").inner_text()
    assert "␛[31m\ufffd</script><script>alert(1)</script>" in shown
    assert "Conversation 2" in shown and "Done." in shown
    assert rollouts.locator("#left script, #left a, #left img").count() == 0
    rollouts.locator("#left-step").select_option("10")
    labels = rollouts.locator("#left details.call > summary").all_inner_texts()
    results = [label.partition("→ ")[2] for label in labels if label.startswith("look")]
    assert results == ["a wall", "a door"]


def test_the_documentation_is_searched_without_a_server(browser: Browser, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
        timeout=patience_s(),
    )
    page = browser.new_page()
    page.set_default_timeout(patience_s() * 1000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "index.html").as_uri())
    box = page.get_by_role("textbox", name="Search")
    box.press_sequentially("take_over")  # `fill` presses no key, which the page waits for
    found = page.locator(".md-search-result__item", has_text="take_over").first
    found.get_by_role("link").first.click()
    page.wait_for_url(lambda url: url.startswith("file:") and "index.html" not in url)
    assert [url for url in asked if url.startswith("http")] == []
