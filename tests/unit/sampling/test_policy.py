"""The policy is asked as the contender that it becomes in a benchmark."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import openai
import pytest

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import local_contender
from precis.config import RolloutsConfig
from precis.errors import TrainerError, TrainerLost
from precis.judge import JudgeClient, Unscored
from precis.llm.budget import Budget
from precis.llm.loop_server import LoopServer
from precis.llm.server import ApiError, ChatRequest, Choice, Completion, completions_app
from precis.llm.tls import tls_for
from precis.records.documents import Document
from precis.sampling.policy import SampledSummary, policy_client, sample
from precis.sampling.rollouts import gather_greedy
from precis.statistics.standings import Contender
from precis.summaries.rewards import score_zero
from precis.summaries.task import Summarizing
from tests.support.rollouts import DOCUMENT

CONFIG = RolloutsConfig()
TASK = Summarizing(CONFIG.words_max)
MESSAGES = TASK.messages(DOCUMENT)


class Policy:
    """Fails as often as `failures` says, and then answers."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.failures = 0
        self.status = 503

    async def __call__(self, request: ChatRequest) -> Completion:
        self.requests.append(request.model_dump())
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ApiError(self.status, "not today", "code")
        return Completion(request.model, [Choice("The mayor did.")])


class Judge:
    async def score(self, document: Document, summary: str) -> object:
        return score_zero(document)


@pytest.fixture
def policy() -> Policy:
    return Policy()


@pytest.fixture
async def client(policy: Policy) -> AsyncIterator[openai.AsyncOpenAI]:
    """As ART makes it: with its usual number of tries."""
    server = LoopServer(completions_app(policy, lambda: ["m"], "the-key"))
    await server.start()
    url = f"http://127.0.0.1:{server.port}/v1"
    http = openai.DefaultAsyncHttpxClient(verify=tls_for(url))
    async with openai.AsyncOpenAI(base_url=url, api_key="the-key", http_client=http) as client:
        yield client
    await server.stop()


def contender_at(client: openai.AsyncOpenAI) -> ContenderClient:
    spec = local_contender(
        Contender("trained", 4),
        "m@4",
        str(client.base_url).rstrip("/"),
        client.api_key,
        tokens_max=TASK.tokens_max,
        in_flight=2,
    )
    return ContenderClient(spec, TASK, Budget(None), None)


async def test_validation_and_benchmark_send_the_same_request(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    judge = cast(JudgeClient, Judge())
    await gather_greedy(client, "m@4", TASK, judge, [DOCUMENT], CONFIG)
    async with contender_at(client) as contender:
        await contender.write(DOCUMENT)
    validated, benchmarked = policy.requests
    assert validated == benchmarked


async def test_validation_and_benchmark_try_as_often(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    policy.failures = 100
    async with policy_client(client, "m@4", CONFIG) as asked:
        assert isinstance(await sample(asked, MESSAGES, TASK.tokens_max, 1.0), Unscored)
    tries = len(policy.requests)
    async with contender_at(client) as contender:
        assert isinstance(await contender.write(DOCUMENT), Unscored)
    assert tries > 1
    assert len(policy.requests) == 2 * tries


async def test_a_message_without_content_is_sent_as_any(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    function = {"name": "look", "arguments": "{}"}
    called = {"id": "1", "type": "function", "function": function}
    messages: list[dict[str, Any]] = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "1", "content": "Nothing."},
    ]
    async with policy_client(client, "m@4", CONFIG) as asked:
        written = await sample(asked, messages, TASK.tokens_max, 1.0, seed=7)
    assert isinstance(written, SampledSummary)
    assert policy.requests[0]["messages"] == messages


async def test_a_passing_failure_costs_a_try_and_no_summary(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    policy.failures = 1
    async with policy_client(client, "m@4", CONFIG) as asked:
        written = await sample(asked, MESSAGES, TASK.tokens_max, 1.0, seed=7)
    assert isinstance(written, SampledSummary)
    assert (written.summary.text, written.choice.message.content) == ("The mayor did.",) * 2
    assert [request["seed"] for request in policy.requests] == [7, 7]


async def test_what_is_wrong_with_one_document_costs_that_document(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    policy.failures = 1
    policy.status = 400
    async with policy_client(client, "m@4", CONFIG) as asked:
        lost = await sample(asked, MESSAGES, TASK.tokens_max, 1.0)
        assert isinstance(lost, Unscored) and lost.cause == "generation_failed"
        assert isinstance(await sample(asked, MESSAGES, TASK.tokens_max, 1.0), SampledSummary)
    assert len(policy.requests) == 2


async def test_a_wrong_key_is_the_trainers_fault_and_is_not_told(
    client: openai.AsyncOpenAI,
) -> None:
    stranger = client.with_options(api_key="sk-secret-key")
    async with policy_client(stranger, "m@4", CONFIG) as asked:
        with pytest.raises(TrainerError, match="m@4 can't be asked") as raised:
            await sample(asked, MESSAGES, TASK.tokens_max, 1.0)
    assert not isinstance(raised.value, TrainerLost)
    assert "sk-secret-key" not in str(raised.value)
