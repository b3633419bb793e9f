"""What is late is asked again, once, within the limits; the first valid reply counts."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import JSONResponse

from precis.config import JudgeConfig, RateLimits
from precis.environments.summaries.judge import Endpoint, JudgeClient, Scored
from precis.errors import ProviderFailed
from precis.llm.client import ChatClient, CompletionRequest, OwnServer
from precis.llm.hedging import Hedging, LatencyWindow
from precis.llm.limits import Limiter, Turn, without_quota
from precis.llm.loop_server import LoopServer
from precis.llm.retry import Deadline
from precis.records.spend import Usage
from tests.services.patience import until
from tests.support.bridges import document


def hedging(
    limiter: Limiter | None = None, quantile: float = 0.5, known_s: float = 0.02
) -> Hedging:
    """One that knows requests already, quick ones: what takes longer is late."""
    hedges = Hedging(quantile, limiter or Limiter(RateLimits()), floor_s=0.0)
    for tail in (hedges._windows["answers"], hedges._ages):
        for _ in range(20):
            tail.add_wait(known_s)
    return hedges


class Requests:
    """Does for each request in turn what it is told to: wait for so many seconds, or until that
    holds, and then return or raise."""

    def __init__(self, *plan: tuple[float | Callable[["Requests"], bool], Any]) -> None:
        self._plan = list(plan)
        self.sent, self.ended, self.cancelled = 0, 0, 0

    async def __call__(self, turn: Turn) -> Any:
        wait, outcome = self._plan[self.sent]
        self.sent += 1
        try:
            if callable(wait):
                await until(lambda: wait(self), "a request's turn")
            else:
                await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.ended += 1
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def first(hedges: Hedging, ask: Requests, limiter: Limiter | None = None) -> Any:
    async with (limiter or Limiter(RateLimits())).turn(10) as turn:
        return await hedges.first("answers", turn, ask)


@pytest.mark.parametrize("others", [0, 20], ids=["a new kind", "a slow kind"])
async def test_a_request_is_late_when_its_verdict_is(others: int) -> None:
    """However quick those of its kind are, and however slow they may be."""
    hedges, ask = hedging(), Requests((30, "first"), (0.0, "second"))
    for _ in range(others):
        hedges._windows["grades"].add_wait(60)
    async with Limiter(RateLimits()).turn(10) as turn:
        assert await hedges.first("grades", turn, ask, spent_s=5.0 if others else 0.0) == "second"


async def test_what_is_quick_unknown_or_not_to_be_hedged_is_asked_for_once() -> None:
    unknown = Hedging(0.5, Limiter(RateLimits()), floor_s=0.0)
    for _ in range(4):
        unknown._windows["answers"].add_wait(0.0)  # fewer than five say nothing
    for hedges in (hedging(known_s=60.0), unknown, hedging(quantile=0.0)):
        ask = Requests((0.2, "first"), (30, "second"))
        assert await first(hedges, ask) == "first"
        assert ask.sent == 1


async def test_a_second_request_is_as_old_as_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[float] = []

    async def answer(_: Hedging, kind: str, turn: Turn, ask: Any, spent_s: float) -> str:
        spent.append(spent_s)
        await asyncio.sleep(0.02)
        return "a reply"

    monkeypatch.setattr(Hedging, "first", answer)
    settings = OwnServer(without_quota(1), 5.0, tries_max=1)
    request = CompletionRequest({"model": "m", "messages": []}, Usage(1, 1))
    deadline = Deadline(60)
    async with ChatClient(Endpoint("http://m/v1", "m", "k"), settings, prices={}) as client:
        for _ in range(2):
            await client.complete(request, deadline, lambda reply: reply)
    first, second = spent
    assert first == 0
    assert second >= 0.01, "what the first took is forgotten"


PROSE = ProviderFailed("bad_verdict", "prose")


def both_sent(requests: Requests) -> bool:
    return requests.sent == 2


def one_ended(requests: Requests) -> bool:
    return requests.ended == 1


@pytest.mark.parametrize(
    ("plan", "error", "cancelled"),
    [
        ([(30, "late"), (both_sent, "valid")], None, 1),
        ([(both_sent, "valid"), (30, "late")], None, 1),
        ([(both_sent, PROSE), (one_ended, "valid")], None, 0),
        ([(one_ended, "valid"), (both_sent, PROSE)], None, 0),
        ([(both_sent, PROSE), (both_sent, PROSE)], ProviderFailed, 0),
        ([(3600, "first"), (3600, "second")], asyncio.CancelledError, 2),
    ],
    ids=["second in time", "first in time", "first fails", "second fails", "both fail", "given up"],
)
async def test_the_first_valid_reply_counts_of_two_and_a_failure_only_where_both_fail(
    plan: list[tuple[Any, Any]], error: type[BaseException] | None, cancelled: int
) -> None:
    ask = Requests(*plan)
    asking = asyncio.create_task(first(hedging(), ask))
    await until(lambda: both_sent(ask), "the second request")
    if error is asyncio.CancelledError:
        asking.cancel()
    with pytest.raises(error) if error else nullcontext():
        assert await asking == "valid"
    assert ask.cancelled == cancelled


async def test_a_hedge_never_goes_over_a_limit_nor_waits_for_it() -> None:
    slowed = Limiter(RateLimits())
    slowed.slow_down()
    in_flight, a_minute = RateLimits(in_flight=1), RateLimits(requests_per_minute=1)
    for limiter in (Limiter(in_flight), Limiter(a_minute), slowed):
        ask = Requests((0.1, "first"), (0.0, "second"))
        assert await first(hedging(limiter), ask, limiter) == "first"
        assert ask.sent == 1
    # Nor does it go before whoever waits.
    limiter = Limiter(RateLimits(tokens_per_minute=1000))
    async with limiter.turn(400):
        waiting = asyncio.ensure_future(limiter.turn(900).__aenter__())
        await asyncio.sleep(0)
        with limiter.spare_turn(400) as turn:
            assert turn is None
        waiting.cancel()
        await asyncio.wait([waiting])
        with limiter.spare_turn(400) as turn:
            assert turn is not None


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=60), st.sampled_from([0.5, 0.8, 0.9]))
def test_of_many_at_once_only_the_rest_are_ever_late(times: list[float], quantile: float) -> None:
    tail, late = LatencyWindow(quantile), set()
    running = [tail.under_way(0.0) for _ in times]
    for each in running:
        each.__enter__()
    for ended, now_s in enumerate(sorted(times)):
        late |= {index for index in range(ended, len(times)) if tail.is_late(0.0, now_s)}
        running[ended].__exit__(None, None, None)
        tail.add_wait(now_s)
    assert len(late) <= (1 - quantile) * len(times) + 1e-9


async def test_waits_that_hedges_cut_short_do_not_lead_to_ever_more_hedges() -> None:
    hedges = Hedging(0.5, Limiter(RateLimits()), floor_s=0.0)
    for tail in (hedges._windows["answers"], hedges._ages):
        for _ in range(12):
            tail.add_wait(0.0)
    slow = [Requests((30, "first"), (1.0, "second")) for _ in range(12)]
    assert await asyncio.gather(*(first(hedges, ask) for ask in slow)) == ["second"] * 12
    quick = Requests((0.1, "first"), (0.0, "second"))
    assert await first(hedges, quick) == "first"


class SlowNowAndThen:
    """Answers at once, but every sixth request only after half a minute; counts who is there."""

    def __init__(self) -> None:
        self.seen = self.under_way = self.most = 0
        self.server = LoopServer(self)

    @property
    def connections(self) -> int:
        return len(self.server._server.server_state.connections)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        self.seen, self.under_way = self.seen + 1, self.under_way + 1
        self.most = max(self.most, self.under_way)
        is_slow = self.seen % 6 == 0
        await Request(scope, receive).body()
        with suppress(TimeoutError):
            # Whoever gives a request up hangs up, which ends it here as well.
            await asyncio.wait_for(receive(), 30 if is_slow else 0.01)
        self.under_way -= 1
        content = json.dumps({"answers": [{"id": "q1", "answer": "the mayor"}], "is_prose": True})
        choice = {"message": {"content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 1}
        await JSONResponse({"choices": [choice], "usage": usage})(scope, receive, send)


@asynccontextmanager
async def judging(**settings: Any) -> AsyncIterator[tuple[JudgeClient, SlowNowAndThen]]:
    slow = SlowNowAndThen()
    await slow.server.start()
    url = f"http://127.0.0.1:{slow.server.port}/v1"
    known: dict[str, Any] = {"provider": "url", "base_url": url, "model": "m"}
    known["prices"] = {"m": (1.0, 1.0)}
    config = JudgeConfig.model_validate({**known, "hedge_quantile": 0.5, **settings})
    async with JudgeClient(Endpoint(url, "m", "k"), config) as judge:
        yield judge, slow
    await until(lambda: slow.connections == 0, "the end of all connections")
    await slow.server.stop()


async def test_hedges_keep_to_the_limits_cost_as_if_answered_and_leave_no_connection() -> None:
    limits = RateLimits(in_flight=5, requests_per_minute=40)
    async with judging(limits=limits) as (judge, server):
        for wave in range(4):
            asked = (judge.score(document(1), f"{wave} {number}") for number in range(4))
            assert all(isinstance(verdict, Scored) for verdict in await asyncio.gather(*asked))
        await until(lambda: server.under_way == 0, "the end of all that is under way")
        spend = judge.spend
        assert server.most <= 5
        assert server.connections <= 5
    assert spend.calls == 16 and spend.given_up >= 2
    assert spend.prompt_tokens > 16 * 10 + 200 * spend.given_up
    assert spend.usd == pytest.approx((spend.prompt_tokens + spend.completion_tokens) / 1e6)


async def test_the_lexical_judge_is_never_asked_twice() -> None:
    lexical = {"provider": "lexical", "base_url": "", "model": ""}
    async with judging(**lexical, call_timeout_s=2.0, tries_max=1) as (judge, server):
        for number in range(6):
            await judge.score(document(1), str(number))
        assert (server.seen, judge.spend.given_up) == (6, 1)
