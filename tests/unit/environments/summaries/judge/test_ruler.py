"""RULER for summaries: relative rewards for a group, with the judge's failure rules."""

from precis.config import JudgeConfig
from precis.environments.ruler import TrajectoryRuler, transcript_of
from precis.environments.summaries.judge import JudgeClient
from precis.environments.summaries.prompt import summary_messages
from precis.environments.summaries.services import RUBRIC
from precis.llm.providers import Endpoint
from precis.llm.server import completions_app
from precis.records.rollout import UNJUDGED, Call, Rollout, Scenario, Unscored
from precis.rehearsal.judges.judge import attempt_scores, facts, lexical_judge
from tests.support.faults import Fault, Faults
from tests.support.faulty import FaultyServer

_DOCUMENT = (
    "On 3 March 2024 the town of Elmsford, led by Anna Ruiz, spent $1,200 on Lake Road. The mill "
    "had 40 workers. Later that week a neighbour, Clara Bell, wrote to the paper."
)


def rollouts_of(*texts: str) -> list[Rollout]:
    found = []
    for index, said in enumerate(texts):
        choice = {"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        call = Call(tuple(summary_messages(_DOCUMENT)), choice)
        unjudged = Unscored(UNJUDGED, "No judge was asked yet.")
        found.append(Rollout(Scenario("d"), index, (call,), unjudged))
    return found


async def test_a_judge_of_the_same_account_shares_its_limits() -> None:
    limited = Faults({Fault.RATE_LIMITED: 1.0})
    config = JudgeConfig(tries_max=1, model="lexical-judge")
    async with FaultyServer(completions_app(lexical_judge(), list), limited) as url:
        endpoint = Endpoint(url, "lexical-judge", "key")
        async with JudgeClient(endpoint, config) as judge:
            ruler = TrajectoryRuler(endpoint, config, RUBRIC, None, judge.limiter)
            rollouts = rollouts_of("Nothing.", "Anna Ruiz.")
            await ruler.score(list(map(transcript_of, rollouts)))
            assert judge.limiter.share < 1
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
