"""From a batch of documents to groups that can be trained on: sample, score, filter."""

import asyncio
import hashlib
import statistics
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import art
import openai
from openai.types.chat.chat_completion import Choice

from precis.config import RolloutsConfig
from precis.errors import JudgeUnavailable, RolloutError
from precis.judge import JudgeClient, Ranked, Unscored, Verdict
from precis.judge.ruler import RulerJudge
from precis.llm.client import ChatClient
from precis.llm.concurrency import run_for_each
from precis.processes.kill_points import reached
from precis.records.documents import Document
from precis.records.summary import JudgedSummary
from precis.sampling.policy import policy_client, sample
from precis.task import Task

ZERO_VARIANCE = "zero_variance"
"""Why a group is dropped whose summaries all earned the same."""

_UNWRITTEN = ("generation_failed", "generation_timeout")
_UNJUDGED = Unscored("unjudged", "No judge was asked yet.")

Conversation = tuple[Mapping[str, Any] | Choice, ...]
"""Messages and, where the policy has spoken, its choices: ART's `messages_and_choices`."""


@dataclass(frozen=True)
class Rollout(JudgedSummary):
    """One sampled summary of a document and what became of it.

    Attributes:
        index: its place in the document's group.
        conversation: what was asked, and the policy's answer as it came, with its log
            probabilities; what is trained on. Without an answer where none was given.
        share: what of its reward it keeps; all of it where it is not trained on.
    """

    index: int = 0
    conversation: Conversation = ()
    share: float = 1.0

    @property
    def reward(self) -> float | None:
        """What it earns in training, 0 to 1; None where there is no verdict."""
        earned = self.verdict.reward
        return None if earned is None else self.share * earned


async def roll_out(
    policy: ChatClient,
    task: Task,
    judge: JudgeClient | None,
    document: Document,
    config: RolloutsConfig,
    *,
    index: int = 0,
    seed: int | None = None,
    step: int | None = None,
) -> Rollout:
    """Sample a summary and have it judged; whatever goes wrong with it is recorded in it.

    Without a judge a summary that is in order is `Unscored("unjudged")`, for a ruler to rank.
    """
    messages = tuple(task.messages(document))
    try:
        async with asyncio.timeout(config.timeout_s):
            sampled = await sample(policy, messages, task.tokens_max, config.temperature, seed)
            if isinstance(sampled, Unscored):
                return Rollout(document, None, sampled, index=index, conversation=messages)
            summary = sampled.summary
            why = task.disqualify(summary.text, document)
            if why:
                verdict: Verdict = task.score_zero(document)
            else:
                reached("summary sampled", step)
                verdict = await judge.score(document, summary.text) if judge else _UNJUDGED
            conversation: Conversation = (*messages, sampled.choice)
            share = 1.0 if seed is None else task.reward_share(summary.text)
            return Rollout(
                document,
                summary,
                verdict,
                why,
                index=index,
                conversation=conversation,
                share=share,
                prose=task.prose_share(summary.text, document),
            )
    except TimeoutError:
        late = Unscored("rollout_timeout", f"No verdict within {config.timeout_s:g} s.")
        return Rollout(document, None, late, index=index, conversation=messages)


async def gather(
    client: openai.AsyncOpenAI,
    model: str,
    task: Task,
    judge: JudgeClient,
    documents: Sequence[Document],
    config: RolloutsConfig,
    *,
    seed: int,
    step: int,
    ruler: RulerJudge | None = None,
    spares: Sequence[Document] = (),
) -> list[list[Rollout]]:
    """All rollouts of a step, at most `in_flight` at a time: a list for each document.

    The seed of each sample follows from the run's seed, the step, the document and its index,
    so a step that is done again samples the same. So do its spares: each group without variance
    takes the next one, and how many are taken does not depend on which group is done first.

    Args:
        spares: documents to go on with, in this order, where a group has no variance.
        ruler: ranks the summaries of each group, once it has them all, instead of the judge.

    Raises:
        JudgeUnavailable: more than `unscored_share_max` of them went unscored.
        RolloutError: the same, and mostly for want of a summary.
    """
    slots = asyncio.Semaphore(config.in_flight)

    async def roll_out_one(policy: ChatClient, document: Document, index: int) -> Rollout:
        async with slots:
            own = sample_seed(seed, step, document.id, index)
            # A ruler compares whole groups: single summaries are left unjudged for it.
            own_judge = None if ruler else judge
            return await roll_out(
                policy, task, own_judge, document, config, index=index, seed=own, step=step
            )

    async def roll_out_group(policy: ChatClient, document: Document) -> list[Rollout]:
        indices = range(config.rollouts_per_group)
        row = await run_for_each(partial(roll_out_one, policy, document), indices)
        return await rank(row, ruler) if ruler else row

    drawn = [*documents, *spares]
    unused = deque(range(len(documents), len(drawn)))
    rows: dict[int, list[Rollout]] = {}

    async def roll_out_until_varied(policy: ChatClient, place: int) -> None:
        rows[place] = await roll_out_group(policy, drawn[place])
        while unused and why_dropped(rows[place], config) == ZERO_VARIANCE:
            place = unused.popleft()
            rows[place] = await roll_out_group(policy, drawn[place])

    async with policy_client(client, model, config) as policy:
        await run_for_each(partial(roll_out_until_varied, policy), range(len(documents)))
    refuse_too_many_unscored(list(chain.from_iterable(rows.values())), config)
    return [rows[place] for place in sorted(rows)]


