"""From a batch of documents to groups that can be trained on: sample, score, filter."""

import asyncio
import hashlib
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import art
import openai
from openai.types.chat.chat_completion import Choice

from precis.config import RolloutsConfig
from precis.documents import Document
from precis.errors import JudgeUnavailable, StaleAdapter, TrainerLost
from precis.judge import JudgeClient, Scored, Unscored, Verdict
from precis.rewards import Disqualified, disqualified, zero
from precis.summarize import summary_messages
from precis.text import count_words


@dataclass(frozen=True)
class Summary:
    """A policy's answer, as it came, and what it took."""

    text: str
    choice: Choice
    seconds: float
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Rollout:
    """One sampled summary of a document and what became of it.

    Attributes:
        summary: None where the policy gave none; the verdict then says why.
        disqualified: why it scored zero before any judge was asked, or None.
    """

    document: Document
    index: int
    summary: Summary | None
    verdict: Verdict
    disqualified: Disqualified | None = None

    @property
    def words(self) -> int:
        return count_words(self.summary.text) if self.summary else 0


async def summarize(
    client: openai.AsyncOpenAI,
    model: str,
    document: Document,
    config: RolloutsConfig,
    *,
    seed: int | None = None,
) -> Summary | Unscored:
    """Ask a model for one summary: greedy, or sampled when a seed is given.

    Raises:
        TrainerLost: nobody listens at the client's address.
        StaleAdapter: another adapter than the one asked for has answered.
    """
    sampled = {"temperature": config.temperature, "seed": seed, "logprobs": True}
    options: dict[str, Any] = sampled if seed is not None else {"temperature": 0.0}
    start = time.perf_counter()
    try:
        completion = await client.chat.completions.create(
            model=model,
            messages=summary_messages(document.text, config.words_max),  # type: ignore[arg-type]
            max_tokens=2 * config.words_max + 64,
            **options,
        )
    except openai.APITimeoutError:
        return Unscored("generation_timeout", f"{model} did not answer in time.")
    except openai.APIConnectionError as error:
        raise TrainerLost(f"Nobody answers for {model} ({error.__cause__!r}).") from error
    except openai.APIStatusError as error:
        return Unscored("generation_failed", f"{model} answered {error.status_code}: {error}")
    if "@" in model and completion.model != model:
        raise StaleAdapter(f"{completion.model!r} answered where {model!r} was asked for.")
    usage = completion.usage
    return Summary(
        text=completion.choices[0].message.content or "",
        choice=completion.choices[0],
        seconds=time.perf_counter() - start,
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
    )


async def roll_out(
    client: openai.AsyncOpenAI,
    model: str,
    judge: JudgeClient,
    document: Document,
    config: RolloutsConfig,
    *,
    index: int = 0,
    seed: int | None = None,
) -> Rollout:
    """Sample a summary and have it judged; whatever goes wrong with it is recorded in it."""
    try:
        async with asyncio.timeout(config.timeout_s):
            summary = await summarize(client, model, document, config, seed=seed)
            if isinstance(summary, Unscored):
                return Rollout(document, index, None, summary)
            if why := disqualified(summary.text, document, config.words_max):
                return Rollout(document, index, summary, zero(document), why)
            return Rollout(document, index, summary, await judge.score(document, summary.text))
    except TimeoutError:
        late = Unscored("rollout_timeout", f"No verdict within {config.timeout_s:g} s.")
        return Rollout(document, index, None, late)


async def gather(
    client: openai.AsyncOpenAI,
    model: str,
    judge: JudgeClient,
    documents: Sequence[Document],
    config: RolloutsConfig,
    *,
    seed: int,
    step: int,
) -> list[list[Rollout]]:
    """All rollouts of a step, at most `in_flight` at a time: a list for each document.

    The seed of each sample follows from the run's seed, the step, the document and its index,
    so a step that is done again samples the same.

    Raises:
        JudgeUnavailable: more than `unscored_share_max` of them went unscored.
    """
    flat = await _bounded(
        config.in_flight,
        [
            partial(
                roll_out,
                client,
                model,
                judge,
                document,
                config,
                index=index,
                seed=sample_seed(seed, step, document.id, index),
            )
            for document in documents
            for index in range(config.rollouts_per_group)
        ],
    )
    _refuse_too_many_unscored(flat, config)
    size = config.rollouts_per_group
    return [flat[start : start + size] for start in range(0, len(flat), size)]


