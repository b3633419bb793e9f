"""Prefect's pages in Debian's Chromium, by somebody who has logged in, and how long they take."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from playwright.async_api import CDPSession, Page

from bench.flow.server import Server
from tests.services.browser import chromium_page, log_in

_IS_SHOWN = """([selector, words, count]) => {
    const shown = [...document.querySelectorAll(selector)].filter(one =>
        one.complete !== false && one.checkVisibility() && one.textContent.includes(words));
    return shown.length >= count;
}"""

_WHEN_DRAWN = """() => new Promise(done =>
    requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"""

_FOLLOW_LINK = """path => {
    const clicked = performance.now();
    history.pushState({}, '', path);  // the pages' own router takes it from here
    return clicked;
}"""

_REQUESTS = """clicked => performance.getEntriesByType('resource')
    .filter(one => one.startTime >= clicked)
    .map(one => [one.name, one.startTime, one.responseEnd, one.decodedBodySize])"""

Request = tuple[str, float, float, float]
"""Address, start and end in ms, and bytes of the answer."""


@dataclass(frozen=True)
class Awaited:
    """What one opens a page for: so many of what a CSS selector finds, with these words in them."""

    selector: str
    words: str = ""
    count: int = 1


@dataclass(frozen=True)
class Opening:
    """How long it took until the browser had drawn what was awaited, and what that was made of.

    Attributes:
        files_s: of it, some of the page's own files were under way.
        api_s: of it, answers of the API were.
        scripts_s: of a processor, for the page's scripts.
        layout_s: of a processor, for styles and layout.
        server_s: of a processor, for the server.
        api_kb: the API's answers, unpacked.
    """

    seconds: float
    files_s: float
    api_s: float
    scripts_s: float
    layout_s: float
    server_s: float
    api_kb: float


class Browser:
    """One tab of a browser, which has loaded what all pages share."""

    def __init__(self, server: Server, page: Page, metrics: CDPSession) -> None:
        self._server = server
        self._page = page
        self._metrics = metrics

    async def open(self, path: str, awaited: Awaited) -> Opening:
        """As from a bookmark: Prefect's whole application starts anew."""
        await self._page.goto("about:blank")
        before = await self._spent()
        await self._page.goto(self._server.ui + path, wait_until="commit")
        return await self._drawn(awaited, 0, before)

    async def follow(self, path: str, awaited: Awaited) -> Opening:
        """By a link of a page that is there already, but has loaded nothing of what is awaited."""
        await self.open("/v2/settings", Awaited("body", "Theme"))
        await self._page.wait_for_load_state("networkidle")
        before = await self._spent()
        clicked = await self._page.evaluate(_FOLLOW_LINK, path)
        return await self._drawn(awaited, clicked, before)

    async def _drawn(
        self, awaited: Awaited, clicked: float, before: tuple[float, float, float]
    ) -> Opening:
        looked_for = [awaited.selector, awaited.words, awaited.count]
        await self._page.wait_for_function(_IS_SHOWN, arg=looked_for, polling="raf")
        end = await self._page.evaluate(_WHEN_DRAWN)
        after = await self._spent()
        requests = await self._page.evaluate(_REQUESTS, clicked)
        api = [one for one in requests if "/api/" in one[0]]
        files = [one for one in requests if "/api/" not in one[0]]
        return Opening(
            seconds=(end - clicked) / 1000,
            files_s=_under_way(files, end),
            api_s=_under_way(api, end),
            scripts_s=after[0] - before[0],
            layout_s=after[1] - before[1],
            server_s=after[2] - before[2],
            api_kb=sum(one[3] for one in api) / 1000,
        )

    async def _spent(self) -> tuple[float, float, float]:
        """Seconds of a processor so far: scripts, styles and layout, and the server."""
        found = await self._metrics.send("Performance.getMetrics")
        spent = {one["name"]: one["value"] for one in found["metrics"]}
        layout = spent["LayoutDuration"] + spent["RecalcStyleDuration"]
        return spent["ScriptDuration"], layout, self._server.cpu_s


@asynccontextmanager
async def browser_of(server: Server) -> AsyncIterator[Browser]:
    """A browser of somebody who has logged in."""
    async with chromium_page(every_frame=True) as page:
        await log_in(page, server.ui, server.environment["PREFECT_API_AUTH_STRING"])
        metrics = await page.context.new_cdp_session(page)
        # Time of a processor, which a busy machine changes little.
        await metrics.send("Performance.enable", {"timeDomain": "threadTicks"})
        yield Browser(server, page, metrics)


def _under_way(requests: Iterable[Request], end: float) -> float:
    """Seconds until `end` in which at least one of the requests was under way."""
    total = 0.0
    until = 0.0
    for _, start, answered, _ in sorted(requests, key=lambda one: one[1]):
        answered = min(answered or end, end)  # one that has no answer yet has no end
        total += max(0.0, answered - max(start, until))
        until = max(until, answered)
    return total / 1000
