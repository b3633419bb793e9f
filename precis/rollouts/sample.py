"""The scenarios of a step, and their rollouts, sampled from an adapter through the recorder.

The scenarios of a step are a pure function of the run's seed and the step.
"""

import asyncio
import hashlib
import random
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from itertools import chain

from precis.config import RolloutsConfig
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.environments.session import Limits, Policy
from precis.llm.client import ChatClient, OwnServer
from precis.llm.concurrency import run_for_each
from precis.llm.limits import without_quota
from precis.llm.providers import Endpoint
from precis.llm.retry import OWN_CALL_TIMEOUT_S
from precis.records.rollout import Rollout, Scenario
from precis.rollouts.filter import ZERO_VARIANCE, refuse_too_many_unscored, why_dropped


def draw_batch(drawn: Sequence[Scenario], seed: int, step: int, size: int) -> tuple[Scenario, ...]:
    """Return the scenarios of a step. Each epoch takes all of them in its own order."""
    orders: dict[int, list[int]] = {}
    batch = []
    for position in range(step * size, (step + 1) * size):
        epoch, place = divmod(position, len(drawn))
        if epoch not in orders:
            orders[epoch] = list(range(len(drawn)))
            random.Random(f"{seed}/{epoch}").shuffle(orders[epoch])
        batch.append(drawn[orders[epoch][place]])
    return tuple(batch)


def draw_spares(
    drawn: Sequence[Scenario], seed: int, step: int, size: int, count: int
) -> tuple[Scenario, ...]:
    """Return up to `count` scenarios beside a step's batch, drawn from all others: the following
    ones would be in the next step too."""
    batch = {one.id for one in draw_batch(drawn, seed, step, size)}
    others = [one for one in drawn if one.id not in batch]
    return tuple(random.Random(f"{seed}/spares/{step}").sample(others, min(count, len(others))))


@asynccontextmanager
async def adapter_policy(
    endpoint: Endpoint, adapter: int, config: RolloutsConfig
) -> AsyncIterator[Policy]:
    """Yield the greedy policy of an adapter, and close its connections after the block. Its retries
    are those of a benchmark of the same checkpoint."""
    settings = OwnServer(without_quota(config.in_flight), OWN_CALL_TIMEOUT_S)
    limits = Limits(config.timeout_s, config.turns_max, config.tokens_max)
    async with ChatClient(endpoint, settings, prices={}) as asked:
        yield Policy(asked, limits, parameters={"temperature": 0.0}, step=adapter)


def sampled(
    policy: Policy, seed: int, step: int, temperature: float, trained: bool = True
) -> Policy:
    """Return the policy with a step's sampling, the same for a repeated step; for training, each
    answer must have its token ids."""
    return replace(
        policy,
        parameters={"temperature": temperature, "logprobs": True},
        seed_of=partial(sample_seed, seed, step),
        trained=trained,
    )


async def sample_groups(
    recorder: Recorder,
    policy: Policy,
    environment: Environment,
    scenarios: Sequence[Scenario],
    config: RolloutsConfig,
    spares: Sequence[Scenario] = (),
) -> list[list[Rollout]]:
    """Sample all rollouts of a step, at most `in_flight` at a time; return a list for each
    scenario. For each group without variance the next spare is sampled too, in order of completion.
    Raises if too many went unscored (`refuse_too_many_unscored`)."""
    slots = asyncio.Semaphore(config.in_flight)

    async def roll_out(scenario: Scenario, index: int) -> Rollout:
        async with slots:
            return await recorder.run(policy, environment, scenario, index)

    drawn = [*scenarios, *spares]

    async def roll_out_group(place: int) -> list[Rollout]:
        scenario = drawn[place]
        # Between two epochs a scenario may be drawn twice: the second time it gets other seeds than
        # the first.
        size = config.rollouts_per_group
        first = size * sum(one.id == scenario.id for one in drawn[:place])
        group = await run_for_each(partial(roll_out, scenario), range(first, first + size))
        return list(await environment.rank(group))

    unused = deque(range(len(scenarios), len(drawn)))
    groups: dict[int, list[Rollout]] = {}

    async def roll_out_until_varied(place: int) -> None:
        groups[place] = await roll_out_group(place)
        while unused and why_dropped(groups[place], config) == ZERO_VARIANCE:
            place = unused.popleft()
            groups[place] = await roll_out_group(place)

    await run_for_each(roll_out_until_varied, range(len(scenarios)))
    refuse_too_many_unscored(list(chain.from_iterable(groups.values())), config)
    return [groups[place] for place in sorted(groups)]


async def sample_each(
    recorder: Recorder,
    policy: Policy,
    environment: Environment,
    scenarios: Sequence[Scenario],
    config: RolloutsConfig,
) -> list[Rollout]:
    """Sample one rollout of each scenario, at most `in_flight` at a time."""
    slots = asyncio.Semaphore(config.in_flight)

    async def roll_out(scenario: Scenario) -> Rollout:
        async with slots:
            return await recorder.run(policy, environment, scenario)

    return await run_for_each(roll_out, scenarios)


def sample_seed(seed: int, step: int, scenario: Scenario, index: int, turn: int = 0) -> int:
    """Return a seed for one call of a rollout, of 31 bits, which every inference server accepts."""
    key = f"{seed}/{step}/{scenario.id}/{index}"
    if turn:
        key += f"/turn {turn}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4]) >> 1