async def rank(row: Sequence[Rollout], ruler: RulerJudge) -> list[Rollout]:
    """A group's rollouts with the ruler's scores; the disqualified score zero without it."""
    entered = [one for one in row if one.summary and not one.disqualified]
    group = art.TrajectoryGroup([_trajectory(one, 0.0) for one in entered])
    scores = await ruler.score_group(group)
    verdicts: dict[int, Verdict] = {}
    for place, rollout in enumerate(entered):
        verdicts[rollout.index] = scores if isinstance(scores, Unscored) else Ranked(scores[place])
    for rollout in row:
        if rollout.disqualified:
            verdicts[rollout.index] = Ranked(0.0)
    return [replace(one, verdict=verdicts.get(one.index, one.verdict)) for one in row]


async def gather_greedy(
    client: openai.AsyncOpenAI,
    model: str,
    task: Task,
    judge: JudgeClient,
    documents: Sequence[Document],
    config: RolloutsConfig,
) -> list[Rollout]:
    """One greedy summary of each document, judged."""
    slots = asyncio.Semaphore(config.in_flight)

    async def write(policy: ChatClient, document: Document) -> Rollout:
        async with slots:
            return await roll_out(policy, task, judge, document, config)

    async with policy_client(client, model, config) as policy:
        return await run_for_each(partial(write, policy), documents)


def split_groups(
    rollouts: Sequence[Sequence[Rollout]], config: RolloutsConfig
) -> tuple[list[art.TrajectoryGroup], Counter[str]]:
    """The groups to train on, and how many were dropped, by cause.

    Unscored rollouts leave their group; a group with fewer than `scored_min` others is dropped,
    and so is one whose rewards are all the same, since it carries no advantage.
    """
    kept: list[art.TrajectoryGroup] = []
    dropped: Counter[str] = Counter()
    for row in rollouts:
        cause = why_dropped(row, config)
        if cause:
            dropped[cause] += 1
        else:
            kept.append(_group([one for one in row if one.reward is not None]))
    return kept, dropped


def why_dropped(row: Sequence[Rollout], config: RolloutsConfig) -> str | None:
    """Why a group is not trained on; None where it is."""
    rewards = [one.reward for one in row if one.reward is not None]
    if len(rewards) < config.scored_min:
        return "too_few_scored"
    # GRPO's advantage is the distance from the group's mean: here it would be zero for all.
    return ZERO_VARIANCE if len(set(rewards)) == 1 else None


def reward(rollout: Rollout) -> float:
    """0 to 1: the share of answerable questions answered, or the ruler's score, as far as kept.

    Raises:
        RolloutError: the rollout is unscored, and has no reward.
    """
    earned = rollout.reward
    if earned is None:
        raise RolloutError(f"An unscored rollout has no reward ({rollout.verdict.cause}).")
    return earned


def reward_spread(rollouts: Sequence[Sequence[Rollout]]) -> float:
    """Mean over groups of the reward's standard deviation within the group."""
    deviations = []
    for row in rollouts:
        rewards = [one.reward for one in row if one.reward is not None]
        if rewards:
            deviations.append(statistics.pstdev(rewards))
    return statistics.fmean(deviations) if deviations else 0.0


def count_causes(rollouts: Sequence[Rollout]) -> Counter[str]:
    """How many rollouts could not be judged, by cause."""
    return Counter(one.verdict.cause for one in rollouts if one.verdict.cause is not None)


def sample_seed(seed: int, step: int, scenario_id: str, index: int, turn: int = 0) -> int:
    """Return a seed of 31 bits, as every inference server takes it, for one call of a rollout."""
    key = f"{seed}/{step}/{scenario_id}/{index}"
    if turn:
        key += f"/turn {turn}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4]) >> 1


def _group(scored: Sequence[Rollout]) -> art.TrajectoryGroup:
    return art.TrajectoryGroup([_trajectory(one, reward(one)) for one in scored])


def _trajectory(rollout: Rollout, earned: float) -> art.Trajectory:
    conversation: list[Any] = [*rollout.conversation]
    return art.Trajectory(
        messages_and_choices=conversation,
        reward=earned,
        metrics={"words": rollout.words, "disqualified": rollout.disqualified is not None},
        metadata={"scenario_id": rollout.document.id, "index": rollout.index},
    )


def refuse_too_many_unscored(rollouts: Sequence[Rollout], config: RolloutsConfig) -> None:
    """Raise if more than `unscored_share_max` of the rollouts are unscored.

    Raises:
        RolloutError: most of those for want of a summary.
        JudgeUnavailable: else.
    """
    causes = count_causes(rollouts)
    if causes.total() <= config.unscored_share_max * len(rollouts):
        return
    listed = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    unscored = [one.verdict for one in rollouts if isinstance(one.verdict, Unscored)]
    message = (
        f"{causes.total()} of {len(rollouts)} summaries could not be judged ({listed}), more "
        f"than the allowed share of {config.unscored_share_max:.0%}. The first: "
        f"{unscored[0].detail}"
    )
    # Without summaries the policy or its server is to blame, and waiting for the judge is no help.
    unwritten = sum(causes[cause] for cause in _UNWRITTEN)
    if 2 * unwritten > causes.total():
        raise RolloutError(message)
    raise JudgeUnavailable(message)
