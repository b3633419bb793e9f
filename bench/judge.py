"""The cost of judging a step: the notebook's protocol against ours.

    python bench/judge.py

It judges summaries of the bundled corpus with a simulated model (`bench/judging/model.py`), which
answers as late as Gemini does. Both are deterministic, so that verdicts can be compared one by one.
It fails if the two protocols give different verdicts, or ours saves less than we claim.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Annotated

import typer

from bench.judging.cases import Case, cases
from bench.judging.model import SENTENCES
from bench.judging.notebook import Notebook
from bench.judging.server import MODEL, Server, served
from precis.config import JudgeConfig
from precis.environments.summaries.judge import Endpoint, JudgeClient, Verdict
from precis.records.spend import Spend

_IN_FLIGHT_MAX = 64
_REQUESTS_RATIO = 12
_WALL_RATIO = 10
_CONFIG = JudgeConfig(provider="url", base_url="http://127.0.0.1/v1", model=MODEL)


@dataclass(frozen=True)
class Step:
    """The judging of one training step."""

    requests: int
    wall_s: float
    spend: Spend
    verdicts: list[Verdict]


async def notebook_step(server: Server, step: Sequence[Case]) -> Step:
    """Judge a step's summaries as the notebook does."""
    judge = Notebook(server.url)
    began = time.perf_counter()
    verdicts = await asyncio.gather(*(judge.score(case) for case in step))
    wall_s = time.perf_counter() - began
    await judge.close()
    return Step(judge.spend.calls, wall_s, judge.spend, list(verdicts))


async def our_step(judge: JudgeClient, step: Sequence[Case]) -> Step:
    """Judge a step's summaries with `JudgeClient`."""
    before = judge.spend
    began = time.perf_counter()
    asked = [judge.score(case.document, case.summary) for case in step]
    verdicts = list(await asyncio.gather(*asked))
    wall_s = time.perf_counter() - began
    spend = judge.spend.since(before)
    return Step(spend.calls + spend.given_up, wall_s, spend, verdicts)


def main(
    groups: Annotated[int, typer.Option(help="Groups of a step.")] = 5,
    rollouts: Annotated[int, typer.Option(help="Rollouts of a group.")] = 4,
    steps: Annotated[int, typer.Option(help="Steps of a run, which one client judges.")] = 3,
    runs: Annotated[int, typer.Option(help="Runs, each with its own summaries and times.")] = 4,
    hedge_quantile: Annotated[float, typer.Option(help="The setting; 0 asks nothing twice.")] = (
        _CONFIG.hedge_quantile
    ),
    sentences: Annotated[
        float, typer.Option(help="Share of given answers that are a sentence, and so graded.")
    ] = SENTENCES,
) -> None:
    """Print requests, wall time and dollars of a step, for the notebook's protocol and ours."""
    config = _CONFIG.model_copy(update={"hedge_quantile": hedge_quantile})

    async def run(seed: int) -> tuple[list[Step], list[Step]]:
        work = [cases(groups, rollouts, 100 * seed + step) for step in range(steps)]
        # The two protocols run one after the other. The notebook's steps run in parallel: they
        # mostly wait.
        async with served(seed, sentences) as server:
            theirs = await asyncio.gather(*(notebook_step(server, step) for step in work))
        async with (
            served(seed, sentences, _IN_FLIGHT_MAX) as server,
            JudgeClient(Endpoint(server.url, MODEL, "key"), config) as judge,
        ):
            ours = [await our_step(judge, step) for step in work]
        _require(not server.refused, "Too many requests were under way at once.")
        _require(
            server.requests <= sum(step.requests for step in ours),
            "The server saw more requests than the client counted.",
        )
        return list(theirs), ours

    print(f"{groups * rollouts} summaries a step {'notebook':>20}{'ours':>10}{'ratio':>9}")
    pairs = []
    for seed in range(1, runs + 1):
        theirs, ours = asyncio.run(run(seed))
        _row(f"run {seed}: wall_s", [one.wall_s for one in theirs], [one.wall_s for one in ours])
        pairs += list(zip(theirs, ours, strict=True))
    _summarized(pairs)


def _summarized(pairs: Sequence[tuple[Step, Step]]) -> None:
    theirs, ours = zip(*pairs, strict=True)
    requests = _row("requests", [one.requests for one in theirs], [one.requests for one in ours])
    _row("  of them abandoned", [0], [one.spend.given_up for one in ours])
    wall = _row("wall_s", [one.wall_s for one in theirs], [one.wall_s for one in ours])
    _row("usd", [one.spend.usd for one in theirs], [one.spend.usd for one in ours])
    different = sum(
        verdict != other
        for their, our in pairs
        for verdict, other in zip(their.verdicts, our.verdicts, strict=True)
    )
    asked = sum(len(one.verdicts) for one in ours)
    print(f"different verdicts: {different} of {asked:,}")
    _require(different == 0, "The two protocols gave different verdicts.")
    _require(requests >= _REQUESTS_RATIO, f"Fewer requests, but not {_REQUESTS_RATIO} times.")
    _require(wall >= _WALL_RATIO, f"Less wall time, but not {_WALL_RATIO} times.")


def _row(name: str, theirs: Sequence[float], ours: Sequence[float]) -> float:
    their = mean(theirs)
    our = mean(ours)
    ratio = their / our if our else float("inf")
    print(f"{name:<22}{their:>17.4g}{our:>10.4g}{f'{ratio:.1f}x':>9}", flush=True)
    return ratio


def _require(holds: bool, sentence: str) -> None:
    """Exit with a sentence and status 1 unless a claim holds."""
    if not holds:
        print(sentence, file=sys.stderr)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
