"""What another judge makes of summaries that are judged already."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from precis.judge import JudgeClient
from precis.llm.concurrency import run_together
from precis.sampling.rollouts import Rollout


async def judge_again(judge: JudgeClient, rollouts: Sequence[Rollout]) -> list[Rollout]:
    """The rollouts with a second judge's verdicts beside those that they have.

    What was never written, or scored zero unread, is so for any judge.

    Raises:
        JudgeRejected: the judge rejects the key, the model or the request as such.
    """

    async def again(rollout: Rollout) -> Rollout:
        if rollout.summary is None or rollout.disqualified:
            return replace(rollout, second=rollout.verdict)
        verdict = await judge.score(rollout.document, rollout.text)
        return replace(rollout, second=verdict)

    return await run_together([partial(again, rollout) for rollout in rollouts])
