"""From a batch of documents to groups that can be trained on: sample, score, filter."""

import asyncio
import hashlib
import json
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import art
import httpx
import openai
from openai.types.chat.chat_completion import Choice

from precis.config import RolloutsConfig
from precis.errors import (
    JudgeUnavailable,
    RolloutError,
    StaleAdapter,
    TrainerError,
    TrainerLost,
)
from precis.judge import JudgeClient, Ranked, Scored, Unscored
from precis.judge.ruler import RulerJudge
from precis.llm.responses import BoundedClient, ReplyTooLarge
from precis.records.documents import Document
from precis.records.verdict import Disqualified
from precis.summaries.prompt import summary_messages
from precis.summaries.rewards import disqualify, score_zero
from precis.text import count_words

T = TypeVar("T")

_UNWRITTEN = ("generation_failed", "generation_timeout")
_UNJUDGED = Unscored("unjudged", "No judge was asked yet.")


@dataclass(frozen=True)
class Summary:
    """A policy's answer, as it came, and what it took; `ended_at` in seconds since the epoch."""

    text: str
    choice: Choice
    seconds: float
    prompt_tokens: int
    completion_tokens: int
    ended_at: float = 0.0


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
    verdict: Scored | Ranked | Unscored
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
        TrainerError: the key is wrong, or there is no such model.
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
        if isinstance(error.__cause__, ReplyTooLarge):
            return Unscored("generation_failed", f"{model} sent too much: {error.__cause__}")
        raise TrainerLost(f"Nobody answers for {model} ({error.__cause__!r}).") from error
    except (openai.AuthenticationError, openai.NotFoundError) as error:
        raise TrainerError(f"{model} can't be asked for summaries: {error.message}") from error
    except openai.APIStatusError as error:
        return Unscored("generation_failed", f"{model} answered {error.status_code}: {error}")
    except json.JSONDecodeError as error:
        return Unscored("generation_failed", f"{model} did not answer in JSON: {error}")
    choice = _choice_in(completion)
    if choice is None:
        return Unscored("generation_failed", f"{model} answered without a completion.")
    if "@" in model and completion.model != model:
        raise StaleAdapter(f"{completion.model!r} answered where {model!r} was asked for.")
    usage = completion.usage
    return Summary(
        text=choice.message.content or "",
        choice=choice,
        seconds=time.perf_counter() - start,
        prompt_tokens=usage.prompt_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
        ended_at=time.time(),
    )


def _choice_in(completion: object) -> Choice | None:
    """The first choice; None where there is none: the client does not check what it is sent."""
    choices = getattr(completion, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = getattr(choice, "message", None)
    is_text = isinstance(getattr(message, "content", None), str | None)
    return choice if isinstance(choice, Choice) and message and is_text else None


async def roll_out(
    client: openai.AsyncOpenAI,
    model: str,
    judge: JudgeClient | None,
    document: Document,
    config: RolloutsConfig,
    *,
    index: int = 0,
    seed: int | None = None,
) -> Rollout:
    """Sample a summary and have it judged; whatever goes wrong with it is recorded in it.

    Without a judge a summary that is in order is `Unscored("unjudged")`, for a ruler to rank.
    """
    try:
        async with asyncio.timeout(config.timeout_s):
            summary = await summarize(client, model, document, config, seed=seed)
            if isinstance(summary, Unscored):
                return Rollout(document, index, None, summary)
            why = disqualify(summary.text, document, config.words_max)
            if why:
                return Rollout(document, index, summary, score_zero(document), why)
            verdict = await judge.score(document, summary.text) if judge else _UNJUDGED
            return Rollout(document, index, summary, verdict)
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
    ruler: RulerJudge | None = None,
) -> list[list[Rollout]]:
    """All rollouts of a step, at most `in_flight` at a time: a list for each document.

    The seed of each sample follows from the run's seed, the step, the document and its index,
    so a step that is done again samples the same.

    Args:
        ruler: ranks the summaries of each group, once it has them all, instead of the judge.

    Raises:
        JudgeUnavailable: more than `unscored_share_max` of them went unscored.
        RolloutError: the same, and mostly for want of a summary.
    """
    slots = asyncio.Semaphore(config.in_flight)

    async def one(policy: openai.AsyncOpenAI, document: Document, index: int) -> Rollout:
        async with slots:
            own = sample_seed(seed, step, document.id, index)
            ruling = None if ruler else judge
            return await roll_out(policy, model, ruling, document, config, index=index, seed=own)

    async def group(policy: openai.AsyncOpenAI, document: Document) -> list[Rollout]:
        indices = range(config.rollouts_per_group)
        row = await together([partial(one, policy, document, index) for index in indices])
        return await ranked(row, ruler, config) if ruler else row

    async with bounded(client) as policy:
        rows = await together([partial(group, policy, document) for document in documents])
    refuse_too_many_unscored([rollout for row in rows for rollout in row], config)
    return rows