async def gather_greedy(
    client: openai.AsyncOpenAI,
    model: str,
    judge: JudgeClient,
    documents: Sequence[Document],
    config: RolloutsConfig,
) -> list[Rollout]:
    """One greedy summary of each document, judged."""
    return await _bounded(
        config.in_flight,
        [partial(roll_out, client, model, judge, document, config) for document in documents],
    )


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
        scored = [rollout for rollout in row if isinstance(rollout.verdict, Scored)]
        if len(scored) < config.scored_min:
            dropped["too_few_scored"] += 1
        elif len({reward(rollout) for rollout in scored}) == 1:
            dropped["zero_variance"] += 1
        else:
            kept.append(_group(scored, config))
    return kept, dropped


def reward(rollout: Rollout) -> float:
    """The share of answerable questions answered; unscored rollouts have none and never ask."""
    assert isinstance(rollout.verdict, Scored)
    return rollout.verdict.accuracy


def reward_spread(rollouts: Sequence[Sequence[Rollout]]) -> float:
    """Mean over groups of the reward's standard deviation within the group."""
    groups = [[reward(one) for one in row if isinstance(one.verdict, Scored)] for row in rollouts]
    return statistics.fmean([statistics.pstdev(rewards) for rewards in groups if rewards] or [0.0])


def unscored_causes(rollouts: Sequence[Rollout]) -> Counter[str]:
    """How many rollouts could not be judged, by cause."""
    return Counter(one.verdict.cause for one in rollouts if isinstance(one.verdict, Unscored))


def sample_seed(seed: int, step: int, document_id: str, index: int) -> int:
    """A seed of 31 bits, as every inference server takes it."""
    key = f"{seed}/{step}/{document_id}/{index}".encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:4]) >> 1


def _group(scored: Sequence[Rollout], config: RolloutsConfig) -> art.TrajectoryGroup:
    return art.TrajectoryGroup([_trajectory(rollout, config) for rollout in scored])


def _trajectory(rollout: Rollout, config: RolloutsConfig) -> art.Trajectory:
    assert rollout.summary is not None
    messages: list[Any] = [*summary_messages(rollout.document.text, config.words_max)]
    return art.Trajectory(
        messages_and_choices=[*messages, rollout.summary.choice],
        reward=reward(rollout),
        metrics={"words": rollout.words, "disqualified": rollout.disqualified is not None},
        metadata={"scenario_id": rollout.document.id, "index": rollout.index},
    )


def _refuse_too_many_unscored(rollouts: Sequence[Rollout], config: RolloutsConfig) -> None:
    causes = unscored_causes(rollouts)
    if causes.total() > config.unscored_share_max * len(rollouts):
        listed = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
        details = next(one.verdict.detail for one in rollouts if isinstance(one.verdict, Unscored))
        raise JudgeUnavailable(
            f"{causes.total()} of {len(rollouts)} summaries could not be judged ({listed}), more "
            f"than the allowed share of {config.unscored_share_max:.0%}. The first: {details}"
        )


async def _bounded(
    in_flight: int, work: Sequence[Callable[[], Awaitable[Rollout]]]
) -> list[Rollout]:
    """All results in order; the first error cancels the others and is raised as it is."""
    slots = asyncio.Semaphore(in_flight)

    async def one(start: Callable[[], Awaitable[Rollout]]) -> Rollout:
        async with slots:
            return await start()

    tasks = [asyncio.create_task(one(start)) for start in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
