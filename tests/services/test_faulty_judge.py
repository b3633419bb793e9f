"""The judge's client against a judge that fails: no fault becomes a score."""

import asyncio
from pathlib import Path
from random import Random

import pytest
from starlette.applications import Starlette

from precis.config import JudgeConfig, RateLimits
from precis.environments.summaries.judge import Endpoint, JudgeClient, Unscored, Verdict
from precis.environments.summaries.judge.cache import ReplyCache
from precis.llm.server import completions_app
from precis.records.documents import Document, Question
from precis.rehearsal.judges.judge import lexical_judge
from tests.support.faults import Fault, Faults, Latency
from tests.support.faulty import OVER_IN_FLIGHT, FaultyServer

pytestmark = pytest.mark.services

_REQUESTS_PER_MINUTE = 100_000
_CONFIG = JudgeConfig(
    provider="url",
    base_url="http://127.0.0.1/v1",
    model="lexical-judge",
    limits=RateLimits(
        requests_per_minute=_REQUESTS_PER_MINUTE, tokens_per_minute=10**9, in_flight=32
    ),
    # Longer than any good reply takes on a busy machine; only faults run into it.
    call_timeout_s=5.0,
    tries_max=10,
    backoff_s=0.01,
)
_FACTS = {
    "Who led the council as mayor?": ("The council was led by mayor {}.", "Anna Ruiz"),
    "How many workers did the mill employ?": ("The mill employed {} workers.", "40"),
    "When did the library open?": ("The library opened on {}.", "3 March"),
}


def judge_app() -> Starlette:
    return completions_app(lexical_judge(), lambda: ["lexical-judge"])


def document() -> Document:
    questions = [
        Question(question, question, gold, answerable=True)
        for question, (_, gold) in _FACTS.items()
    ]
    text = " ".join(sentence.format(gold) for sentence, gold in _FACTS.values())
    return Document("d", "news", text, tuple(questions))


def summaries(count: int) -> list[str]:
    """Different summaries, each with some of the facts."""
    draw, found = Random(1), []
    for number in range(count):
        kept = draw.sample(list(_FACTS.values()), draw.randrange(4))
        facts = " ".join(sentence.format(gold) for sentence, gold in kept)
        found.append(f"Report {number}. {facts}")
    return found


async def scored(
    server: FaultyServer, texts: list[str], config: JudgeConfig = _CONFIG
) -> list[Verdict]:
    async with server as url, JudgeClient(Endpoint(url, "lexical-judge", "key"), config) as judge:
        return await asyncio.gather(*(judge.score(document(), text) for text in texts))


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_judge_that_only_fails_leaves_every_summary_unscored(fault: Fault) -> None:
    faults = Faults({fault: 1.0}, retry_after_s=0.01, slow_s=2.0, drip_s=0.02)
    config = _CONFIG.model_copy(update={"tries_max": 2, "call_timeout_s": 0.2})
    verdicts = await scored(FaultyServer(judge_app(), faults), summaries(4), config)
    assert all(isinstance(verdict, Unscored) for verdict in verdicts)


async def test_the_client_stays_within_its_own_limit_at_once() -> None:
    limits = _CONFIG.limits.model_copy(update={"in_flight": 4})
    server = FaultyServer(judge_app(), latency=Latency(0.01, 0.03), in_flight_max=4)
    await scored(server, summaries(30), _CONFIG.model_copy(update={"limits": limits}))
    assert server.counts[OVER_IN_FLIGHT] == 0


async def test_a_repeated_run_makes_no_calls(tmp_path: Path) -> None:
    texts = summaries(50)
    server = FaultyServer(judge_app())
    async with server as url:
        endpoint = Endpoint(url, "lexical-judge", "key")
        runs = []
        for _ in range(2):
            with ReplyCache(tmp_path / "replies.sqlite") as cache:
                async with JudgeClient(endpoint, _CONFIG, cache=cache) as judge:
                    asked = (judge.score(document(), text) for text in texts)
                    runs.append((await asyncio.gather(*asked), judge.spend.calls))
    assert runs[0][0] == runs[1][0]
    assert runs[0][1] > 0 and runs[1][1] == 0
