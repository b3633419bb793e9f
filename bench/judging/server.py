"""The judge's server."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bench.judging.model import SENTENCES, model_judge
from precis.llm.server import completions_app
from tests.support.faults import Faults, Latency
from tests.support.faulty import FaultyServer

MODEL = "google/gemini-2.5-flash"
"""The judge's name, which sets its price."""


@dataclass
class Server:
    """A server in another process; its counts are available after the block."""

    url: str
    requests: int = 0
    counts: Counter[str] = field(default_factory=Counter)


@asynccontextmanager
async def served(
    latency: Latency,
    *,
    seed: int = 1,
    in_flight_max: int | None = None,
    sentences: float = SENTENCES,
) -> AsyncIterator[Server]:
    """Run this file while the block lasts."""
    plan = [latency.median_s, latency.p99_s, seed, in_flight_max, sentences]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", __name__, json.dumps(plan)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    server = Server(json.loads(await process.stdout.readline())["url"])
    try:
        yield server
    finally:
        process.stdin.close()
        seen = json.loads(await process.stdout.readline())
        await process.wait()
        server.requests = seen["requests"]
        server.counts = Counter(seen["counts"])


async def _serve(
    median_s: float, p99_s: float, seed: int, in_flight_max: int | None, sentences: float
) -> None:
    """Serve until standard input ends, then print the counts."""
    app = completions_app(model_judge(sentences), lambda: [MODEL])
    faults = Faults.evenly(0.0, seed=seed)
    server = FaultyServer(app, faults, Latency(median_s, p99_s), in_flight_max)
    async with server as url:
        print(json.dumps({"url": url}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps({"requests": server.requests, "counts": server.counts}), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(*json.loads(sys.argv[1])))
