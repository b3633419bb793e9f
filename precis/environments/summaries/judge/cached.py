"""Valid replies to the judge's prompts, from the cache or from the judge."""

import asyncio
from contextlib import suppress
from typing import Any, Self, TypeVar

from precis.config import JudgeConfig
from precis.environments.summaries.judge.cache import ReplyCache
from precis.environments.summaries.judge.endpoint import RULES_VERSION
from precis.environments.summaries.judge.protocol import PROTOCOL_VERSION, BadReply, Prompt
from precis.errors import JudgeRejected, JudgeUnavailable, ProviderFailed, ProviderRejected
from precis.llm.client import ChatClient, ChatReply, CompletionRequest, whole_text
from precis.llm.limits import Limiter, without_quota
from precis.llm.providers import Endpoint
from precis.llm.replies import REFUSALS
from precis.llm.retry import Deadline
from precis.record import json_digest
from precis.records.spend import Spend, prices_of

_PASSING_FAILURES = {
    "rate_limited": "Start again when its quota allows requests; if it never suffices, lower "
    "judge.limits or use another key.",
    "timeout": "It may be overloaded, or still loading its model: start again later, or raise "
    "judge.call_timeout_s.",
    "connection": "Check the network, and judge.base_url if it is set; then start again.",
    "server_error": "The fault is the server's own: start again when it has recovered.",
}
"""Causes of temporary failures, with the remedy."""
_UNFIT = (
    "It can't judge: choose another model, one that follows JSON schemas, or correct "
    "judge.base_url if it is set."
)

T = TypeVar("T")


class CachedJudge:
    """Asks the judge only without a valid reply in the cache, and keeps its replies.

    Args:
        limiter: that of another judge of the same account; None makes one from `config`.

    Attributes:
        identity: the values that determine the replies, for the records of results.
        parameters: the further fields of its requests, which may change within a run.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        config: JudgeConfig,
        cache: ReplyCache | None,
        limiter: Limiter | None = None,
    ) -> None:
        limits = config.limits
        quantile = config.hedge_quantile
        if config.provider == "lexical":
            # It has no account, and shares one CPU: asking twice makes both requests slower.
            limits = without_quota(limits.in_flight)
            quantile = 0.0
        self._client = ChatClient(
            endpoint,
            config,
            prices=prices_of(config),
            limiter=limiter or Limiter(limits),
            hedge_quantile=quantile,
        )
        self.parameters: dict[str, Any] = {"temperature": 0}
        if config.reasoning_effort:
            self.parameters["reasoning_effort"] = config.reasoning_effort
        self._endpoint = endpoint
        self.config = config
        self.identity = {"model": endpoint.model}
        if config.provider == "lexical":
            self.identity["rules"] = RULES_VERSION
        self._cache = cache
        self._cached = 0
        self._under_way: dict[str, asyncio.Event] = {}

    @property
    def spend(self) -> Spend:
        """The cost of all calls so far, and the number of replies that came from the cache
        instead."""
        return self._client.spend + Spend(cached=self._cached)

    @property
    def limiter(self) -> Limiter:
        return self._client.limiter

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.close()

    async def ask(self, prompt: Prompt[T], deadline: Deadline) -> T:
        """Return the parsed reply of the judge to a prompt. With a cache, concurrent equal prompts
        are asked once. Raises ProviderFailed if the last attempt failed, or the deadline leaves no
        time for another, and JudgeRejected if no retry will help."""
        if self._cache is None:
            return (await self._ask_anew(prompt, deadline))[1]
        parts = [
            self._endpoint.model,
            prompt.messages,
            self.parameters,
            prompt.schema,
            PROTOCOL_VERSION,
        ]
        if "rules" in self.identity:
            parts.append(self.identity["rules"])
        key = json_digest(parts)
        while True:
            known = self._cache.get(key)
            if known is not None:
                with suppress(BadReply):  # not written by this version: ask again
                    said = prompt.parse(known, prompt.ids)
                    self._cached += 1
                    return said
            if key not in self._under_way:
                break
            await self._under_way[key].wait()
        ended = self._under_way[key] = asyncio.Event()
        try:
            text, said = await self._ask_anew(prompt, deadline)
            self._cache.put(key, text)
            return said
        finally:
            del self._under_way[key]
            ended.set()

    async def try_out(self, prompt: Prompt[Any]) -> str:
        """Ask a small prompt, uncached; return the judge's model. Raises JudgeRejected if it can't
        judge, and JudgeUnavailable if it did not answer, but may do so later."""
        try:
            await self._ask_anew(prompt, Deadline(self.config.verdict_timeout_s))
        except ProviderFailed as error:
            who = f"The judge '{self._endpoint.model}' at {self._endpoint.base_url}"
            what = f"{who} did not pass a trial question: {str(error).rstrip('.')}."
            if error.retry_after_s:
                what = f"{what} It asks to be left alone for {error.retry_after_s:,.0f} s."
            remedy = _PASSING_FAILURES.get(error.cause)
            if remedy:
                raise JudgeUnavailable(what, remedy) from error
            raise JudgeRejected(what, _UNFIT) from error
        return self._endpoint.model

    async def _ask_anew(self, prompt: Prompt[T], deadline: Deadline) -> tuple[str, T]:
        """Return the judge's text and its parsed value, bypassing the cache."""

        def read(reply: ChatReply) -> tuple[str, T]:
            text = whole_text(reply, "judge")
            try:
                return text, prompt.parse(text, prompt.ids)
            except BadReply as error:
                raise ProviderFailed("bad_verdict", str(error)) from error

        messages = prompt.messages
        payload = {"model": self._endpoint.model, "messages": messages, **self.parameters}
        request = CompletionRequest(payload, prompt.expected, prompt.name, prompt.schema)
        try:
            return await self._client.complete(request, deadline, read)
        except ProviderRejected as error:
            if error.status in REFUSALS and self._client.spend.calls:
                # It has answered others: this text is too long for it, say.
                raise ProviderFailed("refused", str(error)) from error
            raise JudgeRejected(str(error)) from error
