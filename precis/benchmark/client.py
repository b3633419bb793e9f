"""From a document to a contender's summary: one that was kept, or one that is asked for."""

import json
import logging
import time
from typing import Any, Self

from precis.benchmark.cache import ResultCache
from precis.benchmark.contender import ContenderSpec
from precis.errors import BudgetReached, ProviderFailed, ProviderRejected, StaleAdapter
from precis.llm.budget import Budget
from precis.llm.client import ChatClient, ChatReply, CompletionRequest
from precis.llm.replies import SchemaRejected
from precis.llm.retry import Deadline
from precis.llm.tokens import estimate_tokens_with_margin
from precis.records.documents import Document
from precis.records.spend import Usage
from precis.records.summary import Summary
from precis.records.verdict import Unscored
from precis.task import Task

UNREACHABLE = "generation_connection"
"""The cause of a summary that is missing because nobody took the request."""

logger = logging.getLogger(__name__)


class ContenderClient:
    """Asks one contender, within its limits and the benchmark's budget.

    `async with ContenderClient(entry, task, budget, kept) as client:`
    `    await client.write(document)`

    Args:
        task: what the contender is asked to do.
        budget: what may still be spent.
        kept: where summaries are kept; None keeps none.

    Attributes:
        entry: who writes.
    """

    def __init__(
        self, entry: ContenderSpec, task: Task, budget: Budget, kept: ResultCache | None
    ) -> None:
        self.entry = entry
        self._task = task
        self._kept = kept
        prices = {entry.endpoint.model: entry.price} if entry.price else {}
        self._client = ChatClient(entry.endpoint, entry.settings, prices=prices, budget=budget)
        self._rejected: Unscored | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def find_kept(self, document: Document) -> Summary | None:
        """The summary that was kept, or None."""
        return await self._kept.summary(self._key(document)) if self._kept else None

    async def write(self, document: Document) -> Summary | Unscored:
        """The contender's summary, or why there is none.

        Raises:
            StaleAdapter: another checkpoint than the one asked for has answered.
            StoreError: the summary can't be kept.
        """
        if self._rejected is not None:
            return self._rejected
        deadline = Deadline(self.entry.settings.summary_timeout_s)
        try:
            written = await self._client.complete(self._request(document), deadline, self._read)
        except ProviderFailed as error:
            return Unscored(f"generation_{error.cause}", str(error))
        except SchemaRejected as error:  # we asked for none: it is about something else
            return Unscored("generation_server_error", str(error))
        except BudgetReached as error:
            return Unscored("budget", str(error))
        except ProviderRejected as error:
            return self._give_up(error)
        if self._kept:
            await self._kept.keep_summary(self._key(document), written)
        return written

    def _give_up(self, error: ProviderRejected) -> Unscored:
        """What is rejected once is rejected always: nothing more is asked for."""
        if self._rejected is None:
            logger.warning("%s It takes no further part in this benchmark.", error)
        self._rejected = Unscored("generation_rejected", str(error))
        return self._rejected

    def _read(self, reply: ChatReply) -> Summary:
        endpoint = self.entry.endpoint
        if self.entry.contender.step is not None and reply.served_by != endpoint.model:
            raise StaleAdapter(
                f"{reply.served_by!r} answered where {endpoint.model!r} was asked for."
            )
        if not reply.text.strip() and reply.finish == "length":
            detail = f"The tokens of the {endpoint.role} all went into its thoughts."
            raise ProviderFailed("truncated", detail)
        return Summary(
            reply.text,
            reply.finish,
            reply.seconds,
            reply.usage.prompt_tokens,
            reply.usage.completion_tokens,
            reply.usd,
            reply.served_by,
            time.time(),
        )

    def _request(self, document: Document) -> CompletionRequest:
        payload: dict[str, Any] = {
            "model": self.entry.endpoint.model,
            "messages": self._task.messages(document),
            **self.entry.parameters,
        }
        # The most that it can take, or nearly so: the budget has to hold whatever comes.
        limit = payload.get("max_tokens") or payload.get("max_completion_tokens") or 0
        prompt_tokens = estimate_tokens_with_margin(len(json.dumps(payload, ensure_ascii=False)))
        return CompletionRequest(payload, Usage(prompt_tokens, int(limit)))

    def _key(self, document: Document) -> str:
        return self.entry.key(self._task.messages(document))
