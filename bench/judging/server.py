"""The judge's server, and a policy beside it."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

from starlette.applications import Starlette

from bench.judging.cases import a_third
from bench.judging.model import SENTENCES, model_judge
from precis.environments.summaries.prompt import request_in
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from tests.support.faults import Faults, Latency
from tests.support.faulty import FaultyServer

MODEL = "google/gemini-2.5-flash"
"""The name, and so the price, that the judge goes by here."""
POLICY = "policy"
"""A model that summarizes by a random third of the sentences, and gives a logprob a word."""


def app(sentences: float) -> Starlette:
    """The judge and the policy."""
    judge = model_judge(sentences)

    async def complete(request: ChatRequest) -> Completion:
        if request.model == POLICY:
            return _summarized(request)
        return await judge(request)

    return completions_app(complete, lambda: [MODEL, POLICY])


def _summarized(request: ChatRequest) -> Completion:
    summary = a_third(request_in(request.messages).text, Random(request.seed))
    logprobs = []
    for word in summary.split():
        logprobs.append(
            {"token": word, "logprob": -0.5, "bytes": list(word.encode()), "top_logprobs": []}
        )
    return Completion(POLICY, [Choice(summary, logprobs=logprobs)])


@dataclass
class Server:
    """A server in a process of its own; what it saw is there after the block."""

    url: str
    requests: int = 0
    peak_per_minute: int = 0
    counts: Counter[str] = field(default_factory=Counter)


@asynccontextmanager
async def served(
    latency: Latency,
    *,
    faults: float = 0.0,
    seed: int = 1,
    in_flight_max: int | None = None,
    sentences: float = SENTENCES,
) -> AsyncIterator[Server]:
    """Run this file while the block lasts."""
    plan = [latency.median_s, latency.p99_s, faults, seed, in_flight_max, sentences]
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
        server.peak_per_minute = seen["peak"]
        server.counts = Counter(seen["counts"])


async def _serve(
    median_s: float,
    p99_s: float,
    faults: float,
    seed: int,
    in_flight_max: int | None,
    sentences: float,
) -> None:
    """Serve until standard input ends, then say what came."""
    plan = Faults.evenly(faults, seed=seed, retry_after_s=0.05, slow_s=5.0, drip_s=0.05)
    server = FaultyServer(app(sentences), plan, Latency(median_s, p99_s), in_flight_max)
    async with server as url:
        print(json.dumps({"url": url}), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    seen = {"requests": server.requests, "peak": server.peak(60), "counts": server.counts}
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(*json.loads(sys.argv[1])))
