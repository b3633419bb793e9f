"""10,000 verdicts from a judge that fails a fifth of its requests."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from bench.judging.cases import Case, cases, truth
from bench.judging.claims import CONFIG, require, scored
from bench.judging.server import MODEL, Server, served
from precis.config import RateLimits
from precis.environments.summaries.judge import Endpoint, JudgeClient, Scored, Verdict
from tests.support.faults import Latency

_IN_FLIGHT = 64


def faults(
    verdicts: Annotated[int, typer.Option(help="Summaries to judge.")] = 10_000,
    share: Annotated[float, typer.Option(help="Share of requests that fail.")] = 0.2,
    per_minute: Annotated[int, typer.Option(help="The limit on requests.")] = 7_500,
    seed: int = 1,
) -> None:
    """No fault becomes a score, all that can be scored is, and the rate stays under its limit."""
    limits = RateLimits(
        requests_per_minute=per_minute, tokens_per_minute=10**9, in_flight=_IN_FLIGHT
    )
    patience = {"call_timeout_s": 2.0, "tries_max": 10, "backoff_s": 0.05}
    config = CONFIG.model_copy(update={"limits": limits, **patience})
    some = cases(100, verdicts // 100, seed)

    async def run() -> tuple[list[Verdict], Server, float]:
        async with (
            served(Latency(0.05, 0.25), faults=share, seed=seed) as server,
            JudgeClient(Endpoint(server.url, MODEL, "key"), config) as judge,
        ):
            began = time.perf_counter()
            return await scored(judge, some), server, time.perf_counter() - began

    given, server, wall_s = asyncio.run(run())
    _report_faults(some, given, server, wall_s, per_minute)


def _report_faults(
    some: Sequence[Case], given: Sequence[Verdict], server: Server, wall_s: float, limit: int
) -> None:
    injected = server.counts.total() - server.counts["ok"]
    ruled = [pair for pair in zip(some, given, strict=True) if isinstance(pair[1], Scored)]
    wrong = sum(verdict != truth(case) for case, verdict in ruled)
    causes = Counter(verdict.cause for verdict in given if not isinstance(verdict, Scored))
    print(f"{len(given):,} verdicts in {wall_s:.0f} s, {server.requests:,} requests")
    print(f"faults injected         {injected:,} ({injected / server.requests:.1%})")
    for name, count in sorted(server.counts.items()):
        print(f"  {name:<22}{count:,}")
    print(f"scored                  {len(ruled):,}; unscored {dict(causes)}")
    print(f"scores made by a fault  {wrong}")
    print(f"peak of requests in any 60 s  {server.peak_per_minute:,} (limit {limit:,})")
    require(wrong == 0, "A fault became a score.")
    require(not causes, "A summary that could be scored was not.")
    require(server.peak_per_minute <= limit, "The rate went over its limit.")
