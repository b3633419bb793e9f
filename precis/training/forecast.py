"""What judging the rest of a run will take, told before it takes anything."""

from collections.abc import Sequence

from precis.config import BenchmarkConfig, TrainConfig
from precis.judge.forecast import Forecast, forecast
from precis.records.documents import Document
from precis.run.retention import kept


def forecast_judging(
    config: TrainConfig,
    next_step: int,
    held_out: Sequence[Document],
    judge_model: str,
    warm_start_documents: int = 0,
) -> Forecast:
    """What the reward's judge takes from a step on, validations and benchmark included.

    It is the most that a run may take: every document in place of another (`replacements_max`).
    Ranking (`reward: ruler`) takes fewer calls than this, since it rules on whole groups.

    Args:
        warm_start_documents: set apart for a warm start.
    """
    return forecast(
        config.judge,
        judge_model,
        held_out,
        summaries=_summaries(config, next_step, len(held_out))
        + _warm_start_summaries(config, next_step, warm_start_documents),
        summary_words=config.rollouts.words_max,
        ceiling=config.benchmark,
    )


def forecast_second_judge(
    config: TrainConfig, next_step: int, held_out: Sequence[Document], judge_model: str
) -> Forecast | None:
    """What the second judge takes from a step on: the validations; None where there is none."""
    if config.second_judge is None:
        return None
    return forecast(
        config.second_judge,
        judge_model,
        held_out,
        summaries=len(_validated(config, next_step)) * len(held_out),
        summary_words=config.rollouts.words_max,
        ceiling=False,
        role="The second judge",
    )


def _summaries(config: TrainConfig, next_step: int, held_out: int) -> int:
    """How many summaries are still to be judged."""
    first = max(next_step, 1) if config.warm_start else next_step
    steps = range(first, config.steps)
    settings = config.rollouts
    groups = settings.groups_per_step + settings.replacements_max
    rollouts = len(steps) * groups * settings.rollouts_per_group
    contenders = 0
    if config.benchmark:
        checkpoints = kept(range(config.steps + 1), config.retention, {})
        contenders = len(checkpoints) + len(BenchmarkConfig.of(config).baselines)
    return rollouts + (len(_validated(config, next_step)) + contenders) * held_out


def _validated(config: TrainConfig, next_step: int) -> set[int]:
    """The steps from `next_step` on whose adapters are validated, the first and the last too."""
    steps = (*range(next_step, config.steps), 0)
    validated = {step for step in steps if step % config.validate_every == 0}
    if config.warm_start and next_step <= 1:
        validated.add(1)
    return {*validated, config.steps}


def _warm_start_summaries(config: TrainConfig, next_step: int, documents: int) -> int:
    """How many summaries a warm start has judged: its own, and those that measure the groups."""
    settings = config.warm_start
    if settings is None or next_step > 1:
        return 0
    measured = settings.measured_documents * config.rollouts.rollouts_per_group
    if next_step == 1:
        return measured
    samples = settings.samples if settings.source == "best_of_n" else 0
    return documents * samples + 2 * measured
