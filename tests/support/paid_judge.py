"""A judge whose pay is counted where it works, and not by who asks it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.llm.server import ApiError, ChatRequest, Completion, completions_app
from precis.rehearsal.judges.judge import lexical_judge
from precis.text import count_words
from tests.support.faulty import FaultyServer
from tests.support.in_process import Life

KEY = "a-key-that-must-not-be-seen"


class PaidJudge:
    """The lexical judge, for a dollar a million tokens; after so many answers it is out."""

    def __init__(self) -> None:
        self.answers_left = 1_000_000
        self._tokens = 0
        self._answer = lexical_judge

    async def complete(self, asked: ChatRequest) -> Completion:
        if not self.answers_left:
            raise ApiError(500, "It is out.", "server_error")
        self.answers_left -= 1
        completion = await self._answer(asked)
        self._tokens += sum(count_words(str(message["content"])) for message in asked.messages)
        self._tokens += sum(choice.tokens for choice in completion.choices)
        return completion

    @property
    def usd(self) -> float:
        return self._tokens / 1_000_000


@asynccontextmanager
async def paid(
    folder: Path, fault_share: float = 0.0, **settings: Any
) -> AsyncIterator[tuple[Life, PaidJudge]]:
    """A run whose judge is behind HTTP and takes a dollar a million tokens."""
    judge = PaidJudge()
    app = completions_app(judge.complete, lambda: [LEXICAL_MODEL], KEY)
    async with FaultyServer(app, fault_share, seed=3) as url:
        limits = {"requests_per_minute": 100_000}
        fast = {"call_timeout_s": 60, "backoff_s": 0.01, "limits": limits}
        # Hedging, which a busy machine gives cause for, asks and pays twice.
        prices = {"prices": {LEXICAL_MODEL: [1.0, 1.0]}, "hedge_quantile": 0}
        asked = {"provider": "url", "base_url": url, "model": LEXICAL_MODEL, **fast, **prices}
        yield Life(folder, {"judge": asked, **settings}), judge
