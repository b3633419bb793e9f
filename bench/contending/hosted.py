"""Six hosted contenders at once: no slower than the slowest of them alone has to be."""

import asyncio
import math
import time
from collections import Counter
from contextlib import AsyncExitStack
from functools import partial
from statistics import NormalDist
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from bench.contending.server import served
from bench.judging.claims import require
from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import hosted_contender
from precis.benchmark.measure import Attempt, measure
from precis.config import (
    ContenderConfig,
    DocumentsConfig,
    JudgeConfig,
    RateLimits,
    RolloutsConfig,
)
from precis.environments.recorder import Recorder
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.judge import Endpoint, JudgeClient
from precis.environments.summaries.judge.kept import KeptVerdicts
from precis.environments.summaries.services import Services
from precis.llm.budget import Budget
from precis.llm.concurrency import run_together
from precis.records.documents import Corpus, load_corpus
from precis.store import open_store
from precis.store.kept import KeptRecords
from tests.support.faults import Latency

JUDGE = Latency(0.4, 1.5)
CONTENDERS = {
    "quick": Latency(0.8, 2.0),
    "usual": Latency(1.2, 3.0),
    "wordy": Latency(1.6, 4.0),
    "heavy": Latency(2.0, 5.0),
    "thoughtful": Latency(3.0, 8.0),
    "slowest": Latency(4.0, 10.0),
}
RATIO_MAX = 1.3


def hosted(
    documents: Annotated[int, typer.Option(help="Held-out documents.")] = 91,
    in_flight: Annotated[int, typer.Option(help="Requests at a time that each allows.")] = 16,
) -> None:
    """91 documents by six contenders, each with limits of its own, and one judge for all."""
    corpus = load_corpus(DocumentsConfig(source="bundled", train_size=1, val_size=documents))
    with TemporaryDirectory() as folder:
        found, wall_s = asyncio.run(_measured(corpus, in_flight, folder))
    ideals = {}
    for name, latency in CONTENDERS.items():
        ideals[name] = _mean_s(latency) * documents / in_flight
    for name, outcomes in found.items():
        scored = sum(one.rollout.reward is not None for one in outcomes)
        print(f"{name:<12}{scored} of {documents} scored; ideal {ideals[name]:.1f} s")
    slowest = max(ideals.values())
    causes = _causes(found)
    print(f"wall time   {wall_s:.1f} s: {wall_s / slowest:.2f} × the slowest contender's ideal")
    print(f"one by one  {sum(ideals.values()):.1f} s at best")
    require(not causes, f"A summary was not scored: {dict(causes)}.")
    require(wall_s <= RATIO_MAX * slowest, f"More than {RATIO_MAX} times the slowest's ideal.")


async def _measured(
    corpus: Corpus, in_flight: int, folder: str
) -> tuple[dict[str, list[Attempt]], float]:
    limits = RateLimits(requests_per_minute=10**6, tokens_per_minute=10**9, in_flight=64)
    judge_config = JudgeConfig(provider="url", base_url="http://x", model="m", limits=limits)
    own = limits.model_copy(update={"in_flight": in_flight})
    async with AsyncExitStack() as stack:
        judge_url, *urls = await stack.enter_async_context(served([JUDGE, *CONTENDERS.values()]))
        client = JudgeClient(Endpoint(judge_url, "m", "key"), judge_config)
        judge = await stack.enter_async_context(client)
        recorder = await stack.enter_async_context(Recorder())
        kept = KeptRecords(open_store(folder))
        stack.callback(kept.close)
        await kept.open()
        budget = Budget(None)
        rollouts = RolloutsConfig()
        verdicts = KeptVerdicts(judge, judge_config, rollouts.words_max, kept, budget)
        environment = Summaries(corpus, rollouts, Services(judge), verdicts=verdicts)
        contenders = []
        for name, url in zip(CONTENDERS, urls, strict=True):
            config = ContenderConfig(model=name, provider="url", base_url=url, limits=own)
            spec = hosted_contender(config, {"CONTENDER_API_KEY": "key"})
            contender = ContenderClient(spec, rollouts, budget, kept)
            contenders.append(await stack.enter_async_context(contender))
        held_out = environment.scenarios("validation")
        began = time.perf_counter()
        rows = await run_together(
            [partial(measure, recorder, one, environment, held_out) for one in contenders]
        )
        return dict(zip(CONTENDERS, rows, strict=True)), time.perf_counter() - began


def _mean_s(latency: Latency) -> float:
    """The mean of the log-normal distribution that has this median and 99th percentile."""
    sigma = math.log(latency.p99_s / latency.median_s) / NormalDist().inv_cdf(0.99)
    return latency.median_s * math.exp(sigma**2 / 2)


def _causes(found: dict[str, list[Attempt]]) -> Counter[str]:
    everyone = [one.rollout for attempts in found.values() for one in attempts]
    return Counter(one.score.cause for one in everyone if one.score.cause)
