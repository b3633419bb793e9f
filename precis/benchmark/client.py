"""The recorder's client of a contender, which answers from kept replies or by a request."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, Self

from precis.benchmark.contender import ContenderSpec
from precis.config import RolloutsConfig
from precis.environments.session import Limits, Policy
from precis.errors import ProviderFailed, ProviderRejected
from precis.llm.budget import Budget
from precis.llm.client import ChatClient, ChatReply, CompletionRequest
from precis.llm.providers import Endpoint
from precis.llm.replies import REFUSALS
from precis.llm.retry import Deadline
from precis.record import json_digest
from precis.records.spend import Usage
from precis.rollouts.sample import sample_seed
from precis.store.kept import KeptRecords

_AHEAD = 2
"""Rollouts in progress for each request in flight: while one is scored, another is requested."""


class ContenderClient:
    """Asks one contender, within its limits and the benchmark's budget; if dry, sends no request.

    `async with ContenderClient(spec, rollouts, budget, kept) as client:`
    `    await recorder.run(client.policy(Replies(client)), environment, scenario)`
    """

    def __init__(
        self,
        spec: ContenderSpec,
        rollouts: RolloutsConfig,
        budget: Budget,
        kept: KeptRecords | None,
        dry: bool = False,
    ) -> None:
        self.spec = spec
        self.at_once = _AHEAD * spec.settings.limits.in_flight
        self.kept = kept
        self.dry = dry
        prices = {spec.endpoint.model: spec.price} if spec.price else {}
        limit = budget if spec.paid else None
        self.chat = ChatClient(spec.endpoint, spec.settings, prices=prices, budget=limit)
        self._rollouts = rollouts
        self.asking = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self._rejected: ProviderRejected | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.chat.close()

    def policy(self, replies: "Replies", index: int = 0) -> Policy:
        """Return the policy for a rollout; attempts after the first are sampled."""
        settings = self.spec.settings
        # A rollout's wait for its turn does not count against its time limit.
        deadline_s = _AHEAD * self._rollouts.timeout_s
        if self.spec.paid:
            waits_s = 60 * self.at_once / settings.limits.requests_per_minute
            deadline_s = settings.rollout_timeout_s + waits_s
        limits = Limits(
            deadline_s,
            self._rollouts.turns_max,
            self._rollouts.tokens_max + self.spec.thinking_tokens * self._rollouts.turns_max,
        )
        step = self.spec.contender.step
        parameters = self.spec.parameters
        if index and "temperature" in parameters:
            parameters["temperature"] = self._rollouts.temperature
        # Paid models may not accept a seed, and their replies are kept anyway. A checkpoint's first
        # attempt is the one of a validation. A baseline that answers at random needs a seed for
        # each scenario: messages of several may be alike.
        is_seeded = not self.spec.paid and (index > 0 or step is None)
        seed_of = partial(sample_seed, 0, 0) if is_seeded else None
        return Policy(replies, limits, parameters, seed_of, name=settings.model, step=step)

    def complete_request(self, request: CompletionRequest) -> CompletionRequest:
        """Return a request with room for reasoning."""
        payload = dict(request.payload)
        if "max_tokens" not in payload:
            # An adapter's answer may fill the rest of its context.
            return request
        wanted = min(int(payload["max_tokens"]), self._rollouts.tokens_max)
        payload["max_tokens"] = wanted + self.spec.thinking_tokens
        return CompletionRequest(payload, Usage(request.expected.prompt_tokens, wanted))

    async def ask(
        self, request: CompletionRequest, deadline: Deadline, read: Callable[[ChatReply], ChatReply]
    ) -> ChatReply:
        """Return the contender's reply; see `ChatClient.complete`."""
        # A rejection is final: no further request is sent.
        if self._rejected is not None:
            raise self._rejected

        def check(reply: ChatReply) -> ChatReply:
            if reply.finish == "length" and not reply.text.strip() and not reply.tool_calls:
                role = self.spec.endpoint.role
                detail = f"The tokens of the {role} all went into its thoughts."
                raise ProviderFailed("truncated", detail)
            return read(reply)

        sampled = request.expected.completion_tokens + self.spec.thinking_tokens
        room = Usage(request.expected.prompt_tokens, sampled)
        try:
            asked = CompletionRequest(request.payload, room)
            return await self.chat.complete(asked, deadline, check)
        except ProviderRejected as error:
            if error.status not in REFUSALS and self._rejected is None:
                self._rejected = error
            raise


class Replies:
    """The replies of a contender to one rollout: their number, and in a dry run the cost of those
    not kept. A sampled attempt keeps replies under its own name."""

    def __init__(self, contender: ContenderClient, sample: str = "") -> None:
        self._sample = sample
        self.asked = 0
        self.missing: list[Usage] = []
        self._contender = contender

    @property
    def endpoint(self) -> Endpoint:
        return self._contender.spec.endpoint

    async def complete(
        self, request: CompletionRequest, deadline: Deadline, read: Callable[[ChatReply], ChatReply]
    ) -> ChatReply:
        """Return a kept reply, or request one and keep it."""
        contender = self._contender
        request = contender.complete_request(request)
        decisive = [contender.spec.identity, request.payload]
        if self._sample:
            decisive.append(self._sample)
        key = f"replies/{json_digest(decisive)}"

        def decode(record: Any) -> ChatReply:
            try:
                role = self.endpoint.role
                return ChatReply.of(record["body"], role, record["usd"], record["seconds"])
            except ProviderFailed as error:
                raise ValueError(str(error)) from error

        # Concurrent requests for the same reply wait, if replies are kept.
        async with contender.asking[key] if contender.kept else nullcontext():
            if contender.kept:
                kept = await contender.kept.get(key, decode)
                if kept is not None:
                    return read(kept)
            self.asked += 1
            if contender.dry:
                self.missing.append(request.expected)
                raise ProviderFailed("not_kept", "No earlier benchmark has asked for this reply.")
            reply = await contender.ask(request, deadline, read)
            if contender.kept:
                record = {"body": reply.body, "usd": reply.usd, "seconds": reply.seconds}
                await contender.kept.put(key, record)
            return reply
