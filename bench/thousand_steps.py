"""A thousand instant steps: what they cost the server, and whether the pages stay usable.

    python bench/thousand_steps.py [--steps 1000]

A real run of the flow with the smallest steps there are, against a server of its own on SQLite,
then its pages in Debian's Chromium. It fails where the report is over 500 kB, where the graph has
over 10,000 nodes (Prefect then draws none), or where a page takes over ten seconds.
"""

import asyncio
import subprocess
import sys
import time
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from bench.flow.pages import Awaited, browser_of
from bench.flow.server import Server, server
from bench.overhead import instant

REPORT_KB = 500
NODES = 10_000
PAGE_S = 10
_RECORDED_S = 10


def thousand(steps: Annotated[int, typer.Option(help="Steps to run.")] = 1000) -> None:
    """Run the steps, look at the pages, and print what was found."""
    table = Table("", "", title=f"{steps:,} instant steps")
    wrong = []
    with server("sqlite") as up:
        fresh_mb = up.memory_mb
        seconds, peak_mb = _run(up, steps)
        time.sleep(_RECORDED_S)  # the server records task runs and events in the background
        found = _recorded(up)
        pages = asyncio.run(_pages(up, found["run"], found["report"]))
        table.add_row("time", f"{seconds:.0f} s, {1000 * seconds / steps:.0f} ms a step")
        table.add_row("server's memory", f"{fresh_mb:.0f} MB fresh, {peak_mb:.0f} MB at most")
        table.add_row("database", f"{up.database_mb:.0f} MB")
    for name, value, unit, limit in (
        ("report", found["report_kb"], "kB", REPORT_KB),
        ("nodes in the graph", found["nodes"], "", NODES),
        ("log lines", found["logs"], "", 10 * steps),
        *((name, taken, "s", PAGE_S) for name, taken in pages.items()),
    ):
        table.add_row(name, f"{value:,.1f} {unit}" if unit == "s" else f"{value:,.0f} {unit}")
        wrong += [f"{name}: more than {limit:,} {unit}"] if value > limit else []
    Console().print(table)
    if wrong:
        raise SystemExit("; ".join(wrong))


def _run(up: Server, steps: int) -> tuple[float, float]:
    """Run the flow; its seconds and the most memory that the server had meanwhile, in MB."""
    config = instant(steps, f"{up.environment['PRECIS_HOME']}/store").model_dump_json()
    start = time.monotonic()
    peak = up.memory_mb
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.flow.stepping", "flow", config, "0"],
        env=up.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None:
        peak = max(peak, up.memory_mb)
        time.sleep(1)
    if process.returncode:
        raise SystemExit("The run failed; see the logs in Prefect.")
    return time.monotonic() - start, peak


def _recorded(up: Server) -> dict[str, Any]:
    """What the server holds of the run."""
    with httpx.Client(base_url=up.api, auth=up.auth, timeout=60) as api:
        (run,) = api.post("/flow_runs/filter", json={}).json()
        body = {"flow_runs": {"id": {"any_": [run["id"]]}}}
        artifacts = api.post("/artifacts/filter", json=body).json()
        (report,) = [one for one in artifacts if one["type"] == "markdown"]
        return {
            "run": run["id"],
            "report": report["id"],
            "report_kb": len(report["data"].encode()) / 1000,
            "nodes": api.post("/task_runs/count", json=body).json(),
            "logs": _count_logs(api, run["id"]),
        }


def _count_logs(api: httpx.Client, run: str) -> int:
    count = 0
    page = 200
    while page == 200:
        body = {"logs": {"flow_run_id": {"any_": [run]}}, "limit": 200, "offset": count}
        page = len(api.post("/logs/filter", json=body).json())
        count += page
    return count


async def _pages(up: Server, run: str, report: str) -> dict[str, float]:
    """Seconds from a bookmark to what one came for: the run's graph, then the report's pictures."""
    async with browser_of(up) as browser:
        graph = await browser.open(f"/v2/runs/flow-run/{run}", Awaited("canvas"))
        pictures = await browser.open(f"/v2/artifacts/artifact/{report}", Awaited("img", count=3))
    return {"run page": graph.seconds, "report page": pictures.seconds}


if __name__ == "__main__":
    typer.run(thousand)
