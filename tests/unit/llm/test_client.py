"""A client whose server is silent, rejects or breaks off: what is said, and what it costs."""

import asyncio
import re
from dataclasses import replace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from precis.errors import ConfigError, ProviderFailed
from precis.llm.client import ChatClient, CompletionRequest, OwnServer
from precis.llm.concurrency import run_for_each
from precis.llm.limits import without_quota
from precis.llm.providers import Endpoint
from precis.llm.retry import Deadline
from precis.llm.silence import SilenceWatch, silences
from precis.records.spend import Price, Spend, Usage
from tests.services.patience import until
from tests.support.faulty import Fault, FaultyServer

KEY = "sk-secret-key-of-somebody"
SILENT = Endpoint("http://somebody:password@127.0.0.1:9/v1", "m", KEY)
ASKING_MAX = 20
EXPECTED = Usage(600, 400)
PRICES = {"m": Price(1.0, 1.0)}
GIVEN_UP = Spend(prompt_tokens=600, completion_tokens=400, usd=0.001, given_up=1)


async def without_usage(scope: Any, receive: Any, send: Any) -> None:
    message = {"role": "assistant", "content": "Here."}
    await JSONResponse({"choices": [{"message": message}]})(scope, receive, send)


class Server:
    """Refuses everybody until it is told to answer."""

    def __init__(self, **headers: str) -> None:
        self.answers = False
        self.requests = 0
        self._headers = {name.replace("_", "-"): value for name, value in headers.items()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests += 1
        error = {"message": f"Slow down, {KEY}!\x1b[2J"}
        refusal = JSONResponse({"error": error}, 429, self._headers)
        await (without_usage if self.answers else refusal)(scope, receive, send)


def client_of(url: str, tries_max: int = 1000) -> ChatClient:
    settings = OwnServer(without_quota(64), 5.0, tries_max=tries_max, backoff_s=0.02)
    return ChatClient(Endpoint(url, "m", KEY), settings, prices=PRICES)


async def ask(client: ChatClient) -> str:
    request = CompletionRequest({"model": "m", "messages": []}, EXPECTED)
    return await client.complete(request, Deadline(10_000), lambda reply: reply.text)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("precis.llm.silence._SAID_AFTER_S", 0.1)


async def test_a_silent_server_is_named_once_and_back(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    async with FaultyServer(server) as url, client_of(url) as client:
        asking = [asyncio.create_task(ask(client)) for _ in range(ASKING_MAX)]
        await until(lambda: caplog.messages, "a line on the server")
        (line,) = caplog.messages
        assert line.startswith(f"The judge 'm' at {url} has answered no request for ")
        assert " s: The judge answered 429: Slow down, …!. It is asked again " in line
        assert KEY not in line and "\x1b" not in line
        await until(silences, "the same for the page")
        (shown,) = silences()
        assert shown.startswith(f"The judge 'm' at {url} has answered no request for ")
        before = server.requests
        await until(lambda: server.requests > before + ASKING_MAX, "further requests")
        assert len(caplog.messages) == 1
        server.answers = True
        assert await asyncio.gather(*asking) == ["Here."] * ASKING_MAX
        _, line = caplog.messages
        assert line.startswith(f"The judge 'm' at {url} answers again, after ")
        assert silences() == []


async def test_a_silence_that_goes_on_is_said_again_with_the_pause_that_the_server_asks_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precis.llm.silence._SAID_AGAIN_S", 0.0)
    async with FaultyServer(Server(Retry_After="1000")) as url, client_of(url) as client:
        asking = [asyncio.create_task(ask(client)) for _ in range(3)]
        await until(lambda: len(caplog.messages) >= 3, "a third line")
        assert re.search(r"It is asked again in (9\d\d|1000) s\.$", caplog.messages[0])
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
        assert silences() == []


async def test_who_waits_for_a_turn_at_a_silent_server_gives_up_with_the_others() -> None:
    """A daily quota is used up: each request would wait for its turn to be told so."""
    server = Server(Retry_After="0.1")
    settings = OwnServer(without_quota(1), 5.0, tries_max=1000, backoff_s=0.01)
    request = CompletionRequest({"model": "m", "messages": []}, EXPECTED)
    async with (
        FaultyServer(server) as url,
        ChatClient(Endpoint(url, "m", KEY), settings, prices=PRICES) as client,
    ):
        asking = []
        for _ in range(ASKING_MAX):
            asking.append(client.complete(request, Deadline(0.5), lambda reply: reply.text))
        failures = await asyncio.gather(*asking, return_exceptions=True)
    assert {getattr(one, "cause", None) for one in failures} == {"rate_limited"}
    assert server.requests < ASKING_MAX, "each alone asks more than once"


async def test_who_need_not_wait_for_a_turn_finds_that_the_server_answers_again() -> None:
    server = Server()
    request = CompletionRequest({"model": "m", "messages": []}, EXPECTED)
    async with FaultyServer(server) as url, client_of(url) as client:
        patient = asyncio.create_task(ask(client))
        await until(lambda: client._watch.seconds > 0.2, "a silence as long as a request may take")
        server.answers = True
        asked = client.complete(request, Deadline(0.2), lambda reply: reply.text)
        assert await asked == "Here."
        assert await patient == "Here."


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "nobody asks any more"])
async def test_no_ended_silence_is_said(caplog: pytest.LogCaptureFixture, answered: bool) -> None:
    watch = SilenceWatch(SILENT)
    with watch.asking():
        watch.failed(ProviderFailed("timeout", "It took too long."), 0.0, 0.0)
        if answered:
            watch.answered()
        else:
            await until(silences, "a silent server")
    assert silences() == []
    assert caplog.messages == []


