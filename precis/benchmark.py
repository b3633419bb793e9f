"""Contenders on the same held-out documents, with the same prompts and the same judge."""

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import openai
import polars as pl

from precis import __version__
from precis.config import RolloutsConfig
from precis.documents import Corpus
from precis.judge import JudgeClient, Scored
from precis.ledger import Ledger
from precis.report.curve import StepPoint
from precis.report.standings import Contender
from precis.report.statistics import Interval
from precis.results import Judged, Provenance, Summary, frame_of, rows_of
from precis.rollouts import Rollout, gather_greedy
from precis.store import Store
from precis.tls import tls_for

TRAINED = "trained"
"""What the model that is trained here is called among the contenders."""


@dataclass(frozen=True)
class Entry:
    """A contender and where it is asked: `model` is its name at the endpoint."""

    contender: Contender
    model: str
    base_url: str
    api_key: str = field(repr=False)


async def measure(
    entry: Entry, corpus: Corpus, judge: JudgeClient, config: RolloutsConfig, run: str
) -> pl.DataFrame:
    """One contender's results: a row for each question of each held-out document."""
    http = openai.DefaultAsyncHttpxClient(verify=tls_for(entry.base_url))
    async with openai.AsyncOpenAI(
        base_url=entry.base_url, api_key=entry.api_key, http_client=http
    ) as client:
        rollouts = await gather_greedy(client, entry.model, judge, corpus.validation, config)
    provenance = Provenance(
        run=run,
        model=entry.contender.model,
        step=entry.contender.step,
        judge=judge.identity["model"],
        protocol=f"{judge.identity['protocol']} v{judge.identity['protocol_version']}",
        prompts_digest=judge.identity["prompts"],
        corpus_digest=corpus.digest,
        code_version=__version__,
    )
    return frame_of(row for one in rollouts for row in rows_of(judged(one), provenance))


async def measure_ceiling(store: Store, judge: JudgeClient, corpus: Corpus) -> float | None:
    """The judge's accuracy when it reads the held-out documents in full: more can't be had.

    Measured once for each corpus, judge and protocol, and kept in the store. None if the judge
    failed on one of them; that is not kept.
    """
    asked_of = json.dumps([corpus.digest, judge.identity], sort_keys=True).encode()
    key = f"ceilings/{hashlib.sha256(asked_of).hexdigest()[:16]}.json"
    if kept := await asyncio.to_thread(store.get, key):
        return float(json.loads(kept.data)["accuracy"])
    verdicts = list((await judge.ceiling(corpus.validation)).values())
    scored = [verdict for verdict in verdicts if isinstance(verdict, Scored)]
    if len(scored) < len(verdicts):
        return None
    accuracy = sum(one.correct for one in scored) / sum(one.asked for one in scored)
    record = {"accuracy": accuracy, "judge": judge.identity, "corpus": corpus.digest}
    await asyncio.to_thread(store.put, key, json.dumps(record).encode())
    return accuracy


def judged(rollout: Rollout) -> Judged:
    """A rollout as results and reports take it."""
    summary = rollout.summary
    shown = Summary("", finish="none")
    if summary is not None:
        shown = Summary(
            summary.text,
            summary.choice.finish_reason,
            summary.seconds,
            summary.prompt_tokens,
            summary.completion_tokens,
        )
    return Judged(rollout.document, shown, rollout.verdict, rollout.disqualified)


def checkpoints_to_take(committed: Sequence[int], every: int) -> list[int]:
    """Every n-th of the committed steps; the first and the last always."""
    return [
        step for step in committed if step % every == 0 or step in (committed[0], committed[-1])
    ]


def curve_of(ledger: Ledger) -> list[StepPoint]:
    """The learning curve as the ledger knows it: a point for each adapter."""
    accuracies = {one.step: Interval(one.accuracy, one.low, one.high) for one in ledger.validations}
    points = [
        StepPoint(one.step, one.reward, accuracies.get(one.step), sum(one.seconds.values()))
        for one in ledger.steps
    ]
    return [*points, StepPoint(ledger.next_step, accuracy=accuracies.get(ledger.next_step))]


def step_metrics(ledger: Ledger, step: int) -> dict[str, float]:
    """A step's numbers under flat names, as ART's files, W&B and the report show them."""
    record = ledger.steps[step]
    return {
        "step": record.step,
        "reward": record.reward,
        "reward_std": record.reward_std,
        "words": record.words,
        "groups_trained": record.groups_trained,
        "groups_dropped": sum(record.groups_dropped.values()),
        "unscored": sum(record.unscored.values()),
        "disqualified": sum(record.disqualified.values()),
        "seconds": sum(record.seconds.values()),
        **{f"judge/{name}": value for name, value in asdict(record.judge).items()},
        **{f"unscored/{cause}": count for cause, count in record.unscored.items()},
        **{f"groups_dropped/{cause}": count for cause, count in record.groups_dropped.items()},
        **record.trainer,
    }
