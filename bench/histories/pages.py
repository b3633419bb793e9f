"""How long Prefect's pages take where a server holds very many runs of ours, and why."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.flow.pages import Awaited, Browser, Opening, browser_of
from bench.flow.server import Server, server
from bench.histories.flow_runs import MODEL, copy_runs, run_flow
from bench.histories.timing import LIMIT_S
from tests.services.prefect_api import client_of

_COLUMNS = ("seconds", "files", "API", "scripts", "layout", "server", "API, kB")

Page = tuple[str, Awaited]
"""Where it is, and what one opens it for."""


def pages(
    count: Annotated[int, typer.Option(help="Runs on the server.")] = 1000,
    steps: Annotated[int, typer.Option(help="Steps of each.")] = 30,
    days: Annotated[float, typer.Option(help="Over how many days they lie.")] = 7,
    rounds: Annotated[int, typer.Option(help="How often each page is opened.")] = 5,
    database: Annotated[str, typer.Option(help="`sqlite` or `postgres`.")] = "sqlite",
) -> None:
    """Open the pages of a server with one run of training, and of one with many, in turns.

    A page is opened as from a bookmark, whereupon all of Prefect's application starts anew, and
    by a link of a page that is there already. Parts of the seconds overlap.
    """
    with server(database) as few, server(database) as many:
        with ThreadPoolExecutor() as both:
            list(both.map(run_flow, (few, many), (steps, steps)))
        copy_runs(many, count - 1, days)
        load = os.getloadavg()[0]
        taken = asyncio.run(_open_all((few, many), rounds))
    for way, openings in taken.items():
        table = Table(title=f"pages {way}: with 1 run, and with {count:,}", caption=database)
        table.add_column("page")
        for name in _COLUMNS:
            table.add_column(name, justify="right")
        for page, (small, large) in openings.items():
            table.add_row(page, *map(_both, _medians(small), _medians(large)))
        Console().print(table)
    print(f"load before: {load:.1f}")
    slow = [
        f"{page} {way}"
        for way, openings in taken.items()
        for page, (_, large) in openings.items()
        if median(one.seconds for one in large) > LIMIT_S
    ]
    if slow:
        raise SystemExit(f"Over {LIMIT_S:g} s: {'; '.join(slow)}.")


def _both(small: float, large: float) -> str:
    digits = 2 if large < 10 else 0
    return f"{small:,.{digits}f} → {large:,.{digits}f}"


def _medians(openings: Sequence[Opening]) -> list[float]:
    return [median(column) for column in zip(*map(astuple, openings), strict=True)]


async def _open_all(
    servers: Sequence[Server], rounds: int
) -> dict[str, dict[str, list[list[Opening]]]]:
    """Of each way and page the openings on each server; the first round only warms up."""
    taken: dict[str, dict[str, list[list[Opening]]]] = {}
    async with AsyncExitStack() as stack:
        browsers = [await stack.enter_async_context(browser_of(up)) for up in servers]
        looked_at = [_pages(up) for up in servers]
        for number in range(rounds + 1):
            for name in looked_at[0]:
                for place, browser in enumerate(browsers):
                    for way, opening in await _both_ways(browser, *looked_at[place][name]):
                        of_page = taken.setdefault(way, {}).setdefault(name, [[] for _ in servers])
                        of_page[place] += [opening] if number else []
    return taken


async def _both_ways(
    browser: Browser, path: str, awaited: Awaited
) -> Sequence[tuple[str, Opening]]:
    return (
        ("from a bookmark", await browser.open(path, awaited)),
        ("by a link", await browser.follow(path, awaited)),
    )


def _pages(up: Server) -> Mapping[str, Page]:
    """The pages, by name; those of one run are the newest run's."""
    with client_of(up.api, auth=up.auth) as api:
        keys = [f"{MODEL}-{kind}" for kind in ("training", "benchmark")]
        query = {"artifacts": {"key": {"any_": keys}}}
        found = api.post("/artifacts/filter", json=query).raise_for_status().json()
    training, benchmark = sorted(found, key=lambda one: keys.index(one["key"]))
    runs = Awaited('a[href*="/flow-run/"]', "summarizer-")
    run = f"/v2/runs/flow-run/{training['flow_run_id']}"
    artifact = "/v2/artifacts/artifact"
    return {
        "dashboard": ("/v2/dashboard", Awaited("body", "Completed")),
        "all runs": ("/v2/runs", runs),
        "those of given days": (f"/v2/runs?{_given_days()}", runs),
        "the newest run": (run, Awaited("canvas")),
        "its artifacts": (f"{run}?tab=Artifacts", Awaited(f'a[href*="{MODEL}-training"]')),
        "report on training": (f"{artifact}/{training['id']}", Awaited("img", count=3)),
        "report of benchmark": (f"{artifact}/{benchmark['id']}", Awaited("img")),
        "all artifacts": ("/v2/artifacts", Awaited('a[href*="summarizer-"]')),
    }


def _given_days() -> str:
    """The last week as a filter of that page whose end, unlike its usual filter's, stands still."""
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    start, end = (f"{day}T00:00:00.000Z" for day in (tomorrow - timedelta(days=8), tomorrow))
    return f"start={start}&end={end}"
