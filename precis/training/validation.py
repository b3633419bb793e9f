"""A validation: an adapter measured on the held-out scenarios, and its record."""

import asyncio
import logging
import statistics
import time
from collections.abc import Sequence

from precis.environments.protocol import Environment
from precis.errors import StoreError
from precis.processes.kill_points import reached
from precis.records.ledger import TURNS, Metric, Validation
from precis.records.metrics import validation_metrics
from precis.records.nouns import (
    PREFERRED,
    REWARD,
    SUCCESS,
    TRANSCRIPT,
    Figure,
    default_figure,
)
from precis.records.rollout import Rollout, Score
from precis.records.trajectories import read_first_validation
from precis.rollouts.filter import (
    count_causes,
    mean_metrics,
    refuse_too_many_unscored,
    turns_to_success,
)
from precis.rollouts.sample import sample_each
from precis.runs.shortcomings import narrowed
from precis.runs.validations import last_gain, parted
from precis.statistics.intervals import ratio_interval
from precis.training.run import Run
from precis.training.stages import greedy_policy, keep_rollouts

_log = logging.getLogger(__name__)


async def validate(run: Run, step: int) -> Validation:
    """Measure adapter `step` on the held-out scenarios, greedy, and put it in the ledger."""
    start = time.perf_counter()
    settings = run.config.rollouts
    async with greedy_policy(run.model, step, settings) as policy:
        rollouts = await sample_each(run.recorder, policy, run.environment, run.held_out, settings)
    first = None
    if run.environment.compares or run.seen.first is None:
        try:
            first = await asyncio.to_thread(
                read_first_validation, run.store, run.name, run.held_out, before=step
            )
        except StoreError as error:
            if run.environment.compares:
                raise
            _log.warning("The report compares with no earlier rollout: %s", error)
    if run.environment.compares:
        rollouts = list(await run.environment.compare(rollouts, first and first[1]))
    reached("validation scored", step)
    is_first = not (run.ledger.steps or run.ledger.validations)
    refuse_too_many_unscored(rollouts, settings, is_first=is_first, needs_one=True)
    if first and run.seen.first is None:
        run.seen = run.seen.add_validation(*first)
    run.seen = run.seen.add_validation(step, rollouts)
    await keep_rollouts(run, "validation", step, [[one] for one in rollouts], adapter=step)
    earlier = [one.measure for one in run.ledger.validations if one.step < step]
    seconds = time.perf_counter() - start
    measure = earlier[0] if earlier else ""
    validation = validation_of(step, rollouts, seconds, run.environment, measure)
    gained = last_gain(run.ledger.validations, validation)
    validation = validation.model_copy(update={"last_gain": gained})
    # Sampling ahead is booked with its step.
    spend = run.unbooked
    if run.ahead.result:
        spend = spend.since(run.ahead.result.spend)
    await run.write_ledger(run.ledger.add_validation(validation, spend.usd), spend)
    if any(one.judge for one in run.environment.figures) and validation.second is None:
        _log.warning("The second judge failed on all held-out scenarios.")
    for found in (parted(run.ledger.validations), narrowed(run.ledger)):
        if found:
            _log.warning("%s", found)
    return validation


async def log_validation(run: Run, validation: Validation) -> None:
    """Append a validation to ART's files and to W&B."""
    metrics = {name: metric.value for name, metric in validation.metrics.items()}
    await run.model.log(split="val", metrics=metrics, step=validation.step)
    if run.wandb:
        run.wandb.log(validation.step, validation_metrics(validation))


def validation_of(
    step: int,
    rollouts: Sequence[Rollout],
    seconds: float,
    environment: Environment,
    measure: str = "",
) -> Validation:
    """Measure adapter `step` by a rollout of each held-out scenario, in their order; at least one
    is scored. `measure` is that of the run's first validation; empty for the first."""
    scores = [one.score if isinstance(one.score, Score) else None for one in rollouts]
    # What a bootstrap draws depends on the order: a benchmark's rows are by scenario.
    by_scenario = sorted(range(len(rollouts)), key=lambda place: rollouts[place].scenario.id)
    metrics: dict[str, Metric] = {}
    usual = [default_figure(scores, environment.nouns, measure)]
    counted = default_figure(scores, environment.nouns)
    if counted.is_share:  # of a run whose first validation had no success to count
        usual.append(counted)
    for figure in environment.figures or usual:
        found = _measure(figure, scores, by_scenario)
        if found is not None:
            metrics[figure.name] = found
    parts: set[str] = set()
    for figure in environment.figures:
        parts |= {figure.part, figure.whole}
    for name in mean_metrics(rollouts):
        found = _measure(Figure(name, name), scores, by_scenario)
        if found is not None and name not in parts:
            metrics.setdefault(name, found)
    turns = turns_to_success(rollouts)
    if turns:
        interval = ratio_interval(turns, [1.0] * len(turns), of_share=False)
        low, high = interval.ends
        metrics[TURNS] = Metric(value=interval.mean, low=low, high=high)
    return Validation(
        step=step,
        measure=next(iter(metrics)),
        metrics=metrics,
        seconds=seconds,
        unscored=dict(count_causes(rollouts)),
    )


def _measure(
    figure: Figure, scores: Sequence[Score | None], places: Sequence[int]
) -> Metric | None:
    """Return a figure over the scenarios whose rollouts have it, taken in the order of `places`;
    None where none has."""
    parts: list[float | None] = []
    weights: list[float | None] = []
    known: list[float] = []
    wholes: list[float] = []
    for score in scores:
        part = figure.part_of(score)
        parts.append(part)
        weights.append(None if part is None else figure.whole_of(score))
    for place in places:
        part, whole = parts[place], weights[place]
        if part is not None and whole is not None:
            known.append(part)
            wholes.append(whole)
    if not known:
        return None
    some = len(known) if len(known) < len(scores) else None
    if not figure.whole and figure.part not in (SUCCESS, REWARD):
        mean = statistics.fmean(known)
        return Metric(value=mean, is_share=figure.is_share, rollouts=some)
    # Later attempts are compared with this one, so it has no interval.
    by_definition = figure.part == PREFERRED and any(
        one is not None and TRANSCRIPT in one.details for one in scores
    )
    interval = ratio_interval(known, wholes)
    low, high = (None, None) if by_definition else interval.ends
    return Metric(
        value=interval.mean,
        low=low,
        high=high,
        is_share=figure.is_share,
        scores=tuple(parts),
        weights=tuple(weights),
        judge=figure.judge,
        rollouts=some,
    )
