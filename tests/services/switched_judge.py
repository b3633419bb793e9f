"""A judge behind HTTP that a test can turn away from, and back."""

import asyncio

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from precis.llm.server import completions_app
from precis.rehearsal.judges.judge import lexical_judge
from tests.services.conftest import JUDGE_KEY
from tests.support.faulty import FaultyServer


class SwitchedJudge:
    """The lexical judge; while `refuses` is set, it takes nobody's key.

    async with SwitchedJudge("a-model") as judge: judge.url, judge.refuses = True

    Args:
        model: the judge's name, each test's own: what a judge of the same name has said already
            comes from the cache of replies, and the judge that is to refuse is never asked.
        pause_s: before it replies, so that somebody who looks every few seconds sees each step.
    """

    def __init__(self, model: str, pause_s: float = 0) -> None:
        self.model, self.pause_s = model, pause_s
        self.refuses = False
        self.url = ""
        self._judge = completions_app(lexical_judge, lambda: [model], JUDGE_KEY)
        self._server = FaultyServer(self._answer)

    async def __aenter__(self) -> "SwitchedJudge":
        self.url = await self._server.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.__aexit__(*error)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = JSONResponse({"error": {"message": "This key is no longer valid."}}, 401)
        await asyncio.sleep(self.pause_s)
        await (refusal if self.refuses else self._judge)(scope, receive, send)
