"""Hosted models and a judge with the latencies of real ones, in a process of their own."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random

from starlette.applications import Starlette

from bench.judging.cases import a_third
from precis.environments.summaries.prompt import request_in
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from precis.rehearsal.judges.judge import lexical_judge
from tests.support.faults import Latency
from tests.support.faulty import FaultyServer


def _contender() -> Starlette:
    """Summarizes by sentences of its own choice, so that the judge has each to read."""

    async def complete(request: ChatRequest) -> Completion:
        summary = a_third(request_in(request.messages).text, Random(request.model))
        return Completion(request.model, [Choice(summary, completion_tokens=len(summary) // 4)])

    return completions_app(complete, lambda: [])


def _judge() -> Starlette:
    judge = lexical_judge()

    async def complete(request: ChatRequest) -> Completion:
        return replace(await judge(request), model=request.model)

    return completions_app(complete, lambda: [])


@asynccontextmanager
async def served(latencies: Sequence[Latency]) -> AsyncIterator[list[str]]:
    """The addresses of as many servers: the judge's first, then those of the contenders."""
    plan = [[each.median_s, each.p99_s] for each in latencies]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", __name__, json.dumps(plan)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline())
    finally:
        process.stdin.close()
        await process.wait()


async def _serve(plan: Sequence[tuple[float, float]]) -> None:
    """Serve until standard input ends."""
    apps = [_judge(), *(_contender() for _ in plan[1:])]
    async with AsyncExitStack() as stack:
        urls = []
        for app, each in zip(apps, plan, strict=True):
            urls.append(await stack.enter_async_context(FaultyServer(app, latency=Latency(*each))))
        print(json.dumps(urls), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.argv[1])))
