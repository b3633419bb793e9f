"""A server with a simulated judge, which answers in a few words, and declines if the text lacks the
answer.

It knows the bundled corpus. It answers a question if the text has the document's sentence with the
answer: with the golden answer, in a model's spelling, or with that whole sentence. The share of
sentences is an assumption, and an option of the programs that depend on it.
"""

import asyncio
import hashlib
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import NormalDist
from typing import Any

from precis.config import DocumentsConfig
from precis.environments.summaries.judge.prompts import data_in
from precis.llm.loop_server import LoopServer
from precis.llm.server import ApiError, ChatRequest, Choice, Complete, Completion, completions_app
from precis.records.documents import UNANSWERABLE, Question, read_documents
from precis.text import tokens

SENTENCES = 0.25
"""The share of answers that are whole sentences; the others are the golden answer."""
_SET_DOWN = ("{}", "{}.", '"{}"')
"""Spellings of a golden answer by a model."""
MODEL = "google/gemini-2.5-flash"
"""The judge's name, which sets its price."""
_MEDIAN_S = 0.8
_P99_S = 4.0
_SIGMA = math.log(_P99_S / _MEDIAN_S) / NormalDist().inv_cdf(0.99)


def answer(text: str, question: str, sentences: float) -> str:
    """Return the model's answer to a question from a text; `sentences` is the share of answers that
    are a whole sentence."""
    for known in _questions().get(question, ()):
        if known.long_answer in text:
            # The same draw for the same request in every process.
            draw = Random(hashlib.sha256(f"{question}\0{text}".encode()).digest())
            if draw.random() < sentences:
                return known.long_answer
            return draw.choice(_SET_DOWN).format(known.answer)
    return UNANSWERABLE


def grade(gold: str, given: str) -> bool:
    """Return whether a given answer has the golden one's words, in their order and together."""
    if UNANSWERABLE in (gold, given):
        return gold == given
    return f" {' '.join(tokens(gold))} " in f" {' '.join(tokens(given))} "


def model_judge(sentences: float) -> Complete:
    """Return the model as a server's function; a token is four characters.

    It raises ApiError for messages that the judge's protocol did not make.
    """
    _questions()  # reading them later would delay the first answers by seconds

    async def complete(request: ChatRequest) -> Completion:
        try:
            data = data_in(request.messages)
            reply = json.dumps(_reply(data, sentences), ensure_ascii=False)
        except (LookupError, TypeError, ValueError) as error:
            said = "Only the judge's protocol is understood."
            raise ApiError(400, said, "invalid_request") from error
        sent = sum(len(str(message["content"])) for message in request.messages)
        choice = Choice(reply, completion_tokens=len(reply) // 4)
        return Completion(request.model, [choice], prompt_tokens=sent // 4)

    return complete


def _reply(data: dict[str, Any], sentences: float) -> dict[str, Any]:
    if "questions" in data:
        is_summary = "summary" in data
        text = data["summary"] if is_summary else data["text"]
        answers = []
        for asked in data["questions"]:
            said = answer(text, asked["question"], sentences)
            answers.append({"id": asked["id"], "answer": said})
        return {"answers": answers} | ({"is_prose": True} if is_summary else {})
    grades = []
    for item in data["items"]:
        correct = grade(item["golden_answer"], item["given_answer"])
        grades.append({"id": item["id"], "correct": correct})
    return {"grades": grades}


@cache
def _questions() -> dict[str, list[Question]]:
    """Return the bundled corpus's answerable questions by text; documents may share one."""
    found: dict[str, list[Question]] = defaultdict(list)
    for document in read_documents(DocumentsConfig()):
        for question in document.questions:
            if question.answerable:
                found[question.text].append(question)
    return found


@dataclass
class Server:
    """A server in another process; its counts are available after the block."""

    url: str
    requests: int = 0
    refused: int = 0


class Slow:
    """Answers as late as Gemini does, and refuses what is beyond a limit.

    Latencies are log-normal, and drawn from the request, how often it was seen, and a seed: the
    order in which concurrent requests arrive changes none.

    Attributes:
        requests: the number of all requests.
        refused: the number of those beyond the limit.
        ends: set once nobody waits for an answer any more.
    """

    def __init__(self, judge: Complete, seed: int, in_flight_max: int | None) -> None:
        self._judge = judge
        self._seed = seed
        self._in_flight_max = in_flight_max
        self._in_flight = 0
        self._seen: Counter[str] = Counter()
        self.requests = 0
        self.refused = 0
        self.ends = asyncio.Event()

    async def __call__(self, request: ChatRequest) -> Completion:
        self.requests += 1
        if self._in_flight_max is not None and self._in_flight >= self._in_flight_max:
            self.refused += 1
            raise ApiError(429, "Too many requests are under way.", "rate_limit")
        sent = request.model_dump_json()
        self._seen[sent] += 1
        draw = Random(f"{self._seed}:{self._seen[sent]}:{sent}")
        self._in_flight += 1
        try:
            with suppress(TimeoutError):
                latency_s = _MEDIAN_S * math.exp(draw.gauss(0, _SIGMA))
                await asyncio.wait_for(self.ends.wait(), latency_s)
            return await self._judge(request)
        finally:
            self._in_flight -= 1


@asynccontextmanager
async def served(
    seed: int, sentences: float, in_flight_max: int | None = None
) -> AsyncIterator[Server]:
    """Run this file while the block lasts."""
    plan = [seed, sentences, in_flight_max]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", __name__, json.dumps(plan)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    server = Server(json.loads(await process.stdout.readline())["url"])
    try:
        yield server
    finally:
        process.stdin.close()
        seen = json.loads(await process.stdout.readline())
        await process.wait()
        server.requests = seen["requests"]
        server.refused = seen["refused"]


async def _serve(seed: int, sentences: float, in_flight_max: int | None) -> None:
    """Serve until standard input ends, then print the counts."""
    judge = Slow(model_judge(sentences), seed, in_flight_max)
    server = LoopServer(completions_app(judge, lambda: [MODEL]))
    await server.start()
    print(json.dumps({"url": f"http://127.0.0.1:{server.port}/v1"}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    judge.ends.set()
    await server.stop()
    print(json.dumps({"requests": judge.requests, "refused": judge.refused}), flush=True)


if __name__ == "__main__":
    asyncio.run(_serve(*json.loads(sys.argv[1])))
