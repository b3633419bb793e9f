"""RULER for summaries: relative rewards for a group, with the judge's failure rules."""

import json
from dataclasses import replace
from typing import Any

from precis.config import JudgeConfig
from precis.environments.ruler import TrajectoryRuler
from precis.environments.summaries.judge import JudgeClient
from precis.environments.summaries.prompt import summary_messages
from precis.environments.summaries.services import RUBRIC
from precis.llm.providers import Endpoint
from precis.llm.server import ChatRequest, Completion, completions_app
from precis.records.documents import Corpus, Document, Question
from precis.records.rollout import UNJUDGED, Call, Rollout, Scenario, Score, Unscored
from precis.rehearsal.judges.judge import lexical_judge
from precis.rehearsal.judges.ruler import attempt_scores, facts
from tests.support.environments import summaries
from tests.support.faults import Fault, Faults
from tests.support.faulty import FaultyServer

_DOCUMENT = (
    "On 3 March 2024 the town of Elmsford, led by Anna Ruiz, spent $1,200 on Lake Road. The mill "
    "had 40 workers. Later that week a neighbour, Clara Bell, wrote to the paper."
)
_LONG = f"{_DOCUMENT} {'The mill was quiet. ' * 500}"
_CONFIG = JudgeConfig(
    tries_max=3, backoff_s=0.01, call_timeout_s=10, verdict_timeout_s=60, model="lexical-judge"
)


def rollouts_of(*texts: str, text: str = _DOCUMENT) -> list[Rollout]:
    found = []
    for index, said in enumerate(texts):
        choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        call = Call(tuple(summary_messages(text)), choice)
        unjudged = Unscored(UNJUDGED, "No judge was asked yet.")
        found.append(Rollout(Scenario("d"), index, (call,), unjudged))
    return found


async def rank(server: FaultyServer, *texts: str, text: str = _DOCUMENT) -> list[Rollout]:
    question = Question("q", "Who led?", "Anna Ruiz", answerable=True)
    async with server as url:
        ruler = TrajectoryRuler(Endpoint(url, "lexical-judge", "key"), _CONFIG, RUBRIC)
        environment = summaries(Corpus((Document("d", "t", text, (question,)),), ()), judge=None)
        environment.ruler = ruler
        try:
            return list(await environment.rank(rollouts_of(*texts, text=text)))
        finally:
            await ruler.close()


def judge_server(faults: Faults | None = None, key: str | None = None) -> FaultyServer:
    return FaultyServer(completions_app(lexical_judge(), list, key), faults)


async def test_rewards_rank_by_kept_facts() -> None:
    said = ("Nothing.", "Anna Ruiz spent $1,200 on Lake Road on 3 March.", "Anna Ruiz led.")
    nothing, most, little = await rank(judge_server(), *said)
    assert nothing.score == Score(0.0, metrics=nothing.metrics)
    assert most.reward is not None and little.reward is not None
    assert most.reward > little.reward > 0
    assert most.metrics["words"] == 10


async def test_a_long_document_is_shown_in_full() -> None:
    asked: list[str] = []

    async def complete(request: ChatRequest) -> Completion:
        asked.append(request.messages[-1]["content"])
        return await lexical_judge()(request)

    server = FaultyServer(completions_app(complete, list))
    await rank(server, "Anna Ruiz led.", "Nothing.", text=_LONG)
    shared = json.loads(asked[0])["shared"]
    assert shared == summary_messages(_LONG)
    assert json.loads(asked[0])["rubric"] == RUBRIC


async def test_what_has_a_score_already_is_not_ranked() -> None:
    question = Question("q", "Who led?", "Anna Ruiz", answerable=True)
    corpus = Corpus((Document("d", "t", _DOCUMENT, (question,)),), ())
    server = judge_server()
    async with server as url:
        ruler = TrajectoryRuler(Endpoint(url, "lexical-judge", "key"), _CONFIG, RUBRIC)
        environment = summaries(corpus, judge=None)
        environment.ruler = ruler
        zero, other = rollouts_of("Too long.", "Anna Ruiz led.")
        zero = replace(zero, score=Score(0.0, metrics={"over_length": 1.0}))
        ranked = await environment.rank([zero, other])
        assert ranked[0] is zero or ranked[0] == zero
        assert isinstance(ranked[1].score, Score)
        only_zero: Any = await environment.rank([zero])
        assert only_zero == [zero]
        await ruler.close()
    assert server.requests == 1


async def test_a_judge_of_the_same_account_shares_its_limits() -> None:
    server = judge_server(Faults({Fault.RATE_LIMITED: 1.0}))
    config = _CONFIG.model_copy(update={"tries_max": 1})
    async with server as url:
        endpoint = Endpoint(url, "lexical-judge", "key")
        async with JudgeClient(endpoint, config) as judge:
            ruler = TrajectoryRuler(endpoint, config, RUBRIC, None, judge.limiter)
            await ruler.score_by_index(rollouts_of("Nothing.", "Anna Ruiz."))
            assert judge.limiter.share < 1
            await ruler.close()


async def test_late_requests_are_not_asked_twice() -> None:
    """Whatever `hedge_quantile` says: a whole group is dear to ask about."""
    asked = 0

    async def complete(request: ChatRequest) -> Completion:
        nonlocal asked
        asked += 1
        return await lexical_judge()(request)

    faults = Faults({Fault.SLOW: 0.2}, slow_s=1.0)
    async with FaultyServer(completions_app(complete, list), faults) as url:
        config = _CONFIG.model_copy(update={"provider": "url", "hedge_quantile": 0.5})
        ruler = TrajectoryRuler(Endpoint(url, "lexical-judge", "key"), config, RUBRIC)
        for number in range(12):
            await ruler.score_by_index(rollouts_of("Nothing.", f"Anna Ruiz, {number}."))
        assert ruler.spend.calls == 12
        await ruler.close()


def test_facts_are_numbers_and_names_in_mid_sentence() -> None:
    found = facts(_DOCUMENT)
    assert {"3", "2024", "1200", "40", "anna", "ruiz", "clara"} <= found
    assert "on" not in found and "later" not in found


def test_attempts_at_anything_else_are_scored_by_the_words_that_came_back() -> None:
    asked = {"role": "user", "content": "Find the red door."}
    answer = {"role": "assistant", "content": "The red door."}
    result = {"role": "tool", "content": "A red door."}
    data = {
        "shared": [asked],
        "attempts": [
            {"id": "a1", "messages": [answer]},
            {"id": "a2", "messages": [answer, result]},
        ],
    }
    first, second = attempt_scores(data)["scores"]
    assert (first["score"], second["score"]) == (0.0, 0.5)
