"""What the judge's client costs, and that faults never become scores.

    python bench/judge.py compare     the notebook's protocol against ours, one step's judging
    python bench/judge.py faults      10,000 verdicts from a judge that fails 20 % of its requests
    python bench/judge.py memory      1,000 rollouts judged in one step

All of it judges summaries of the bundled corpus, by the lexical judge behind a `FaultyServer`. Both
are deterministic, so that verdicts can be compared one by one. Each command fails if what it is
there to show does not hold.
"""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import mean
from typing import Annotated, Any

import httpx
import typer
from starlette.applications import Starlette

from precis.completions import ChatRequest, Completion, completions_app
from precis.config import DocumentsConfig, JudgeConfig, JudgeLimits
from precis.documents import Document, Question, read_documents
from precis.judge import Answer, Endpoint, JudgeClient, Scored, Verdict
from precis.judge.prompts import UNANSWERABLE
from precis.judge.protocol import Graded, answer_prompt, grade_prompt, parse_answers, parse_grades
from precis.judge.protocol import Prompt as JudgePrompt
from precis.judge.providers import LEXICAL_MODEL
from precis.judge.spend import Spend, Usage
from precis.standins.faults import Faults, Latency
from precis.standins.faulty import OVER_IN_FLIGHT, FaultyServer
from precis.standins.judge import lexical_judge
from precis.standins.reader import answer, grade
from precis.text import sentences

MODEL = "google/gemini-2.5-flash"
GEMINI_LIKE = Latency(median_s=0.8, p99_s=4.0)
IN_FLIGHT_MAX = 64
NOTEBOOK_SLOTS = 20

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@dataclass(frozen=True)
class Case:
    """A document with one of its summaries."""

    document: Document
    summary: str


def cases(groups: int, rollouts: int, seed: int) -> list[Case]:
    """So many summaries of so many documents: a random third of a document's sentences."""
    draw, documents = Random(seed), read_documents(DocumentsConfig())
    return [
        Case(document, _summary(document, draw))
        for document in draw.sample(documents, groups)
        for _ in range(rollouts)
    ]


