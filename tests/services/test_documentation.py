"""The documentation, opened as a file: it is read and searched without a server or a network."""

import os
import subprocess
import sys
from pathlib import Path

from tests.services.browser import chromium_page
from tests.services.conftest import ROOT
from tests.services.patience import patience_s


async def test_the_documentation_can_be_searched_as_a_file(tmp_path: Path) -> None:
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
        timeout=patience_s(),
    )
    elsewhere: list[str] = []
    async with chromium_page() as page:
        page.on("request", lambda request: elsewhere.append(request.url))
        await page.goto((site / "index.html").as_uri())
        box = page.get_by_role("textbox", name="Search")
        await box.press_sequentially("take_over")  # `fill` presses no key, which the page waits for
        found = page.locator(".md-search-result__item", has_text="take_over").first
        await found.wait_for()
        await found.get_by_role("link").first.click()
        await page.wait_for_url(lambda url: url.startswith("file:") and "index.html" not in url)
    assert [url for url in elsewhere if url.startswith("http")] == []
