"""The pipeline as a person uses it: Prefect's own pages in a real browser."""

import asyncio
import re
import time
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from precis.llm.server import completions_app
from precis.rehearsal.judges.judge import lexical_judge
from tests.services.browser import chromium_page, log_in
from tests.services.conftest import JUDGE_KEY, Precis
from tests.services.patience import LONG_S
from tests.services.prefect_api import PASSWORD, client_of
from tests.support.faulty import FaultyServer

pytestmark = pytest.mark.long  # drawing Prefect's pages takes most of three minutes of CPU

STEPS = 12
LONG = LONG_S * 1000
"""In milliseconds."""
JUDGE = "browsed-judge"


class SwitchedJudge:
    """The lexical judge; while `refuses` is set, it takes nobody's key.

    Attributes:
        pause_s: before it replies, so that somebody who looks every few seconds sees each step.
    """

    def __init__(self) -> None:
        self.pause_s = 0.5
        self.refuses = False
        self._judge = completions_app(lexical_judge, lambda: [JUDGE], JUDGE_KEY)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = JSONResponse({"error": {"message": "This key is no longer valid."}}, 401)
        await asyncio.sleep(self.pause_s)
        await (refusal if self.refuses else self._judge)(scope, receive, send)


async def test_a_run_is_started_watched_failed_retried(deployed: Precis, tmp_path: Path) -> None:
    ui = deployed.api.removesuffix("/api")
    judge = SwitchedJudge()
    async with FaultyServer(judge) as url, chromium_page() as page:
        await log_in(page, ui, PASSWORD)
        await start_from_the_form(page, deployed, url, tmp_path)
        await progress_moves(page)
        judge.refuses = True
        await expect(page.get_by_text("Failed", exact=True).first).to_be_visible(timeout=LONG)
        await page.reload()  # Prefect asks for no more logs of a run that has ended
        await expect(page.get_by_text("JUDGE_API_KEY").first).to_be_visible(timeout=LONG)
        judge.refuses, judge.pause_s = False, 0
        await press_retry(page)
        name = page.get_by_text(f"train browsed: step {STEPS} of {STEPS}")
        await expect(name.first).to_be_visible(timeout=LONG)
        await expect(page.get_by_text("Completed", exact=True).first).to_be_visible(timeout=LONG)
        await read_the_report(page, ui)


async def start_from_the_form(page: Page, deployed: Precis, judge: str, store: Path) -> None:
    ui = deployed.api.removesuffix("/api")
    with client_of(deployed.api) as api:
        found = api.get("/deployments/name/train/rehearsal").raise_for_status().json()
    await page.goto(f"{ui}/v2/deployments/deployment/{found['id']}")
    await page.get_by_role("button", name="Run").first.click()
    await page.get_by_role("menuitem", name="Custom run").click()
    fields = {
        "Train Size": "40",
        "Val Size": "3",
        "Base Url": judge,
        "Store": str(store),
        "Steps": str(STEPS),
        "Validate Every": "4",
    }
    for label, value in fields.items():
        # The second judge, which is set below the first, has fields of the same names.
        await page.get_by_label(f"{label} (Optional)", exact=True).first.fill(value)
    names = page.get_by_label("Model (Optional)", exact=True)
    await names.nth(0).fill("browsed")
    await names.nth(1).fill(JUDGE)
    await page.get_by_role("button", name="Select Provider").first.click()
    await page.get_by_role("option", name="url").click()
    await expect(page.get_by_text("Documents held out for validation")).to_be_visible()
    await page.goto(f"{ui}/v2/runs/flow-run/{await submitted(page, deployed, 'browsed')}")


async def submitted(page: Page, deployed: Precis, model: str) -> str:
    """Submit the form; the id of the model's run.

    The notice with a link to the run goes before it can be clicked on.
    """
    await page.get_by_role("button", name="Submit").click()
    deadline = time.monotonic() + LONG_S
    with client_of(deployed.api) as api:
        while time.monotonic() < deadline:
            found = api.post("/flow_runs/filter", json={"sort": "ID_DESC"})
            for run in found.raise_for_status().json():
                if run["parameters"].get("model") == model:
                    return str(run["id"])
            await asyncio.sleep(0.2)
    raise AssertionError(f"no run of {model} was created")


async def progress_moves(page: Page) -> None:
    """The run's name says which step it has reached, and goes on saying so."""
    first = page.get_by_text(re.compile(rf"train browsed: step [1-9]\d* of {STEPS}")).first
    await expect(first).to_be_visible(timeout=LONG)
    seen = await first.inner_text()
    await expect(first).not_to_have_text(seen, timeout=LONG)


async def press_retry(page: Page) -> None:
    await page.get_by_role("button", name="Open menu").first.click()
    await page.get_by_role("menuitem", name="Retry").click()
    await page.get_by_role("alertdialog").get_by_role("button", name="Retry").click()


async def read_the_report(page: Page, ui: str) -> None:
    await page.get_by_role("tab", name="Artifacts").click()
    await page.get_by_text("browsed-training").first.click()
    curve = page.get_by_role("img", name="Held-out accuracy, by training step")
    await curve.evaluate("image => image.decode()")  # fails for a picture that can't be drawn
    assert await page.locator("img[src^='data:image/png']").count() == 3
    await expect(page.get_by_text("Most changed summary")).to_be_visible()