async def test_a_silence_begins_with_what_hung_or_ended(caplog: pytest.LogCaptureFixture) -> None:
    watch = SilenceWatch(SILENT)
    hung = ProviderFailed("timeout", "It took too long.")
    with watch.asking():
        watch.failed(hung, 60.0, 0.5)
        assert "has answered no request for 60 s: It took too long." in caplog.text
        watch.answered()
        caplog.clear()
        watch.failed(hung, 60.0, 0.5)  # sent before that answer
        assert "has answered no request for 0 s: It took too long." in caplog.text


async def test_a_silent_contender_is_named_once() -> None:
    said = SilenceWatch(replace(SILENT, model="maker/m", role="contender 'm'")).describe()
    assert said.startswith("The contender 'm' at http://127.0.0.1:9/v1 has answered no request")


@pytest.mark.parametrize(
    ("app", "faults", "cost"),
    [
        (without_usage, [], Spend.of_call("m", EXPECTED, PRICES)),
        (without_usage, [Fault.BROKEN_OFF], GIVEN_UP),
        (Response(status_code=301, headers={"location": "mailto:a@b"}), [], GIVEN_UP),
        (Response(status_code=301, headers={"location": "http://xn--/"}), [], GIVEN_UP),
        (Response("data: {}\n\n", media_type="text/event-stream"), [], GIVEN_UP),
        (Response("<html>", media_type="text/html"), [], Spend()),
    ],
    ids=["no usage", "broken off", "redirected to no server", "to no address", "stream", "page"],
)
async def test_a_lost_reply_costs_what_it_might(app: Any, faults: list[Fault], cost: Spend) -> None:
    async with FaultyServer(app, 1.0 if faults else 0.0, faults) as url:
        assert await spent(url) == cost
    assert await spent(url) == Spend(), "it was not sent"


@pytest.mark.parametrize(("stated", "usd"), [("0.25", 0.25), ("0.0", 0.002), ("", 0.002)])
async def test_litellm_states_the_cost_of_a_reply_in_a_header(stated: str, usd: float) -> None:
    message = {"role": "assistant", "content": "Here."}
    body = {"choices": [{"message": message}], "usage": Usage(1500, 500).in_response}
    app = JSONResponse(body, headers={"x-litellm-response-cost": stated})
    async with FaultyServer(app) as url:
        assert await spent(url) == Spend(1, 0, 1500, 500, usd)


async def test_parameters_that_a_model_lacks_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    taken = []

    async def reasoner(scope: Any, receive: Any, send: Any) -> None:
        asked = await Request(scope, receive).json()
        error = {"code": "unsupported_value", "param": "temperature"}
        if asked.get("temperature", 1) != 1:
            error["message"] = "'temperature' does not support 0 with this model."
        elif "max_tokens" in asked:
            error["message"] = "'max_tokens' is not supported: use 'max_completion_tokens' instead."
        else:
            taken.append(asked)
            await without_usage(scope, receive, send)
            return
        await JSONResponse({"error": error}, 400)(scope, receive, send)

    async with FaultyServer(reasoner) as url, client_of(url, tries_max=1) as client:
        payload = {"model": "m", "temperature": 0, "max_tokens": 9, "seed": 1}
        for _ in range(2):
            request = CompletionRequest(payload, EXPECTED)
            await client.complete(request, Deadline(10_000), lambda reply: reply.text)
        assert client.spend.calls == 2
    assert taken == [{"model": "m", "max_completion_tokens": 9, "seed": 1}] * 2
    assert caplog.messages == ["The judge takes no temperature, so its answers may vary."]


async def spent(url: str) -> Spend:
    """Return what a client has spent after one attempt at a request."""
    async with client_of(url, tries_max=1) as client:
        try:
            await ask(client)
        except ProviderFailed as error:
            assert error.cause in ("connection", "bad_verdict")
        return client.spend


async def test_a_proxy_that_can_t_be_used_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    async with client_of("http://models.test/v1") as client:
        with pytest.raises(ConfigError, match="A proxy of this shell can't be used: "):
            await ask(client)


async def test_the_first_failure_cancels_the_others_and_is_raised_as_it_is() -> None:
    ended: list[int] = []

    async def ask(number: int) -> None:
        if number == 3:
            raise ValueError("It broke off.")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    with pytest.raises(ValueError, match="It broke off"):
        await run_for_each(ask, range(1, 5))
    assert ended == [1, 2, 4]
