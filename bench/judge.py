"""The cost of judging a step: the notebook's protocol against ours.

    python bench/judge.py

It judges summaries of the bundled corpus with a simulated model (`bench/judging.py`), which
answers as late as Gemini does. Both are deterministic, so that verdicts can be compared one by one.
It fails if the two protocols give different verdicts, or ours saves less than we claim.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import mean
from typing import Annotated, Any, TypeVar

import httpx
import typer

from bench.judging import MODEL, SENTENCES, served
from precis.config import DocumentsConfig, JudgeConfig
from precis.environments.summaries.judge import Answer, Endpoint, JudgeClient, Scored, Verdict
from precis.environments.summaries.judge.protocol import Prompt, answer_prompt, grade_prompt
from precis.records.documents import Document, Question, read_documents
from precis.records.spend import Spend, Usage
from precis.text import sentences as sentences_of

T = TypeVar("T")

_IN_FLIGHT_MAX = 64
_NOTEBOOK_SLOTS = 20
_REQUESTS_RATIO = 12
_WALL_RATIO = 10
_CONFIG = JudgeConfig(provider="url", base_url="http://127.0.0.1/v1", model=MODEL)


@dataclass(frozen=True)
class Case:
    """A document with one of its summaries."""

    document: Document
    summary: str


def cases(groups: int, rollouts: int, seed: int) -> list[Case]:
    """Return `rollouts` summaries of each of `groups` documents: a random third of its sentences
    each."""
    draw = Random(seed)
    documents = read_documents(DocumentsConfig())
    cases = []
    for document in draw.sample(documents, groups):
        for _ in range(rollouts):
            found = sentences_of(document.text)
            chosen = sorted(draw.sample(range(len(found)), len(found) // 3))
            cases.append(Case(document, " ".join(found[index] for index in chosen)))
    return cases


class Notebook:
    """The judge of ART's notebook: one question at a time, answer and grade, for summary and
    document."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self._url = f"{url}/chat/completions"
        self._slots = asyncio.Semaphore(_NOTEBOOK_SLOTS)
        self._http = http
        self.spend = Spend()

    async def score(self, document: Document, summary: str) -> Scored:
        """Return the verdict on the summary; the document's is requested too, and not used."""
        answers = []
        for question in document.questions:
            answers.append(await self._judged(document, question, summary))
            await self._judged(document, question, document.text)
        return Scored(tuple(answers))

    async def _judged(self, document: Document, question: Question, text: str) -> Answer:
        [said] = (await self._asked(answer_prompt(text, [question]))).answers
        [correct] = await self._asked(grade_prompt([(question, said)], document.text))
        return Answer(question.id, said, correct, question.answerable)

    async def _asked(self, prompt: Prompt[T]) -> T:
        body = {"model": MODEL, "messages": prompt.messages, "temperature": 0}
        async with self._slots:
            response = await self._http.post(self._url, json=body)
        reply: dict[str, Any] = response.raise_for_status().json()
        self.spend += Spend.of_call(MODEL, Usage.from_response(reply["usage"]))
        return prompt.parse(str(reply["choices"][0]["message"]["content"]), prompt.ids)


@dataclass(frozen=True)
class Step:
    """The judging of one training step."""

    wall_s: float
    spend: Spend
    verdicts: list[Verdict]

    @property
    def requests(self) -> int:
        return self.spend.calls + self.spend.given_up


async def judge_step(judge: Notebook | JudgeClient, step: Sequence[Case]) -> Step:
    """Judge a step's summaries."""
    before = judge.spend
    began = time.perf_counter()
    asked = [judge.score(case.document, case.summary) for case in step]
    verdicts = list(await asyncio.gather(*asked))
    wall_s = time.perf_counter() - began
    return Step(wall_s, judge.spend.since(before), verdicts)


def main(
    groups: Annotated[int, typer.Option(help="Groups of a step.")] = 5,
    rollouts: Annotated[int, typer.Option(help="Rollouts of a group.")] = 4,
    steps: Annotated[int, typer.Option(help="Steps of a run, which one client judges.")] = 3,
    runs: Annotated[int, typer.Option(help="Runs, each with its own summaries and times.")] = 4,
    hedge_quantile: Annotated[float, typer.Option(help="The setting; 0 asks nothing twice.")] = (
        _CONFIG.hedge_quantile
    ),
    sentences: Annotated[
        float, typer.Option(help="Share of given answers that are a sentence, and so graded.")
    ] = SENTENCES,
) -> None:
    """Print requests, wall time and dollars of a step, for the notebook's protocol and ours."""
    config = _CONFIG.model_copy(update={"hedge_quantile": hedge_quantile})

    async def run(seed: int) -> tuple[list[Step], list[Step]]:
        work = [cases(groups, rollouts, 100 * seed + step) for step in range(steps)]
        # The two protocols run one after the other. The notebook's steps run in parallel: they
        # mostly wait.
        async with (
            served(seed, sentences) as server,
            httpx.AsyncClient(timeout=None) as http,
        ):
            asked = [judge_step(Notebook(server.url, http), step) for step in work]
            theirs = await asyncio.gather(*asked)
        async with (
            served(seed, sentences, _IN_FLIGHT_MAX) as server,
            JudgeClient(Endpoint(server.url, MODEL, "key"), config) as judge,
        ):
            ours = [await judge_step(judge, step) for step in work]
        _require(not server.refused, "Too many requests were under way at once.")
        _require(
            server.requests <= sum(step.requests for step in ours),
            "The server saw more requests than the client counted.",
        )
        return list(theirs), ours

    print(f"{groups * rollouts} summaries a step {'notebook':>20}{'ours':>10}{'ratio':>9}")
    pairs = []
    for seed in range(1, runs + 1):
        theirs, ours = asyncio.run(run(seed))
        _row(f"run {seed}: wall_s", [one.wall_s for one in theirs], [one.wall_s for one in ours])
        pairs += list(zip(theirs, ours, strict=True))
    _summarized(pairs)


def _summarized(pairs: Sequence[tuple[Step, Step]]) -> None:
    theirs, ours = zip(*pairs, strict=True)
    requests = _row("requests", [one.requests for one in theirs], [one.requests for one in ours])
    _row("  of them abandoned", [0], [one.spend.given_up for one in ours])
    wall = _row("wall_s", [one.wall_s for one in theirs], [one.wall_s for one in ours])
    _row("usd", [one.spend.usd for one in theirs], [one.spend.usd for one in ours])
    different = sum(
        verdict != other
        for their, our in pairs
        for verdict, other in zip(their.verdicts, our.verdicts, strict=True)
    )
    asked = sum(len(one.verdicts) for one in ours)
    print(f"different verdicts: {different} of {asked:,}")
    _require(different == 0, "The two protocols gave different verdicts.")
    _require(requests >= _REQUESTS_RATIO, f"Fewer requests, but not {_REQUESTS_RATIO} times.")
    _require(wall >= _WALL_RATIO, f"Less wall time, but not {_WALL_RATIO} times.")


def _row(name: str, theirs: Sequence[float], ours: Sequence[float]) -> float:
    their = mean(theirs)
    our = mean(ours)
    ratio = their / our if our else float("inf")
    print(f"{name:<22}{their:>17.4g}{our:>10.4g}{f'{ratio:.1f}x':>9}", flush=True)
    return ratio


def _require(holds: bool, sentence: str) -> None:
    """Exit with a sentence and status 1 unless a claim holds."""
    if not holds:
        print(sentence, file=sys.stderr)
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
