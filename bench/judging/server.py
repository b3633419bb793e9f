"""The judge's server."""

import asyncio
import json
import math
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

from bench.judging.model import model_judge
from precis.llm.loop_server import LoopServer
from precis.llm.server import ApiError, ChatRequest, Complete, Completion, completions_app

MODEL = "google/gemini-2.5-flash"
"""The judge's name, which sets its price."""
_MEDIAN_S = 0.8
_P99_S = 4.0
_SIGMA = math.log(_P99_S / _MEDIAN_S) / NormalDist().inv_cdf(0.99)


@dataclass
class Server:
    """A server in another process; its counts are available after the block."""

    url: str
    requests: int = 0
    refused: int = 0


class Slow:
    """Answers as late as Gemini does, and refuses what is beyond a limit.

    Latencies are log-normal, and drawn from the request, how often it was seen, and a seed: the
    order in which concurrent requests arrive changes none.

    Attributes:
        requests: the number of all requests.
        refused: the number of those beyond the limit.
        ends: set once nobody waits for an answer any more.
    """

    def __init__(self, judge: Complete, seed: int, in_flight_max: int | None) -> None:
        self._judge = judge
        self._seed = seed
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        self._seen: Counter[str] = Counter()
        self.requests = 0
        self.refused = 0
        self.ends = asyncio.Event()

    async def __call__(self, request: ChatRequest) -> Completion:
        self.requests += 1
        if self._in_flight_max is not None and self._in_flight >= self._in_flight_max:
            self.refused += 1
            raise ApiError(429, "Too many requests are under way.", "rate_limit")
        sent = request.model_dump_json()
        self._seen[sent] += 1
        draw = Random(f"{self._seed}:{self._seen[sent]}:{sent}")
        self._in_flight += 1
        try:
            with suppress(TimeoutError):
                latency_s = _MEDIAN_S * math.exp(draw.gauss(0, _SIGMA))
                await asyncio.wait_for(self.ends.wait(), latency_s)
            return await self._judge(request)
        finally:
            self._in_flight -= 1


@asynccontextmanager
async def served(
    seed: int, sentences: float, in_flight_max: int | None = None
) -> AsyncIterator[Server]:
    """Run this file while the block lasts."""
    plan = [seed, sentences, in_flight_max]
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
        server.refused = seen["refused"]


async def _serve(seed: int, sentences: float, in_flight_max: int | None) -> None:
    """Serve until standard input ends, then print the counts."""
    judge = Slow(model_judge(sentences), seed, in_flight_max)
    server = LoopServer(completions_app(judge, lambda: [MODEL]))
    await server.start()
    print(json.dumps({"url": f"http://127.0.0.1:{server.port}/v1"}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    judge.ends.set()
    await server.stop()
    print(json.dumps({"requests": judge.requests, "refused": judge.refused}), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(*json.loads(sys.argv[1])))