async def ranked(
    row: Sequence[Rollout], ruler: RulerJudge, config: RolloutsConfig
) -> list[Rollout]:
    """A group's rollouts with the ruler's scores; the disqualified score zero without it."""
    entered = [one for one in row if one.summary and not one.disqualified]
    group = art.TrajectoryGroup([_trajectory(one, 0.0, config) for one in entered])
    scores = await ruler.score_group(group)
    if isinstance(scores, Unscored):
        verdicts: dict[int, Ranked | Unscored] = {one.index: scores for one in entered}
    else:
        pairs = zip(entered, scores, strict=True)
        verdicts = {one.index: Ranked(score) for one, score in pairs}
    zero_scores = {one.index: Ranked(0.0) for one in row if one.disqualified}
    verdicts = {**zero_scores, **verdicts}
    return [replace(one, verdict=verdicts.get(one.index, one.verdict)) for one in row]


async def gather_greedy(
    client: openai.AsyncOpenAI,
    model: str,
    judge: JudgeClient,
    documents: Sequence[Document],
    config: RolloutsConfig,
) -> list[Rollout]:
    """One greedy summary of each document, judged."""
    slots = asyncio.Semaphore(config.in_flight)

    async def one(policy: openai.AsyncOpenAI, document: Document) -> Rollout:
        async with slots:
            return await roll_out(policy, model, judge, document, config)

    async with bounded(client) as policy:
        return await together([partial(one, policy, document) for document in documents])


@asynccontextmanager
async def bounded(client: openai.AsyncOpenAI) -> AsyncIterator[openai.AsyncOpenAI]:
    """The same client, but no reply is larger than any may be, and none quotes its key."""
    every = httpx.Limits(max_connections=None)
    url = str(client.base_url)
    key = client.api_key
    async with BoundedClient(url, key, timeout=client.timeout, limits=every) as http:
        yield client.with_options(http_client=http)


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
        scored = [rollout for rollout in row if not isinstance(rollout.verdict, Unscored)]
        if len(scored) < config.scored_min:
            dropped["too_few_scored"] += 1
        elif len({reward(rollout) for rollout in scored}) == 1:
            dropped["zero_variance"] += 1
        else:
            kept.append(_group(scored, config))
    return kept, dropped


def reward(rollout: Rollout) -> float:
    """0 to 1: the share of answerable questions answered, or the ruler's score.

    Raises:
        RolloutError: the rollout is unscored, and has no reward.
    """
    if isinstance(rollout.verdict, Unscored):
        raise RolloutError(f"An unscored rollout has no reward ({rollout.verdict.cause}).")
    verdict = rollout.verdict
    return verdict.score if isinstance(verdict, Ranked) else verdict.accuracy


def reward_spread(rollouts: Sequence[Sequence[Rollout]]) -> float:
    """Mean over groups of the reward's standard deviation within the group."""
    groups = [
        [reward(one) for one in row if not isinstance(one.verdict, Unscored)] for row in rollouts
    ]
    return statistics.fmean([statistics.pstdev(rewards) for rewards in groups if rewards] or [0.0])


def unscored_causes(rollouts: Sequence[Rollout]) -> Counter[str]:
    """How many rollouts could not be judged, by cause."""
    return Counter(one.verdict.cause for one in rollouts if isinstance(one.verdict, Unscored))


def sample_seed(seed: int, step: int, document_id: str, index: int) -> int:
    """A seed of 31 bits, as every inference server takes it."""
    key = f"{seed}/{step}/{document_id}/{index}".encode()
    return int.from_bytes(hashlib.sha256(key).digest()[:4]) >> 1


def _group(scored: Sequence[Rollout], config: RolloutsConfig) -> art.TrajectoryGroup:
    return art.TrajectoryGroup([_trajectory(one, reward(one), config) for one in scored])


def _trajectory(rollout: Rollout, earned: float, config: RolloutsConfig) -> art.Trajectory:
    assert rollout.summary is not None
    messages: list[Any] = [*summary_messages(rollout.document.text, config.words_max)]
    return art.Trajectory(
        messages_and_choices=[*messages, rollout.summary.choice],
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
    causes = unscored_causes(rollouts)
    if causes.total() > config.unscored_share_max * len(rollouts):
        listed = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
        details = next(one.verdict.detail for one in rollouts if isinstance(one.verdict, Unscored))
        unwritten = sum(causes[cause] for cause in _UNWRITTEN)
        raise (RolloutError if 2 * unwritten > causes.total() else JudgeUnavailable)(
            f"{causes.total()} of {len(rollouts)} summaries could not be judged ({listed}), more "
            f"than the allowed share of {config.unscored_share_max:.0%}. The first: {details}"
        )


async def together(work: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """All results in order; the first error cancels the others and is raised as it is."""
    tasks = [asyncio.ensure_future(start()) for start in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
