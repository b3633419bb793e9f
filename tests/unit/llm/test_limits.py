"""Limits hold in any minute, give turns in order, and follow what the judge says."""

import asyncio
import random
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import pytest

from precis.config import JudgeConfig, RateLimits
from precis.environments.summaries.judge import Endpoint, JudgeClient
from precis.llm.limits import Limiter


class Clock:
    """Time that passes only when somebody waits for it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._alarms: list[tuple[float, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._alarms.append((self.now + seconds, alarm))
        await alarm

    async def run(self, work: "asyncio.Future[Any]") -> None:
        """Move from alarm to alarm until the work is done."""
        while not work.done():
            for _ in range(40):  # whoever can go on, does
                await asyncio.sleep(0)
            if work.done() or not self._alarms:
                continue
            self._alarms.sort(key=lambda alarm: alarm[0])
            self.now, alarm = self._alarms.pop(0)
            alarm.set_result(None)
        await work


def most_in_a_minute(times: list[float], weights: list[int]) -> int:
    """The largest sum of weights in any 60 seconds."""
    ordered = sorted(zip(times, weights, strict=True))
    ends = [time for time, _ in ordered]
    sums = [0, *accumulate(weight for _, weight in ordered)]
    return max(
        sums[bisect_right(ends, start + 59.999)] - sums[index]
        for index, (start, _) in enumerate(ordered)
    )


@pytest.mark.parametrize("seed", range(3))
async def test_no_minute_of_the_judge_s_clock_is_over_the_limits(seed: int) -> None:
    draw, clock = random.Random(seed), Clock()
    limits = RateLimits(requests_per_minute=40, tokens_per_minute=10_000, in_flight=8)
    limiter, arrivals, tokens, running, most = Limiter(limits, clock, clock.sleep), [], [], 0, 0

    async def request() -> None:
        nonlocal running, most
        size = draw.randint(50, 600)
        async with limiter.turn(size):
            running += 1
            most = max(most, running)
            await clock.sleep(draw.uniform(0, 3))
            arrivals.append(clock.now)
            tokens.append(size)
            await clock.sleep(draw.uniform(0, 3))
            running -= 1
            if draw.random() < 0.1:
                limiter.slow_down(draw.choice([None, 1.0, 5.0]))
            else:
                limiter.speed_up()

    await clock.run(asyncio.gather(*(request() for _ in range(200))))
    assert most <= 8
    assert most_in_a_minute(arrivals, [1] * len(arrivals)) <= 40
    assert most_in_a_minute(arrivals, tokens) <= 10_000


async def test_a_quota_is_used_up_in_the_order_in_which_turns_were_asked_for() -> None:
    clock, order = Clock(), []
    limiter = Limiter(RateLimits(requests_per_minute=30, in_flight=30), clock, clock.sleep)

    async def request(number: int) -> None:
        async with limiter.turn(1):
            order.append(number)
            await clock.sleep(0.5)

    await clock.run(asyncio.gather(*(request(number) for number in range(120))))
    assert clock.now == pytest.approx(3 * 60.5 + 0.5)
    assert order == list(range(120))


async def _turns(limiter: Limiter, *tokens: int) -> None:
    for one in tokens:
        async with limiter.turn(one):
            pass


async def test_a_rejection_stops_all_for_as_long_as_it_asks_but_no_longer_than_a_minute() -> None:
    clock = Clock()
    limiter = Limiter(RateLimits(), clock, clock.sleep)
    for asked, waited in ((7.0, 7.0), (3600.0, 60.0)):
        before = clock.now
        limiter.slow_down(retry_after_s=asked)
        await clock.run(asyncio.ensure_future(_turns(limiter, 1)))
        assert clock.now - before == pytest.approx(waited)


async def test_a_request_larger_than_a_minute_s_tokens_goes_alone() -> None:
    clock = Clock()
    limiter = Limiter(RateLimits(tokens_per_minute=1000), clock, clock.sleep)
    await clock.run(asyncio.ensure_future(_turns(limiter, 5000, 5000)))
    assert clock.now == pytest.approx(60.0)


def test_rejections_together_at_most_halve_the_rate_and_successes_bring_it_back() -> None:
    clock = Clock()
    limiter = Limiter(RateLimits(), clock, clock.sleep)
    clock.now = 10.0
    for _ in range(32):
        limiter.slow_down(started_s=9.0)
    assert limiter.share == pytest.approx(0.5)
    limiter.slow_down(started_s=10.5)
    assert limiter.share < 0.5
    for _ in range(50):
        limiter.slow_down()
    assert limiter.share == pytest.approx(0.05)
    for _ in range(160):
        limiter.speed_up()
    assert limiter.share == 1.0


async def test_the_local_judge_has_no_quota() -> None:
    config = JudgeConfig(limits=RateLimits(requests_per_minute=1, in_flight=4))
    async with JudgeClient(Endpoint("http://127.0.0.1:9/v1", "m", "k"), config) as judge:
        for _ in range(4):
            async with judge.limiter.turn(10_000_000):
                pass
