"""Sample, score, filter: what becomes of rollouts that go well, badly, or not at all."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, cast

import openai
import pytest

from precis.config import RolloutsConfig
from precis.errors import (
    JudgeUnavailable,
    RolloutError,
    StaleAdapter,
    TrainerError,
    TrainerLost,
)
from precis.judge import JudgeClient, Unscored, Verdict
from precis.llm.client import ChatClient
from precis.llm.loop_server import LoopServer
from precis.llm.server import ApiError, ChatRequest, Choice, Completion, completions_app
from precis.llm.tls import tls_for
from precis.records.documents import Document
from precis.records.spend import Spend
from precis.sampling.policy import policy_client
from precis.sampling.rollouts import (
    gather,
    gather_greedy,
    reward,
    roll_out,
    sample_seed,
    split_groups,
)
from precis.summaries.task import Summarizing
from precis.training.batch import StepRollouts, filter_groups
from precis.training.steps import step_record, validation_of
from tests.support.rollouts import DOCUMENT, rollouts, scored

TASK = Summarizing(350)


class Policy:
    """Answers every request with what `answer` returns for it."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []
        self.answer: Callable[[ChatRequest], str] = lambda request: f"The mayor {request.seed}."
        self.serves_as: str | None = None

    async def __call__(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        await asyncio.sleep(0)
        return Completion(self.serves_as or request.model, [Choice(self.answer(request))])


class Judge:
    """Rules as it is told to."""

    def __init__(self, rule: Callable[[str], Verdict]) -> None:
        self.rule, self.asked = rule, 0

    async def score(self, document: Document, summary: str) -> Verdict:
        self.asked += 1
        return self.rule(summary)


def failing(status: int, code: str) -> Callable[[ChatRequest], str]:
    """What a policy answers that only has errors."""

    def fail(_: ChatRequest) -> str:
        raise ApiError(status, "no summary today", code)

    return fail


def judge(rule: Callable[[str], Verdict] = lambda _: scored(True)) -> JudgeClient:
    return cast(JudgeClient, Judge(rule))


@pytest.fixture
def policy() -> Policy:
    return Policy()


@pytest.fixture
async def client(policy: Policy) -> AsyncIterator[openai.AsyncOpenAI]:
    server = LoopServer(completions_app(policy, lambda: ["m"]))
    await server.start()
    url = f"http://127.0.0.1:{server.port}/v1"
    http = openai.DefaultAsyncHttpxClient(verify=tls_for(url))
    async with openai.AsyncOpenAI(
        base_url=url, api_key="none", max_retries=0, http_client=http
    ) as client:
        yield client
    await server.stop()


def config(**settings: Any) -> RolloutsConfig:
    return RolloutsConfig.model_validate({"rollouts_per_group": 4, "scored_min": 3, **settings})


@pytest.fixture
async def asked(client: openai.AsyncOpenAI) -> AsyncIterator[ChatClient]:
    async with policy_client(client, "m", config()) as policy:
        yield policy


async def test_a_step_samples_the_same_however_it_is_interleaved(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    rows = [
        await gather(
            client, "m@0", TASK, judge(), [DOCUMENT], config(in_flight=slots), seed=1, step=0
        )
        for slots in (1, 64)
    ]
    texts = [[one.summary.text for one in row[0] if one.summary] for row in rows]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 4


def test_seeds_differ_by_turn() -> None:
    seeds = {sample_seed(1, 0, "a", 0, turn) for turn in range(5)}
    assert len(seeds) == 5
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_seeds_differ_by_step_document_and_index() -> None:
    seeds = {sample_seed(1, step, name, at) for step in (0, 1) for name in "ab" for at in (0, 1)}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**31 for seed in seeds)


async def test_validation_is_greedy(client: openai.AsyncOpenAI, policy: Policy) -> None:
    await gather_greedy(client, "m@0", TASK, judge(), [DOCUMENT], config())
    assert policy.requests[0].temperature == 0


async def test_a_stale_adapter_stops_the_step(client: openai.AsyncOpenAI, policy: Policy) -> None:
    policy.serves_as = "m@3"
    with pytest.raises(StaleAdapter, match="'m@3' answered where 'm@4' was asked for"):
        await gather(client, "m@4", TASK, judge(), [DOCUMENT], config(), seed=1, step=4)


async def test_nobody_at_the_address_is_a_lost_trainer() -> None:
    async with openai.AsyncOpenAI(
        base_url="http://127.0.0.1:9", api_key="x", max_retries=0
    ) as gone:
        with pytest.raises(TrainerLost):
            await gather(gone, "m@0", TASK, judge(), [DOCUMENT], config(), seed=1, step=0)


@pytest.mark.parametrize(
    ("summary", "cause"),
    [("word " * 351, "over_length"), ("", "empty"), ("мэр открыл новый мост", "wrong_script")],
)
async def test_a_disqualified_summary_scores_zero_without_asking_the_judge(
    asked: ChatClient, policy: Policy, summary: str, cause: str
) -> None:
    policy.answer = lambda _: summary
    ruling = Judge(lambda _: scored(True))
    rollout = await roll_out(asked, TASK, cast(JudgeClient, ruling), DOCUMENT, config(), seed=1)
    assert (rollout.disqualified, reward(rollout), ruling.asked) == (cause, 0.0, 0)


async def test_a_policy_that_fails_leaves_an_unscored_rollout(
    asked: ChatClient, policy: Policy
) -> None:
    policy.answer = failing(500, "internal")
    rollout = await roll_out(asked, TASK, judge(), DOCUMENT, config(), seed=1)
    assert isinstance(rollout.verdict, Unscored)
    assert rollout.verdict.cause == "generation_failed"


async def test_a_slow_rollout_costs_itself(asked: ChatClient) -> None:
    class Slow(Judge):
        async def score(self, document: Document, summary: str) -> Verdict:
            await asyncio.sleep(10)
            return scored(True)

    slow = cast(JudgeClient, Slow(lambda _: scored(True)))
    rollout = await roll_out(asked, TASK, slow, DOCUMENT, config(timeout_s=0.05), seed=1)
    assert isinstance(rollout.verdict, Unscored)
    assert rollout.verdict.cause == "rollout_timeout"


async def test_too_many_unscored_rollouts_stop_the_step_with_their_causes(
    client: openai.AsyncOpenAI,
) -> None:
    failing = judge(lambda _: Unscored("rate_limited", "Too many requests."))
    with pytest.raises(JudgeUnavailable, match=r"4 of 4 .*\(4 rate_limited\).*Too many requests"):
        await gather(client, "m@0", TASK, failing, [DOCUMENT], config(), seed=1, step=0)


class Ruler:
    """Ranks groups as it is told to."""

    def __init__(self, scores: list[float] | Unscored) -> None:
        self.scores = scores

    async def score_group(self, group: Any) -> list[float] | Unscored:
        scores = self.scores
        return scores if isinstance(scores, Unscored) else scores[: len(group.trajectories)]


async def test_a_ruler_ranks_what_is_in_order_and_the_rest_scores_zero(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    policy.answer = lambda _: "word " * 351 if len(policy.requests) == 1 else "The mayor."
    ruler = cast(Any, Ruler([0.9, 0.4, 0.1]))
    judge_never_asked = Judge(lambda _: scored(True))
    rows = await gather(
        client,
        "m@0",
        TASK,
        cast(JudgeClient, judge_never_asked),
        [DOCUMENT],
        config(in_flight=1),
        seed=1,
        step=0,
        ruler=ruler,
    )
    assert [reward(one) for one in rows[0]] == [0.0, 0.9, 0.4, 0.1]
    assert judge_never_asked.asked == 0


async def test_a_ruler_that_fails_leaves_the_group_unscored(client: openai.AsyncOpenAI) -> None:
    failing = cast(Any, Ruler(Unscored("bad_verdict", "Scores out of range.")))
    with pytest.raises(JudgeUnavailable, match=r"4 bad_verdict"):
        await gather(
            client, "m@0", TASK, judge(), [DOCUMENT], config(), seed=1, step=0, ruler=failing
        )


def test_an_unscored_rollout_has_no_reward() -> None:
    with pytest.raises(RolloutError, match="has no reward"):
        reward(rollouts(LOST)[0])


async def test_a_model_that_is_not_there_is_the_trainers_fault(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    policy.answer = failing(404, "model_not_found")
    with pytest.raises(TrainerError, match="m@7 can't be asked"):
        await gather(client, "m@7", TASK, judge(), [DOCUMENT], config(), seed=1, step=7)


async def test_a_policy_that_writes_nothing_is_no_outage_of_the_judge(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    policy.answer = failing(500, "internal")
    with pytest.raises(RolloutError, match=r"4 generation_failed") as caught:
        await gather(client, "m@0", TASK, judge(), [DOCUMENT], config(), seed=1, step=0)
    assert not isinstance(caught.value, JudgeUnavailable)


LOST = Unscored("timeout", "late")


def test_a_failed_verdict_is_never_a_zero() -> None:
    kept, dropped = split_groups([rollouts(True, False, True, LOST)], config())
    assert [one.reward for one in kept[0].trajectories] == [1.0, 0.0, 1.0]
    assert not dropped


def test_a_group_under_its_floor_is_dropped_and_counted() -> None:
    kept, dropped = split_groups([rollouts(True, False, LOST, LOST)], config())
    assert (kept, dict(dropped)) == ([], {"too_few_scored": 1})


def test_a_group_without_variance_is_dropped_and_counted() -> None:
    kept, dropped = split_groups([rollouts(True, True, True, True)], config())
    assert (kept, dict(dropped)) == ([], {"zero_variance": 1})


def test_the_record_of_a_step_counts_causes_and_leaves_the_unscored_out() -> None:
    rows = [rollouts(True, False, LOST, LOST), rollouts(True, True, True, LOST)]
    sampled = StepRollouts(rows, adapter=0, seconds=2.0, spend=Spend())
    batch = filter_groups(sampled, config())
    record = step_record(0, batch, seconds={"gather": 2.5}, judge=Spend(calls=3))
    assert record.reward == pytest.approx(4 / 5)
    assert record.unscored == {"timeout": 3}
    assert record.groups_dropped == {"too_few_scored": 1, "zero_variance": 1}
    assert (record.groups_trained, record.staleness, record.overlapped_s) == (0, 0, 0.0)


def test_the_record_of_a_step_that_was_sampled_ahead_says_how_stale_and_what_it_saved() -> None:
    sampled = StepRollouts([rollouts(True, False)], adapter=6, seconds=5.0, spend=Spend())
    batch = filter_groups(sampled, config())
    record = step_record(7, batch, seconds={"gather": 1.5, "wait": 0.5}, judge=Spend())
    assert record.staleness == 1
    assert record.overlapped_s == 3.5


def test_a_validation_leaves_the_unscored_out_of_its_accuracy() -> None:
    validation = validation_of(3, rollouts(True, True, False, LOST), 1.0)
    accuracy = validation.score
    assert accuracy.value == pytest.approx(2 / 3)
    assert validation.unscored == {"timeout": 1}
    assert accuracy.low is not None and accuracy.high is not None
    assert accuracy.low <= accuracy.value <= accuracy.high


def test_a_validation_without_any_verdict_is_no_zero() -> None:
    with pytest.raises(JudgeUnavailable, match="No held-out summary could be judged"):
        validation_of(3, rollouts(LOST, LOST), 1.0)


def numbered(*names: str) -> list[Document]:
    """Documents by name; those called `flat…` have summaries that all earn the same."""
    return [Document(name, "t", f"The {name} bridge.", DOCUMENT.questions) for name in names]


def varied(document: Document, summary: str) -> Verdict:
    """Right for every second seed, or for none where the document is flat."""
    right = not document.id.startswith("flat") and summary.endswith(("0.", "2.", "4.", "6.", "8."))
    return scored(right)


class ByDocument:
    """Rules by document and summary."""

    async def score(self, document: Document, summary: str) -> Verdict:
        return varied(document, summary)


@pytest.mark.parametrize(
    ("names", "spares", "taken"),
    [
        (("a", "b"), ("c", "d"), ("a", "b")),
        (("flat", "b"), ("c", "d"), ("flat", "b", "c")),
        (("flat", "flat2"), ("c", "d", "e"), ("flat", "flat2", "c", "d")),
        (("flat", "b"), ("flat2", "flat3", "c", "d"), ("flat", "b", "flat2", "flat3", "c")),
        (("flat", "flat2"), ("flat3",), ("flat", "flat2", "flat3")),
        (("flat", "b"), (), ("flat", "b")),
    ],
)
async def test_a_group_without_variance_is_made_up_for_by_the_next_document(
    names: tuple[str, ...],
    spares: tuple[str, ...],
    taken: tuple[str, ...],
    client: openai.AsyncOpenAI,
) -> None:
    for slots in (1, 3, 64):
        rows = await gather(
            client,
            "m@0",
            TASK,
            cast(JudgeClient, ByDocument()),
            numbered(*names),
            config(in_flight=slots, rollouts_per_group=8),
            seed=1,
            step=0,
            spares=numbered(*spares),
        )
        assert tuple(row[0].document.id for row in rows) == taken


async def test_a_group_that_nobody_could_judge_is_not_made_up_for(
    client: openai.AsyncOpenAI,
) -> None:
    out = judge(lambda _: LOST)
    settings = config(unscored_share_max=1.0)
    rows = await gather(
        client, "m@0", TASK, out, [DOCUMENT], settings, seed=1, step=0, spares=numbered("c")
    )
    assert len(rows) == 1


async def test_a_document_that_a_batch_has_twice_stays_twice(client: openai.AsyncOpenAI) -> None:
    twice = [DOCUMENT, DOCUMENT]
    rows = await gather(client, "m@0", TASK, judge(), twice, config(), seed=1, step=0)
    assert len(rows) == 2


async def test_length_costs_reward_in_training_and_not_in_validation(
    client: openai.AsyncOpenAI, policy: Policy
) -> None:
    policy.answer = lambda request: "word " * (40 if request.seed is None else 38)
    task = Summarizing(40, length_ramp=0.1)
    (row,) = await gather(client, "m@0", task, judge(), [DOCUMENT], config(), seed=1, step=0)
    assert [one.reward for one in row] == [pytest.approx(0.5)] * 4
    assert all(one.verdict == scored(True) for one in row)
    (greedy,) = await gather_greedy(client, "m@0", task, judge(), [DOCUMENT], config())
    assert (greedy.words, greedy.reward) == (40, 1.0)


def test_a_group_is_trained_on_with_what_is_left_of_its_rewards() -> None:
    row = rollouts(True, True, True, True)
    row = [replace(one, share=1 - one.index / 10) for one in row]
    (group,), dropped = split_groups([row], config())
    assert [one.reward for one in group.trajectories] == [1.0, 0.9, 0.8, pytest.approx(0.7)]
    assert not dropped
