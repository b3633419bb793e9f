"""Games that were really played, on the page of a run's rollouts, in a browser."""

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from precis.environments.trajectories import put_trajectories
from precis.records.rollout import Split
from precis.report.rollouts_page import gather_rollouts, rollouts_html
from precis.report.run_comparison import compare, comparison_html
from precis.store import FolderStore
from tests.services.needs import need
from tests.support.examples import embedded, example, play
from tests.support.runs import make_run
from tests.unit.report.test_rollouts_page import game, repeated

GAMES = 4


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of games by two policies, each of a step, and of one rollout with hostile texts."""
    folder = tmp_path_factory.mktemp("rollouts")
    store = FolderStore(folder / "store")
    environment = example("tic_tac_toe.py")
    for step, seed in ((0, 1), (8, 2)):
        games = asyncio.run(play(environment, embedded(seed), GAMES))
        groups = [[one] for one in games]
        splits: tuple[Split, ...] = ("train", "validation")
        for split in splits:
            put_trajectories(store, "m", split, step, groups, f"m@{step}")
    put_trajectories(store, "m", "train", 9, [[game()]], "m@9")
    put_trajectories(store, "m", "train", 10, [[repeated()]], "m@10")
    file = folder / "rollouts.html"
    file.write_text(rollouts_html(gather_rollouts(store, "m"), "m", store.url, datetime.now(UTC)))
    return file.as_uri()


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    """Chromium, once the games are over: both have an event loop of this thread."""
    chromium = need("chromium", "chromium")
    # Chromium's sandbox can't be set up by root, whom many CI machines run as.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page, opened from its file; the test fails on any complaint or outside request."""
    told: list[str] = []
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: told.append(request.url))
        page.goto(address)
        expect(page.locator("#left .score")).to_be_visible()
        yield page
    assert told == [address]


def test_a_game_of_two_steps_is_read_side_by_side_turn_by_turn(page: Page) -> None:
    left, right = page.locator("#left"), page.locator("#right")
    assert left.locator("h2").inner_text().startswith("Step 0: game-")
    name = left.locator("h2").inner_text().removeprefix("Step 0: ")
    assert right.locator("h2").inner_text() == f"Step 8: {name}"
    turns = left.locator(".by-policy")
    assert turns.locator("h3").all_inner_texts() == [
        f"Turn {turn + 1}" for turn in range(turns.count())
    ]
    assert left.locator(".score").inner_text().splitlines()[0] == "Score"
    assert "calls to the model" in left.locator(".score").inner_text()
    page.get_by_role("button", name="Next rollout").first.click()
    following = left.locator("h2").inner_text().removeprefix("Step 0: ")
    assert following != name
    assert right.locator("h2").inner_text() == f"Step 8: {following}", "the other side follows"


def test_tool_calls_are_folded_until_all_are_unfolded(page: Page) -> None:
    call = page.locator("#left details.call").first
    assert "play(" in call.locator("summary").inner_text()
    assert not call.locator("pre").first.is_visible()
    page.get_by_label("unfold all").check()
    for each in page.locator("#left details.call").all():
        assert each.get_attribute("open") is not None
    page.get_by_role("button", name="Next rollout").first.click()
    assert page.locator("#left details.call").first.get_attribute("open") is not None


def test_an_address_leads_to_the_same_rollouts_again(page: Page, address: str) -> None:
    page.get_by_label("Rollouts of").select_option("training")
    page.locator("#left-step").select_option("8")
    page.locator("#left-rollout").select_option(index=2)
    shown = page.locator("#left h2").inner_text()
    there = page.url
    again = page.context.new_page()
    again.goto(there)
    expect(again.locator("#left h2")).to_have_text(shown)


def test_a_hostile_rollout_stays_text(page: Page) -> None:
    page.get_by_label("Rollouts of").select_option("training")
    page.locator("#left-step").select_option("9")
    page.get_by_label("unfold all").check()
    shown = page.locator("#left").inner_text()
    assert "␛[31m</script><script>alert(1)</script>" in shown
    assert "Conversation 2" in shown and "Done." in shown
    assert page.locator("#left script, #left a, #left img").count() == 0


def test_each_call_has_its_own_result_though_an_id_comes_again(page: Page) -> None:
    page.get_by_label("Rollouts of").select_option("training")
    page.locator("#left-step").select_option("10")
    labels = page.locator("#left details.call > summary").all_inner_texts()
    results = [label.partition("→ ")[2] for label in labels if label.startswith("look")]
    assert results == ["a wall", "a door"]


def test_an_outcome_chooses_rollouts(page: Page) -> None:
    page.get_by_label("Outcome").select_option("failures")
    listed = page.locator("#left-rollout option").all_inner_texts()
    assert listed
    assert all("✗" in each for each in listed)
    page.get_by_label("Outcome").select_option("not scored")
    assert page.locator("#left-rollout option").count() == 0
    assert "No such rollout" in page.locator("#left").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_a_phone_scrolls_down_alone(
    browser: Browser, address: str, scheme: Literal["light", "dark"]
) -> None:
    phone: ViewportSize = {"width": 390, "height": 844}
    with browser.new_context(color_scheme=scheme, viewport=phone) as context:
        page = context.new_page()
        page.goto(address)
        expect(page.locator("#left .score")).to_be_visible()
        page.get_by_label("unfold all").check()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_axe_finds_nothing_on_the_page_of_runs_compared(browser: Browser, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    for model in ("a", "b", "c"):
        make_run(store, model, 3)
    now = datetime.now(UTC)
    file = tmp_path / "compared.html"
    file.write_text(comparison_html(compare(store, ["a", "b", "c"], now), store.url, now))
    phone: ViewportSize = {"width": 390, "height": 844}
    with browser.new_context(viewport=phone) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") == 390
