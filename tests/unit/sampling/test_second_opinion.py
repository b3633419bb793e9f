"""A second judge's verdicts: beside the first's, never in their place."""

from typing import cast

import pytest

from precis.judge import JudgeClient, Unscored, Verdict
from precis.observe.completions import completions_of_step
from precis.observe.samples import SAMPLE_COLUMNS, sample_rows
from precis.records.documents import Document, Question
from precis.records.metrics import validation_metrics
from precis.records.summary import Summary
from precis.sampling.rollouts import Rollout
from precis.sampling.second_opinion import judge_again
from precis.sampling.transcript import transcript
from precis.summaries.rewards import score_zero
from precis.training.steps import validation_of
from tests.support.rollouts import scored

DOCUMENT = Document(
    "d", "Local News", "The mayor opened the bridge.", (Question("q", "Who?", "the mayor", True),)
)
WRITTEN = Rollout(DOCUMENT, Summary("The mayor opened the bridge today."), scored(True))
EMPTY = Rollout(DOCUMENT, Summary(""), score_zero(DOCUMENT), "empty")
LOST = Rollout(DOCUMENT, None, Unscored("rollout_timeout", "No verdict within 1 s."))


class Judge:
    """Says the same of every summary, and counts them."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.asked = 0

    async def score(self, document: Document, summary: str) -> Verdict:
        self.asked += 1
        return self.verdict


async def again(verdict: Verdict, *rollouts: Rollout) -> list[Rollout]:
    return await judge_again(cast(JudgeClient, Judge(verdict)), rollouts)


async def test_what_is_written_is_judged_again_and_nothing_else() -> None:
    second = Judge(scored(False))
    found = await judge_again(cast(JudgeClient, second), [WRITTEN, EMPTY, LOST])
    assert [one.verdict for one in found] == [WRITTEN.verdict, EMPTY.verdict, LOST.verdict]
    assert [one.second for one in found] == [scored(False), EMPTY.verdict, LOST.verdict]
    assert second.asked == 1


async def test_a_validation_keeps_both_judges_by_document() -> None:
    found = await again(scored(False), WRITTEN, WRITTEN, EMPTY, LOST)
    validation = validation_of(3, found, 1.0, "other")
    assert validation.score.scores == (1, 1, 0, None)
    assert validation.score.weights == (1, 1, 1, None)
    assert validation.metrics["copied"].value == pytest.approx((5 / 6 + 5 / 6 + 0) / 3)
    assert validation.metrics["prose"].value == 1.0
    assert validation.second is not None
    assert (validation.second.judge, validation.second.value) == ("other", 0.0)
    assert validation.second.scores == (0, 0, 0, None)


async def test_observers_and_the_store_hear_of_both_judges() -> None:
    (found,) = await again(scored(False), WRITTEN)
    (told,) = completions_of_step([[found]], run="r", policy="m@3", split="val", step=3)
    assert (told.scores["accuracy"], told.scores["second_accuracy"]) == (1.0, 0.0)
    ((row),) = sample_rows([[found]])
    shown = dict(zip(SAMPLE_COLUMNS, row, strict=True))
    assert (shown["accuracy"], shown["second"]) == (1.0, 0.0)
    (group,) = transcript([[found]], "m@3")
    assert group.trajectories[0].metrics["second_correct"] == 0
    validation = validation_of(3, [found], 1.0, "other")
    metrics = validation_metrics(validation)
    assert (metrics["val/accuracy"], metrics["val/second_accuracy"]) == (1.0, 0.0)
    assert metrics["val/copied"] == pytest.approx(5 / 6)
    assert metrics["val/prose"] == 1.0


async def test_a_second_judge_that_fails_has_no_opinion_and_costs_no_validation() -> None:
    found = await again(Unscored("connection", "Nobody answers."), WRITTEN)
    validation = validation_of(3, found, 1.0, "other")
    assert validation.score.value == 1.0
    assert validation.second is None
    assert validation_of(3, [WRITTEN], 1.0).second is None
