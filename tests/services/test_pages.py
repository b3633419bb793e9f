"""The pages that we write, opened from their files in a browser: a benchmark's report, a run's
rollouts of games that were really played, and runs compared."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect, sync_playwright

from precis.environments.trajectories import put_trajectories
from precis.records.rollout import Split
from precis.report.page import report_html
from precis.report.rollouts_page import gather_rollouts, rollouts_html
from precis.report.run_comparison import compare, comparison_html
from precis.store import FolderStore
from tests.services.browser import chromium
from tests.services.patience import patience_s
from tests.support.examples import embedded, example, play
from tests.support.reports import HOSTILE, benchmark
from tests.support.runs import NOW, make_run
from tests.unit.report.test_rollouts_page import game, repeated

GAMES = 4
SHOWN = {"report": "#left-side h3", "rollouts": "#left .score", "compared": "main"}
"""What each page shows once it is at work."""


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
        "compared": comparison_html(compare(store, ["a", "b", "c"], NOW), store.url, NOW),
    }
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page)
    return {name: (folder / f"{name}.html").as_uri() for name in pages}


@pytest.fixture(scope="module")
def tab(addresses: dict[str, str]) -> Iterator[Page]:
    """A tab of Chromium, once the games are over: both have an event loop of this thread."""
    started = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**started)
        tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        tab.set_default_timeout(patience_s() * 1000)
        expect.set_options(timeout=patience_s() * 1000)
        yield tab
        browser.close()


@contextmanager
def opened(tab: Page, addresses: dict[str, str], name: str) -> Iterator[Page]:
    """A page as it first is; whatever it complains of, or asks of others, fails the test."""
    told: list[str] = []
    listeners: dict[Any, Callable[[Any], None]] = {
        "console": lambda message: told.append(message.text),
        "pageerror": lambda error: told.append(str(error)),
        "request": lambda request: told.append(request.url),
    }
    tab.goto("about:blank")
    for event, listener in listeners.items():
        tab.on(event, listener)
    try:
        tab.goto(addresses[name])
        expect(tab.locator(SHOWN[name])).to_be_visible()
        yield tab
    finally:
        for event, listener in listeners.items():
            tab.remove_listener(event, listener)
    # The page itself, and the charts that it holds, are the only requests.
    elsewhere = [one for one in told if not one.startswith("data:image/svg+xml;base64,")]
    assert elsewhere == [addresses[name]]


@pytest.fixture
def report(tab: Page, addresses: dict[str, str]) -> Iterator[Page]:
    with opened(tab, addresses, "report") as page:
        yield page


@pytest.fixture
def rollouts(tab: Page, addresses: dict[str, str]) -> Iterator[Page]:
    with opened(tab, addresses, "rollouts") as page:
        yield page


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["light", "dark phone"]
)
@pytest.mark.parametrize("name", SHOWN)
def test_axe_finds_nothing_and_nothing_but_a_table_scrolls_sideways(
    tab: Page, addresses: dict[str, str], name: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    assert tab.context.browser
    page = tab.context.browser.new_page(
        viewport={"width": width, "height": 844}, color_scheme=scheme
    )
    with opened(page, addresses, name):
        if name == "rollouts":
            page.get_by_label("unfold all").check()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()


def shown_rows(page: Page) -> list[str]:
    return page.locator("#standings tbody tr:visible th").all_inner_texts()


def test_a_topic_filters_figures_and_documents(report: Page) -> None:
    trained = report.locator("#standings tr.trained")
    assert trained.locator(".accuracy").inner_text() == "87.5%"
    report.get_by_label("Topic", exact=True).select_option("Topic 1")
    assert trained.locator(".accuracy").inner_text() == "100.0%"
    assert trained.locator(".documents").inner_text() == "4"
    assert not report.locator("#standings .overall").first.is_visible()
    listed = report.get_by_label("Scenario", exact=True).locator("option").all_inner_texts()
    assert listed == [f"d{n} (Topic 1)" for n in (1, 3, 5, 7)]
    report.get_by_label("Topic", exact=True).select_option("")
    assert trained.locator(".accuracy").inner_text() == "87.5%"
    assert trained.locator(".documents").inner_text() == "8"


def test_models_are_filtered_with_the_keyboard_alone(report: Page) -> None:
    everyone = shown_rows(report)
    assert everyone[0] == "trained, step 9"
    report.locator("#models summary").focus()
    report.keyboard.press("Enter")
    report.get_by_role("checkbox", name="lead-350").focus()
    report.keyboard.press("Space")
    assert shown_rows(report) == [each for each in everyone if each != "lead-350"]
    assert report.locator("#models-shown").inner_text() == "3 of 4"
    assert "lead-350" not in report.get_by_label("Right").locator("option").all_inner_texts()
    report.get_by_role("button", name="None").press("Enter")
    assert shown_rows(report) == []
    report.get_by_role("button", name="All").press("Enter")
    assert shown_rows(report) == everyone


def test_two_models_are_read_side_by_side_with_verdicts_and_hostile_ones_as_text(
    report: Page,
) -> None:
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


def test_a_game_of_two_steps_is_read_side_by_side_turn_by_turn(rollouts: Page) -> None:
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
    rollouts.get_by_role("button", name="Next rollout").first.click()
    following = left.locator("h2").inner_text().removeprefix("Step 0: ")
    assert following != name
    assert right.locator("h2").inner_text() == f"Step 8: {following}", "the other side follows"


def test_tool_calls_are_folded_until_all_are_unfolded(rollouts: Page) -> None:
    call = rollouts.locator("#left details.call").first
    assert "play(" in call.locator("summary").inner_text()
    assert not call.locator("pre").first.is_visible()
    rollouts.get_by_label("unfold all").check()
    for each in rollouts.locator("#left details.call").all():
        assert each.get_attribute("open") is not None
    rollouts.get_by_role("button", name="Next rollout").first.click()
    assert rollouts.locator("#left details.call").first.get_attribute("open") is not None


def test_an_address_leads_to_the_same_rollouts_again(rollouts: Page) -> None:
    rollouts.get_by_label("Rollouts of").select_option("training")
    rollouts.locator("#left-step").select_option("8")
    rollouts.locator("#left-rollout").select_option(index=2)
    shown = rollouts.locator("#left h2").inner_text()
    there = rollouts.url
    again = rollouts.context.new_page()
    again.goto(there)
    expect(again.locator("#left h2")).to_have_text(shown)
    again.close()


def test_a_hostile_rollout_stays_text_and_each_call_has_its_own_result_though_an_id_comes_again(
    rollouts: Page,
) -> None:
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


def test_an_outcome_chooses_rollouts(rollouts: Page) -> None:
    rollouts.get_by_label("Outcome").select_option("failures")
    listed = rollouts.locator("#left-rollout option").all_inner_texts()
    assert listed
    assert all("✗" in each for each in listed)
    rollouts.get_by_label("Outcome").select_option("not scored")
    assert rollouts.locator("#left-rollout option").count() == 0
    assert "No such rollout" in rollouts.locator("#left").inner_text()
