"""The cost of requests that a server does not report."""

from typing import Any

import pytest
from starlette.responses import JSONResponse

from precis.errors import ProviderFailed
from precis.llm.client import ChatClient, CompletionRequest, OwnServer
from precis.llm.limits import without_quota
from precis.llm.providers import Endpoint
from precis.llm.retry import Deadline
from precis.records.spend import Price, Spend, Usage
from tests.support.faulty import Fault, Faults, FaultyServer

EXPECTED = Usage(600, 400)
PRICES = {"m": Price(1.0, 1.0)}


async def without_usage(scope: Any, receive: Any, send: Any) -> None:
    message = {"role": "assistant", "content": "Here."}
    await JSONResponse({"choices": [{"message": message}]})(scope, receive, send)


async def ask(url: str) -> Spend:
    """Return what a client has spent after one attempt at a request."""
    settings = OwnServer(without_quota(1), 5.0, tries_max=1)
    async with ChatClient(Endpoint(url, "m", "k"), settings, prices=PRICES) as client:
        request = CompletionRequest({"model": "m", "messages": []}, EXPECTED)
        try:
            await client.complete(request, Deadline(5), lambda reply: reply)
        except ProviderFailed as error:
            assert error.cause == "connection"
        return client.spend


async def test_a_reply_without_usage_costs_what_was_expected() -> None:
    async with FaultyServer(without_usage) as url:
        assert await ask(url) == Spend.of_call("m", EXPECTED, PRICES)


async def test_a_request_whose_reply_broke_off_is_counted_and_one_that_was_not_sent_is_not() -> (
    None
):
    async with FaultyServer(without_usage, Faults({Fault.BROKEN_OFF: 1.0})) as url:
        spend = await ask(url)
    assert (spend.calls, spend.given_up) == (0, 1)
    assert spend.usd == pytest.approx(0.001)
    assert await ask(url) == Spend()
