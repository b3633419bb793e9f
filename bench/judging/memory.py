"""Memory and file descriptors of a process that gathers a large step."""

import asyncio
import os
import time
from pathlib import Path
from typing import Annotated

import openai
import prefect  # noqa: F401  (the flow's process has it in it)
import typer

from bench.judging.claims import CONFIG, require
from bench.judging.server import MODEL, POLICY, served
from precis.config import DocumentsConfig, RateLimits, RolloutsConfig
from precis.environments.recorder import Recorder
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.judge import Endpoint, JudgeClient
from precis.environments.summaries.services import Services
from precis.records.documents import Corpus, Document, read_documents
from precis.records.rollout import Score
from precis.rollouts.sample import adapter_policy, sample_groups, sampled
from tests.support.faults import Latency

_IN_FLIGHT = 64
_MIB_MAX = 600
_MIB_GROWTH_MAX = 20
"""It holds 285 MiB before the first rollout, and 488 after five steps."""
_DESCRIPTORS = 16
"""What a process may have open besides its connections."""

Footprint = tuple[float, int]
"""Resident MiB, and open file descriptors."""


def memory(
    groups: Annotated[int, typer.Option(help="Groups of a step, of 8 rollouts each.")] = 125,
    steps: Annotated[int, typer.Option(help="How often to repeat it.")] = 5,
) -> None:
    """Memory and file descriptors of a process that gathers 1,000 rollouts in one step."""
    documents = read_documents(DocumentsConfig())[:groups]
    rollouts = RolloutsConfig()
    print(f"{groups * rollouts.rollouts_per_group:,} rollouts a step, generated and judged")
    rows = asyncio.run(_gathered(documents, rollouts, steps))
    require(max(mib for mib, _ in rows) < _MIB_MAX, f"The process took {_MIB_MAX} MiB or more.")
    require(rows[-1][0] - rows[2][0] < _MIB_GROWTH_MAX, "Memory grew with the steps.")
    connections = rollouts.in_flight + _IN_FLIGHT
    require(
        max(descriptors for _, descriptors in rows) <= rows[0][1] + connections + _DESCRIPTORS,
        "There are more file descriptors than requests that can be under way.",
    )


async def _gathered(
    documents: list[Document], rollouts: RolloutsConfig, steps: int
) -> list[Footprint]:
    limits = RateLimits(requests_per_minute=10**6, tokens_per_minute=10**9, in_flight=_IN_FLIGHT)
    config = CONFIG.model_copy(update={"limits": limits})
    async with (
        served(Latency(0.02, 0.1)) as server,
        openai.AsyncOpenAI(base_url=server.url, api_key="key", max_retries=0) as policy,
        JudgeClient(Endpoint(server.url, MODEL, "key"), config) as judge,
        Recorder() as recorder,
    ):
        environment = Summaries(Corpus(tuple(documents), ()), rollouts, Services(judge))
        scenarios = environment.scenarios("train")
        footprints = [_shown("start", 0.0)]
        for step in range(1, steps + 1):
            began = time.perf_counter()
            async with adapter_policy(policy, POLICY, step, rollouts) as greedy:
                asked = sampled(greedy, 1, step, rollouts.temperature, trained=False)
                groups = await sample_groups(recorder, asked, environment, scenarios, rollouts)
            assert all(isinstance(one.score, Score) for group in groups for one in group)
            footprints.append(_shown(f"step {step}", time.perf_counter() - began))
            del groups  # or two steps would be held at once
        return footprints


def _shown(when: str, wall_s: float) -> Footprint:
    """Resident memory in MiB, and open file descriptors, of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    mib = pages * os.sysconf("SC_PAGESIZE") / 2**20
    descriptors = len(os.listdir("/proc/self/fd"))
    print(f"{when:<8}{mib:>6.0f} MiB{descriptors:>6} file descriptors{wall_s:>7.1f} s", flush=True)
    return mib, descriptors
