"""Debian's Chromium, driven by Playwright, and what tests ask of a page."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, async_playwright, expect

from tests.services.needs import need
from tests.services.patience import patience_s

SCREENSHOTS = Path(__file__).parents[2] / "artifacts" / "screenshots"

_FIVE_FRAMES_A_SECOND = """
window.requestAnimationFrame = draw => setTimeout(() => draw(performance.now()), 200);
window.cancelAnimationFrame = clearTimeout;
"""
"""The graph of a run that goes is drawn anew for each frame, by a processor where no GPU is."""


def chromium() -> dict[str, Any]:
    """How Playwright starts Debian's Chromium, which refuses its sandbox to root."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    timeout = patience_s() * 1000
    return {"executable_path": need("chromium", "chromium"), "args": arguments, "timeout": timeout}


@asynccontextmanager
async def chromium_page() -> AsyncIterator[Page]:
    """A page of a fresh browser, 1280 by 900, which is told of five frames a second."""
    started = chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**started)
        # Without a GPU, a processor would draw every frame of what turns or fades.
        page = await browser.new_page(
            viewport={"width": 1280, "height": 900}, reduced_motion="reduce"
        )
        await page.add_init_script(_FIVE_FRAMES_A_SECOND)
        page.set_default_timeout(patience_s() * 1000)
        expect.set_options(timeout=patience_s() * 1000)
        try:
            yield page
        except BaseException:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=SCREENSHOTS / "when-it-failed.png")
            raise
        finally:
            await browser.close()


async def log_in(page: Page, ui: str, password: str) -> None:
    """Give Prefect's pages the password that their server asks for."""
    await page.goto(f"{ui}/v2/login")
    await page.get_by_placeholder("admin:pass").fill(password)
    await page.get_by_role("button", name="Login").click()
    await page.wait_for_url(lambda url: "/login" not in url)
