"""Estimates of the rest of a run's requests to judges and services."""

import statistics
from collections.abc import Sequence

from precis.config import TrainConfig
from precis.environments.summaries.baselines import USUAL_BASELINES
from precis.environments.summaries.judge.forecast import forecast
from precis.llm.tokens import estimate_tokens
from precis.records.documents import Document
from precis.records.spend import Estimate
from precis.runs.retention import kept
from precis.settings.tinker import TinkerTrainer

_CHARACTERS_PER_WORD = 6
"""For English prose, with the space."""


def forecast_judging(
    config: TrainConfig,
    next_step: int,
    held_out: Sequence[Document],
    judge_model: str,
    warm_start_documents: int = 0,
) -> Estimate:
    """Estimate the requests to the judge from a step on, with validations and benchmark: an upper
    bound, with every replacement used (`replacements_max`)."""
    summaries = _evaluated(config, next_step) * len(held_out)
    if config.benchmark:
        summaries += len(USUAL_BASELINES) * len(held_out)
    if config.rollouts.reward == "questions":
        summaries += count_rewarded(config, next_step, warm_start_documents)
    return forecast(
        config.judge,
        judge_model,
        held_out,
        summaries=summaries,
        summary_words=config.rollouts.words_max,
        ceiling=config.benchmark,
    )


def count_rewarded(config: TrainConfig, next_step: int, warm_start_documents: int) -> int:
    """Count the summaries that are still to be rewarded: of steps, and around a warm start."""
    summaries = _rollouts(config, next_step)
    warm_start = config.warm_start
    if warm_start is not None and next_step <= 1:
        # The rollouts that measure the groups, before and after it.
        measured = warm_start.measured_scenarios * config.rollouts.rollouts_per_group
        summaries += measured if next_step == 1 else 2 * measured
        if next_step == 0 and warm_start.source == "best_of_n":
            summaries += warm_start_documents * warm_start.samples
    return summaries


def forecast_second_judge(
    config: TrainConfig, next_step: int, held_out: Sequence[Document], judge_model: str
) -> Estimate:
    """Estimate the second judge's requests from a step on, for the validations."""
    assert config.second_judge is not None
    return forecast(
        config.second_judge,
        judge_model,
        held_out,
        summaries=config.count_validations(next_step) * len(held_out),
        summary_words=config.rollouts.words_max,
        ceiling=False,
        role="The second judge",
    )


def forecast_service(
    config: TrainConfig, trainer: TinkerTrainer, next_step: int, held_out: Sequence[Document]
) -> Estimate:
    """Estimate the service's charges from a step on: an upper bound, like the judge's, without any
    cache hits. A warm start's own summaries are left out."""
    of_document = statistics.fmean([estimate_tokens(len(one.text)) for one in held_out])
    of_summary = estimate_tokens(_CHARACTERS_PER_WORD * config.rollouts.words_max)
    rollouts = _rollouts(config, next_step)
    summaries = rollouts + _evaluated(config, next_step) * len(held_out)
    read = round(summaries * of_document)
    sampled = round(summaries * of_summary)
    trained = round(rollouts * (of_document + of_summary))
    usd = trainer.charge(read, sampled, trained)
    dollars = "at prices that are not given" if usd is None else f"about ${usd:,.2f}"
    warning = "What the Tinker service charges is not counted. Give its prices in trainer.prices."
    return Estimate(
        f"The Tinker service will read about {read:,} tokens, sample {sampled:,} and train on "
        f"{trained:,}, {dollars}.",
        usd,
        () if usd is not None else (warning,),
    )


def _rollouts(config: TrainConfig, next_step: int) -> int:
    """Count the training summaries that are still to be sampled."""
    first = max(next_step, 1) if config.warm_start else next_step
    settings = config.rollouts
    groups = settings.groups_per_step + settings.replacements_max
    return len(range(first, config.steps)) * groups * settings.rollouts_per_group


def _evaluated(config: TrainConfig, next_step: int) -> int:
    """Count the adapters still to be validated, and those to be benchmarked."""
    adapters = config.count_validations(next_step)
    if config.benchmark:
        adapters += len(kept(range(config.steps + 1), config.retention, {}))
    return adapters
