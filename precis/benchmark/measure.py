"""Contenders on the same held-out documents, with the same prompts and the same judge."""

import asyncio
import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

import polars as pl
from pydantic import ValidationError

from precis import __version__
from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec
from precis.benchmark.referee import BenchmarkJudge
from precis.config import BenchmarkConfig, RunConfig
from precis.environments.summaries.judge import JudgeClient, Scored, Unscored
from precis.errors import ConfigError, UnusableRun
from precis.llm.concurrency import run_for_each
from precis.records.documents import Corpus, Document
from precis.records.ledger import Ledger, load_ledger
from precis.records.questions import questions_of
from precis.records.results import Provenance, frame_of, row_of
from precis.records.summary import JudgedSummary
from precis.run.overview import models_in
from precis.settings.overrides import overlay
from precis.settings.problems import problems_in
from precis.store import Store


@dataclass(frozen=True)
class BenchmarkId:
    """One benchmark among many: when it began, and what its results are filed under."""

    began: datetime
    id: str

    @classmethod
    def now(cls) -> Self:
        """A new one."""
        began = datetime.now(UTC)
        return cls(began, f"{began:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}")


async def measure(
    writer: ContenderClient,
    referee: BenchmarkJudge,
    documents: Sequence[Document],
    tell: Callable[[JudgedSummary], None] = lambda outcome: None,
) -> list[JudgedSummary]:
    """What a contender makes of each document, and what that is worth, all at the same time.

    Args:
        tell: told each outcome as soon as it is there; it must not take long.

    Raises:
        JudgeError: the judge rejects the key, the model or the request as such.
        StoreError: what was paid for can't be kept.
    """

    async def write_and_judge(document: Document) -> JudgedSummary:
        outcome = await _measure_one(writer, referee, document)
        tell(outcome)
        return outcome

    return await run_for_each(write_and_judge, documents)


async def _measure_one(
    writer: ContenderClient, referee: BenchmarkJudge, document: Document
) -> JudgedSummary:
    kept = await writer.find_kept(document)
    summary = kept or await writer.write(document)
    if isinstance(summary, Unscored):
        return JudgedSummary(document, None, summary)
    verdict, why = await referee.rule(document, summary.text)
    prose = 0.0 if why == "judged_not_prose" else referee.prose_share(document, summary.text)
    return JudgedSummary(document, summary, verdict, why, kept is not None, prose=prose)


@dataclass(frozen=True)
class ContenderResults:
    """What a contender has achieved.

    Attributes:
        rows: in `precis.records.results.SCHEMA`.
        questions: in `precis.records.questions.QUESTIONS`.
    """

    rows: pl.DataFrame
    questions: pl.DataFrame


def results_of(
    entry: ContenderSpec,
    outcomes: Iterable[JudgedSummary],
    judge: JudgeClient,
    corpus: Corpus,
    night: BenchmarkId,
) -> ContenderResults:
    """A contender's rows, and what its summaries were asked."""
    provenance = Provenance(
        run=night.id,
        model=entry.contender.model,
        step=entry.contender.step,
        judge=judge.identity["model"],
        protocol=judge.protocol,
        prompts_digest=judge.identity["prompts"],
        corpus_digest=corpus.digest,
        code_version=__version__,
        night=night.began,
        parameters=json.dumps(entry.parameters, sort_keys=True),
    )
    judged = list(outcomes)
    rows = [row_of(one, provenance) for one in judged]
    return ContenderResults(frame_of(rows), questions_of(judged, provenance))


async def measure_ceiling(
    store: Store, judge: JudgeClient, corpus: Corpus, documents_max: int | None = None
) -> float | None:
    """The judge's accuracy when it reads the held-out documents in full: more can't be had.

    Measured once for each corpus, judge and protocol, and kept in the store. None if the judge
    failed on one of them; that is not kept.

    Args:
        documents_max: read no more than so many of them; None reads all.
    """
    documents = corpus.validation[:documents_max]
    parts: list[Any] = [corpus.digest, judge.identity]
    if len(documents) < len(corpus.validation):
        parts.append(len(documents))
    asked_of = json.dumps(parts, sort_keys=True).encode()
    key = f"ceilings/{hashlib.sha256(asked_of).hexdigest()[:16]}.json"
    kept = await asyncio.to_thread(store.get, key)
    if kept:
        return float(json.loads(kept.data)["accuracy"])
    verdicts = list((await judge.ceiling(documents)).values())
    correct = 0
    asked = 0
    for verdict in verdicts:
        if not isinstance(verdict, Scored):
            return None
        correct += verdict.correct
        asked += verdict.asked
    accuracy = correct / asked
    record = {"accuracy": accuracy, "judge": judge.identity, "corpus": corpus.digest}
    await asyncio.to_thread(store.put, key, json.dumps(record).encode())
    return accuracy


def with_settings_of_its_run(config: BenchmarkConfig, store: Store) -> BenchmarkConfig:
    """The settings, those that were not given taken from the run that trained the model.

    Raises:
        ConfigError: the run's settings are of another version of Précis.
        UnusableRun: the store holds no such run, or its ledger does not know them.
    """
    if config.checkpoints == "none":
        return config
    ledger = _ledger_of(store, config.model)
    if not ledger.corpus:
        raise UnusableRun(
            f"The ledger of {config.model!r} was rebuilt, and does not know the run's settings.",
            "Start the run once more with those that it had: what is trained is not trained again.",
        )
    known = ledger.settings
    shared = RunConfig.model_fields.keys() - {"model", "store"}
    of_the_run = {name: value for name, value in known.items() if name in shared}
    given = config.model_dump(exclude_unset=True)
    try:
        return BenchmarkConfig.model_validate(overlay(BenchmarkConfig, of_the_run, given))
    except ValidationError as error:
        raise ConfigError(
            f"The settings that {config.model!r} was trained with can't be taken over "
            f"({problems_in(error)[0]}): give the benchmark this setting itself."
        ) from error


def _ledger_of(store: Store, model: str) -> Ledger:
    try:
        return load_ledger(store, model)
    except UnusableRun as error:
        others = [name for name in models_in(store) if name != model]
        if not others:
            raise
        raise UnusableRun(
            error.what,
            f"Train it first, or give `model` one of those that are there: {', '.join(others)}.",
        ) from error


def checkpoints_to_take(committed: Sequence[int], config: BenchmarkConfig) -> list[int]:
    """The committed steps that take part; of `every` n-th the first and the last always."""
    if config.checkpoints == "none" or not committed:
        return []
    ends = [committed[0], committed[-1]]
    if config.checkpoints == "every":
        return [step for step in committed if step % config.every == 0 or step in ends]
    wanted = ends if config.checkpoints == "ends" else ends[1:]
    return list(dict.fromkeys(wanted))


def report_folder(model: str, steps: int, config: BenchmarkConfig, corpus: Corpus) -> str:
    """Where in the store the newest report of a model after so many steps lies.

    Documents of a benchmark's own have a folder of their own, beside that of the held-out ones.
    """
    own = f"-{corpus.digest[:8]}" if config.test_documents else ""
    return f"{model}/benchmarks/{steps:04d}{own}/"
