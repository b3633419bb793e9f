"""From a document to a contender's summary: one that was kept, or one that is asked for."""

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import httpx

from precis.benchmark.budget import Budget
from precis.benchmark.cache import ResultCache, Written
from precis.benchmark.contender import ContenderSpec
from precis.errors import BudgetReached, JudgeError, StaleAdapter
from precis.llm.limits import Limiter
from precis.llm.pool import ConnectionPool
from precis.llm.replies import Failed, SchemaRejected, opened
from precis.llm.responses import ReplyTooLarge
from precis.llm.retry import Deadline, Retrier
from precis.records.documents import Document
from precis.records.spend import Spend, Usage, usd
from precis.records.verdict import Unscored
from precis.summaries.prompt import summary_messages

UNREACHABLE = "generation_connection"
"""The cause of a summary that is missing because nobody took the request."""

_CHARACTERS_A_TOKEN = 3

logger = logging.getLogger(__name__)


class ContenderClient:
    """Asks one contender, within its limits; what fails is tried again, here and nowhere else.

    `async with Writer(entry, words_max, budget, kept) as writer: await writer.write(document)`

    Args:
        words_max: the limit that the contender is told.
        budget: what may still be spent.
        kept: where summaries are kept; None keeps none.

    Attributes:
        entry: who writes.
    """

    def __init__(
        self, entry: ContenderSpec, words_max: int, budget: Budget, kept: ResultCache | None
    ) -> None:
        self.entry = entry
        self._words_max = words_max
        self._budget = budget
        self._kept = kept
        self._limiter = Limiter(entry.settings.limits)
        self._tries = Retrier(entry.settings)
        self._lanes = ConnectionPool(entry.endpoint, entry.settings.call_timeout_s)
        self._rejected: Unscored | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._lanes.close()

    async def known(self, document: Document) -> Written | None:
        """The summary that was kept, or None."""
        return await self._kept.summary(self._key(document)) if self._kept else None

    async def write(self, document: Document) -> Written | Unscored:
        """The contender's summary, or why there is none.

        Raises:
            StaleAdapter: another checkpoint than the one asked for has answered.
            StoreError: the summary can't be kept.
        """
        if self._rejected is not None:
            return self._rejected
        deadline = Deadline(self.entry.settings.summary_timeout_s)
        try:
            written = await self._tries.until_answered(
                partial(self._asked, document, deadline), deadline
            )
        except Failed as error:
            return Unscored(f"generation_{error.cause}", str(error))
        except BudgetReached as error:
            return Unscored("budget", str(error))
        except JudgeError as error:
            return self._gave_up(error)
        if self._kept:
            await self._kept.keep_summary(self._key(document), written)
        return written

    def _gave_up(self, error: JudgeError) -> Unscored:
        """What is rejected once is rejected always: nothing more is asked for."""
        if self._rejected is None:
            logger.warning("%s It takes no further part in this benchmark.", error)
        self._rejected = Unscored("generation_rejected", str(error))
        return self._rejected

    async def _asked(self, document: Document, deadline: Deadline) -> Written:
        content = self._content(document)
        most = self._most(content)
        async with (
            self._limiter.turn(most.tokens) as turn,
            self._budget.reserved(self.entry.price.of(most) if self.entry.price else 0.0),
        ):
            began = time.perf_counter()
            response = await self._posted(content, most, deadline)
            with self._limiter.heeding(turn):
                body = _opened(response, self.entry)
            usage = Usage.from_response(body.get("usage"))
            turn.tokens = usage.tokens or turn.tokens
            cost = self._count(usage)
        return self._read(body, usage, cost, time.perf_counter() - began)

    async def _posted(self, content: bytes, most: Usage, deadline: Deadline) -> httpx.Response:
        try:
            async with deadline.spending(self.entry.settings.call_timeout_s):
                return await self._lanes.post(content)
        except (TimeoutError, httpx.TimeoutException) as error:
            self._count(most, given_up=True)
            raise Failed("timeout", f"No answer by {self._who} before the deadline.") from error
        except asyncio.CancelledError:
            self._count(most, given_up=True)
            raise
        except ReplyTooLarge as error:
            self._count(most, given_up=True)
            raise Failed("too_large", f"Too much came from {self._who}: {error}") from error
        except httpx.RequestError as error:
            raise Failed(
                "connection", f"The connection to {self._who} failed: {error!r}"
            ) from error

    def _read(
        self, body: Mapping[str, Any], usage: Usage, cost: float | None, seconds: float
    ) -> Written:
        text, finish = _said(body)
        served_by = str(body.get("model", ""))
        if self.entry.contender.step is not None and served_by != self.entry.endpoint.model:
            raise StaleAdapter(
                f"{served_by!r} answered where {self.entry.endpoint.model!r} was asked for."
            )
        if not text.strip() and finish == "length":
            raise Failed("truncated", f"The tokens of {self._who} all went into its thoughts.")
        return Written(
            text,
            finish,
            seconds,
            usage.prompt_tokens,
            usage.completion_tokens,
            cost,
            served_by,
            time.time(),
        )

    def _count(self, usage: Usage, *, given_up: bool = False) -> float | None:
        """Book a request, and say what it cost; None where that is not known."""
        model = self.entry.endpoint.model
        price = self.entry.price
        prices = {model: price} if price else {}
        self._budget.spend += Spend.of_call(model, usage, prices, given_up=given_up)
        return usd(model, usage, prices)

    def _most(self, content: bytes) -> Usage:
        """The tokens that a request can take at most, or nearly so."""
        parameters = self.entry.parameters
        limit = parameters.get("max_tokens") or parameters.get("max_completion_tokens") or 0
        return Usage(len(content) // _CHARACTERS_A_TOKEN, int(limit))

    def _key(self, document: Document) -> str:
        return self.entry.key(summary_messages(document.text, self._words_max))

    def _content(self, document: Document) -> bytes:
        payload = {
            "model": self.entry.endpoint.model,
            "messages": summary_messages(document.text, self._words_max),
            **self.entry.parameters,
        }
        return json.dumps(payload, ensure_ascii=False).encode()

    @property
    def _who(self) -> str:
        return f"the {self.entry.endpoint.role}"


def _opened(response: httpx.Response, entry: ContenderSpec) -> dict[str, Any]:
    try:
        return opened(response.status_code, response.headers, response.content, entry.endpoint)
    except SchemaRejected as error:  # we asked for none
        raise Failed("server_error", str(error)) from error


def _said(body: Mapping[str, Any]) -> tuple[str, str]:
    """The first choice's text and finish reason.

    Raises:
        Failed: there is none, or the model refused.
    """
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Failed("empty", "The response has no choices.")
    message = choices[0].get("message")
    finish = choices[0].get("finish_reason")
    said = message if isinstance(message, dict) else {}
    if finish == "content_filter" or said.get("refusal"):
        raise Failed("refused", f"The model refused: {str(said.get('refusal') or finish)[:200]}")
    if finish == "error":
        raise Failed("server_error", f"The model broke off: {str(choices[0].get('error'))[:200]}")
    return str(said.get("content") or ""), str(finish or "stop")
