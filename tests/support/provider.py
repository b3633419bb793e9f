"""Somebody who serves a model."""

import asyncio
from collections.abc import Callable

from precis.llm.server import ChatRequest, Choice, Completion


class Provider:
    """Answers every request with what `answer` returns for it."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []
        self.answer: Callable[[ChatRequest], Choice] = lambda request: Choice("The mayor did.")
        self.serves_as: str | None = None

    async def __call__(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        await asyncio.sleep(0)
        return Completion(self.serves_as or request.model, [self.answer(request)])