def _summary(document: Document, draw: Random) -> str:
    found = sentences(document.text)
    kept = sorted(draw.sample(range(len(found)), len(found) // 3))
    return " ".join(found[index] for index in kept)


def truth(case: Case) -> Scored:
    """The verdict that the lexical judge comes to, without HTTP or protocol."""
    return Scored(tuple(_ruled(case.summary, question) for question in case.document.questions))


def _ruled(summary: str, question: Question) -> Answer:
    said = answer(summary, question.text)
    if question.answerable:
        correct = said != UNANSWERABLE and grade(question.text, question.answer, said)
    else:
        correct = said == UNANSWERABLE
    return Answer(question.id, said, correct, question.answerable)


# The judge's server.


def judge_app() -> Starlette:
    """The lexical judge under Gemini's name, with tokens counted as a model's would be."""
    complete = lexical_judge()

    async def counted(request: ChatRequest) -> Completion:
        completion = await complete(request.model_copy(update={"model": LEXICAL_MODEL}))
        sent = sum(len(str(message["content"])) for message in request.messages)
        choices = [
            replace(choice, completion_tokens=len(choice.content) // 4)
            for choice in completion.choices
        ]
        return replace(completion, model=MODEL, choices=choices, prompt_tokens=sent // 4)

    return completions_app(counted, lambda: [MODEL])


@dataclass
class Server:
    """A judge in a process of its own; what it saw is there after the block."""

    url: str
    requests: int = 0
    peak_per_minute: int = 0
    counts: Counter[str] | None = None


@asynccontextmanager
async def served(faults: float, seed: int, latency: Latency) -> AsyncIterator[Server]:
    """Run `serve` below while the block lasts."""
    arguments = [str(faults), str(seed), str(latency.median_s), str(latency.p99_s)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(__file__, "serve", *arguments),
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
    server.requests, server.peak_per_minute = seen["requests"], seen["peak"]
    server.counts = Counter(seen["counts"])


@app.command(hidden=True)
def serve(faults: float, seed: int, median_s: float, p99_s: float) -> None:
    """Serve until standard input ends, then say what came."""

    async def until_told() -> None:
        plan = Faults.evenly(faults, seed=seed, retry_after_s=0.05, slow_s=5.0, drip_s=0.05)
        server = FaultyServer(judge_app(), plan, Latency(median_s, p99_s))
        async with server as url:
            print(json.dumps({"url": url}), flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        seen = {"requests": server.requests, "peak": server.peak(60), "counts": server.counts}
        print(json.dumps(seen), flush=True)

    asyncio.run(until_told())


# The notebook's protocol.


class Notebook:
    """ART's summarizer notebook: a question at a time, answer and grade, summary and document."""

    def __init__(self, url: str, slots: int = NOTEBOOK_SLOTS) -> None:
        self._url, self._slots = f"{url}/chat/completions", asyncio.Semaphore(slots)
        self._http = httpx.AsyncClient(timeout=None)
        self.spend = Spend()

    async def score(self, case: Case) -> Scored:
        """The verdict on the summary; the document's own is asked for too, and not used."""
        answers = []
        for question in case.document.questions:
            answers.append(await self._judged(case, question, case.summary))
            await self._judged(case, question, case.document.text)
        return Scored(tuple(answers))

    async def close(self) -> None:
        await self._http.aclose()

    async def _judged(self, case: Case, question: Question, text: str) -> Answer:
        prompt = answer_prompt(text, [question])
        [said] = parse_answers(await self._asked(prompt), prompt.ids)
        prompt = grade_prompt([Graded(question, said)], case.document.text)
        [correct] = parse_grades(await self._asked(prompt), prompt.ids)
        return Answer(question.id, said, correct, question.answerable)

    async def _asked(self, prompt: JudgePrompt) -> str:
        body = {"model": MODEL, "messages": prompt.messages, "temperature": 0}
        async with self._slots:
            response = await self._http.post(self._url, json=body)
        reply: dict[str, Any] = response.raise_for_status().json()
        self.spend += Spend.of_call(MODEL, Usage.from_response(reply["usage"]))
        return str(reply["choices"][0]["message"]["content"])


@dataclass(frozen=True)
class Step:
    """The judging of one training step."""

    requests: int
    wall_s: float
    usd: float
    verdicts: list[Verdict]


async def notebook_step(step: Sequence[Case], seed: int) -> Step:
    """Judge a step's summaries as the notebook does."""
    server = FaultyServer(judge_app(), Faults(seed=seed), GEMINI_LIKE, IN_FLIGHT_MAX)
    async with server as url:
        judge, began = Notebook(url), time.perf_counter()
        verdicts = await asyncio.gather(*(judge.score(case) for case in step))
        wall_s = time.perf_counter() - began
        await judge.close()
    return Step(server.requests, wall_s, judge.spend.usd, list(verdicts))


async def our_step(step: Sequence[Case], seed: int) -> Step:
    """Judge a step's summaries with `JudgeClient`."""
    config = JudgeConfig(provider="url", base_url="http://127.0.0.1/v1", model=MODEL)
    server = FaultyServer(judge_app(), Faults(seed=seed), GEMINI_LIKE, IN_FLIGHT_MAX)
    async with server as url, JudgeClient(Endpoint(url, MODEL, "key"), config) as judge:
        began = time.perf_counter()
        verdicts = await _scored(judge, step)
        wall_s = time.perf_counter() - began
        assert not server.counts[OVER_IN_FLIGHT]
        return Step(server.requests, wall_s, judge.spend.usd, verdicts)


async def _scored(judge: JudgeClient, some: Sequence[Case]) -> list[Verdict]:
    return await asyncio.gather(*(judge.score(case.document, case.summary) for case in some))


# The commands.


@app.command()
def compare(
    groups: Annotated[int, typer.Option(help="Groups of a step.")] = 5,
    rollouts: Annotated[int, typer.Option(help="Rollouts of a group.")] = 4,
    steps: Annotated[int, typer.Option(help="Steps to average over.")] = 4,
) -> None:
    """Requests, wall time and dollars of one step: the notebook's protocol and ours."""

    async def both(seed: int) -> tuple[Step, Step]:
        step = cases(groups, rollouts, seed)
        return await notebook_step(step, seed), await our_step(step, seed)

    async def run() -> list[tuple[Step, Step]]:
        return await asyncio.gather(*(both(seed) for seed in range(1, steps + 1)))

    pairs = asyncio.run(run())
    print(f"{'a step of ' + str(groups * rollouts) + ' summaries':<24}notebook      ours     ratio")
    for name, target in (("requests", "at least 10x"), ("wall_s", "at least 8x"), ("usd", "")):
        theirs, ours = (mean(getattr(pair[side], name) for pair in pairs) for side in (0, 1))
        print(f"{name:<24}{theirs:>8.4g}{ours:>10.4g}{theirs / ours:>9.1f}x  {target}".rstrip())
    different = sum(
        one != other for pair in pairs
        for one, other in zip(pair[0].verdicts, pair[1].verdicts, strict=True)
    )  # fmt: skip
    print(f"different verdicts      {different} of {steps * groups * rollouts}")
    _require(different == 0, "The two protocols came to different verdicts.")


@app.command()
def faults(
    verdicts: Annotated[int, typer.Option(help="Summaries to judge.")] = 10_000,
    share: Annotated[float, typer.Option(help="Share of requests that fail.")] = 0.2,
    per_minute: Annotated[int, typer.Option(help="The limit on requests.")] = 7_500,
    seed: int = 1,
) -> None:
    """No fault becomes a score, all that can be scored is, and the rate stays under its limit."""
    config = JudgeConfig(
        provider="url",
        base_url="http://127.0.0.1/v1",
        model=MODEL,
        limits=JudgeLimits(
            requests_per_minute=per_minute, tokens_per_minute=10**9, in_flight=IN_FLIGHT_MAX
        ),
        call_timeout_s=2.0,
        tries_max=10,
        backoff_s=0.05,
    )
    some = cases(100, verdicts // 100, seed)

    async def run() -> tuple[list[Verdict], Server, float]:
        async with (
            served(share, seed, Latency(0.05, 0.25)) as server,
            JudgeClient(Endpoint(server.url, MODEL, "key"), config) as judge,
        ):
            began = time.perf_counter()
            return await _scored(judge, some), server, time.perf_counter() - began

    given, server, wall_s = asyncio.run(run())
    _report_faults(some, given, server, wall_s, per_minute)


def _report_faults(
    some: Sequence[Case], given: Sequence[Verdict], server: Server, wall_s: float, limit: int
) -> None:
    assert server.counts is not None
    injected = server.counts.total() - server.counts["ok"]
    scored = [(case, verdict) for case, verdict in zip(some, given, strict=True)
              if isinstance(verdict, Scored)]  # fmt: skip
    wrong = sum(verdict != truth(case) for case, verdict in scored)
    causes = Counter(verdict.cause for verdict in given if not isinstance(verdict, Scored))
    print(f"{len(given):,} verdicts in {wall_s:.0f} s, {server.requests:,} requests")
    print(f"faults injected         {injected:,} ({injected / server.requests:.1%})")
    for name, count in sorted(server.counts.items()):
        print(f"  {name:<22}{count:,}")
    print(f"scored                  {len(scored):,}; unscored {dict(causes)}")
    print(f"scores made by a fault  {wrong}")
    print(f"peak of requests in any 60 s  {server.peak_per_minute:,} (limit {limit:,})")
    _require(wrong == 0, "A fault became a score.")
    _require(not causes, "A summary that could be scored was not.")
    _require(server.peak_per_minute <= limit, "The rate went over its limit.")


@app.command()
def memory(
    rollouts: Annotated[int, typer.Option(help="Rollouts of the step.")] = 1000,
    steps: Annotated[int, typer.Option(help="How often to repeat it.")] = 5,
) -> None:
    """Memory and file descriptors of a process that judges 1,000 rollouts at once."""
    # The flow's process has these in it, whatever the judge does.
    import art  # noqa: F401
    import prefect  # noqa: F401

    limits = JudgeLimits(requests_per_minute=10**6, tokens_per_minute=10**9, in_flight=64)
    config = JudgeConfig(provider="url", base_url="http://127.0.0.1/v1", model=MODEL, limits=limits)

    async def run() -> list[tuple[float, int, float]]:
        async with (
            served(0.0, 1, Latency(0.02, 0.1)) as server,
            JudgeClient(Endpoint(server.url, MODEL, "key"), config) as judge,
        ):
            return [await _step(judge, cases(rollouts // 8, 8, seed)) for seed in range(steps)]

    began = _footprint()
    print(f"{'start':<8}{began[0]:>6.0f} MiB{began[1]:>6} file descriptors")
    rows = asyncio.run(run())
    for index, (mib, descriptors, wall_s) in enumerate(rows, start=1):
        print(f"step {index:<3}{mib:>6.0f} MiB{descriptors:>6} file descriptors{wall_s:>7.1f} s")
    _require(max(row[0] for row in rows) < 600, "The process took 600 MiB or more.")
    _require(rows[-1][0] - rows[1][0] < 20, "Memory grew with the steps.")
    _require(rows[-1][1] <= rows[0][1], "File descriptors grew with the steps.")


async def _step(judge: JudgeClient, some: Sequence[Case]) -> tuple[float, int, float]:
    began = time.perf_counter()
    verdicts = await _scored(judge, some)
    assert all(isinstance(verdict, Scored) for verdict in verdicts)
    return (*_footprint(), time.perf_counter() - began)


def _footprint() -> tuple[float, int]:
    """Resident memory in MiB, and open file descriptors, of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20, len(os.listdir("/proc/self/fd"))


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        print(sentence, file=sys.stderr)
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
