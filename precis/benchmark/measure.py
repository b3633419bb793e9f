"""Measurement of contenders on the same held-out scenarios, in the same environment."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import product
from typing import Any

import polars as pl
from pydantic import ValidationError

from precis import __version__
from precis.benchmark.client import ContenderClient, Replies
from precis.benchmark.contender import ContenderSpec
from precis.config import OF_A_RUN, BenchmarkConfig
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.errors import ConfigError, UnusableRun
from precis.llm.concurrency import run_for_each
from precis.records.ledger import find_ledger, load_ledger
from precis.records.nouns import SUCCESS, Figure, default_figure
from precis.records.questions import questions_of
from precis.records.results import ATTEMPTS, Provenance, Row, frame_of, row_of
from precis.records.rollout import Rollout, Scenario, Score
from precis.records.spend import Usage
from precis.runs.overview import list_runs
from precis.settings.overrides import overlay
from precis.settings.problems import problems_in
from precis.store import Store
from precis.version import code_commit


@dataclass(frozen=True)
class Attempt:
    """A contender's rollout, the parameters of its requests, and whether an earlier benchmark had
    kept all its replies."""

    rollout: Rollout
    kept: bool = False
    missing: Sequence[Usage] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)


async def measure(
    recorder: Recorder,
    contender: ContenderClient,
    environment: Environment,
    scenarios: Sequence[Scenario],
    tell: Callable[[Attempt], None] = lambda attempt: None,
    first: Sequence[Rollout] = (),
    sampled: int = 0,
) -> list[Attempt]:
    """Have a contender attempt each scenario greedily, and report each finished attempt.

    Args:
        first: the rollouts of the model's first validation, for an environment that compares with
            them.
        sampled: further attempts at each scenario, for pass@k only.
    """
    slots = asyncio.Semaphore(contender.at_once)

    async def attempt(asked: tuple[int, Scenario]) -> Attempt:
        index, scenario = asked
        async with slots:
            replies = Replies(contender, f"{scenario.id}/{index}" if index else "")
            policy = contender.policy(replies, index)
            rollout = await recorder.run(policy, environment, scenario, index)
            if not index:
                [rollout] = await environment.compare([rollout], first)
        kept = bool(rollout.calls) and not replies.asked
        one = Attempt(rollout, kept, tuple(replies.missing), policy.parameters)
        tell(one)
        return one

    return await run_for_each(attempt, list(product(range(1 + sampled), scenarios)))


@dataclass(frozen=True)
class Measured:
    """The results of all contenders, as tables of `precis.records`; the ceiling, if known; and the
    measure."""

    frame: pl.DataFrame
    attempts: pl.DataFrame
    questions: pl.DataFrame
    ceiling: float | None
    figure: Figure


def results_of(
    measured: Sequence[tuple[ContenderSpec, Sequence[Attempt]]],
    environment: Environment,
    run: str,
    began: datetime,
    ceiling: float | None,
    measure: str = "",
) -> Measured:
    """Return the rows of all contenders, and the questions about their rollouts.

    Args:
        run: the benchmark's id.
        measure: the measure of the run that trained the model; empty if unknown.
    """
    scores = []
    for _, attempts in measured:
        for one in attempts:
            score = one.rollout.score
            scores.append(score if isinstance(score, Score) else None)
    figures = environment.figures
    figure = figures[0] if figures else default_figure(scores, environment.nouns, measure)
    # Where successes are counted, a score without one is a failure.
    counted = figure.part == SUCCESS or any(one and one.success is not None for one in scores)
    identity = environment.identity
    # An agent that counts its successes is measured by its reward on a night without any.
    by = "" if figures else f"by {figure.name}"
    version = code_commit() or __version__
    rows: list[Row] = []
    sampled: list[Row] = []
    questions = []
    for spec, attempts in measured:
        provenance = Provenance(
            run=run,
            model=spec.contender.model,
            step=spec.contender.step,
            judge=identity.get("model", ""),
            protocol=", ".join(filter(None, (environment.rules, by))),
            prompts_digest=identity.get("prompts", ""),
            corpus_digest=environment.digest,
            code_version=version,
            night=began,
            parameters=json.dumps(spec.parameters, sort_keys=True),
        )
        asked = []
        for one in attempts:
            rollout = one.rollout
            if counted and isinstance(rollout.score, Score):
                score = replace(rollout.score, success=bool(rollout.score.success))
                rollout = replace(rollout, score=score)
            text = environment.text_of(rollout)
            topic = environment.topic_of(rollout.scenario)
            row = row_of(rollout, provenance, figure, text=text, topic=topic, kept=one.kept)
            if rollout.index:
                sent = json.dumps(dict(one.parameters), sort_keys=True)
                sampled.append({**row, "parameters": sent, "attempt": rollout.index})
                continue
            rows.append(row)
            asked.append((rollout.scenario.id, environment.questions(rollout)))
        questions.append(questions_of(asked, provenance))
    others = pl.DataFrame(sampled, schema=ATTEMPTS, orient="row")
    return Measured(frame_of(rows), others, pl.concat(questions), ceiling, figure)


def with_settings_of_its_run(config: BenchmarkConfig, store: Store) -> BenchmarkConfig:
    """Return the settings, completed from the run that trained the model; without checkpoints, only
    if there is such a run and they name no scenarios. Raises UnusableRun if there is no such run,
    or its ledger was rebuilt, and ConfigError if its settings can't be used."""
    given = config.model_dump(exclude_unset=True)
    if config.checkpoints == "none":
        is_own = given.keys() & {"documents", "environment", "test_documents"}
        if is_own or find_ledger(store, config.model) is None:
            return config
    try:
        ledger = load_ledger(store, config.model)
    except UnusableRun as error:
        runs, unreadable = list_runs(store)
        there = sorted({run.model for run in runs} | unreadable.keys())
        if not there or config.model in there:  # whose ledger is damaged or lost
            raise
        raise UnusableRun(
            error.what,
            "Train it first, give the `store` that has it, or give `model` one of those that are "
            f"there: {', '.join(there)}.",
        ) from error
    if not ledger.corpus:
        raise UnusableRun(
            f"The ledger of {config.model!r} was rebuilt, and does not know the run's settings.",
            "Start the run once more with those that it had: what is trained is not trained again.",
        )
    of_the_run = {name: value for name, value in ledger.settings.items() if name in OF_A_RUN}
    try:
        return BenchmarkConfig.model_validate(overlay(BenchmarkConfig, of_the_run, given))
    except ValidationError as error:
        raise ConfigError(
            f"The settings that {config.model!r} was trained with can't be taken over "
            f"({problems_in(error)[0]}): give the benchmark this setting itself."
        ) from error
