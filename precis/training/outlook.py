"""What the rest of a run will cost, said before it costs anything."""

import logging

from precis.benchmark.teacher import forecast_teacher, teacher_of
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.judge.forecast import Forecast
from precis.settings.tinker import TinkerTrainer
from precis.training.forecast import forecast_judging, forecast_second_judge, forecast_service
from precis.training.run import Run

_log = logging.getLogger(__name__)


def announce_cost(run: Run) -> None:
    """Say what the rest of the run will cost: the training service, a teacher, and the judges."""
    summaries = run.environment
    if not isinstance(summaries, Summaries):
        return  # what another asks for, nobody knows beforehand
    config = run.config
    at = run.ledger.next_step
    held_out = summaries.corpus.validation
    usd = run.ledger.usd
    apart = run.warm_start.documents if run.warm_start else ()
    if isinstance(config.trainer, TinkerTrainer):
        charged = forecast_service(config, config.trainer, at, held_out)
        _log.info("%s", charged)
        usd += charged.usd or 0.0
        if charged.usd is None:
            _log.warning(
                "What the Tinker service charges is not counted. Give its prices in trainer.prices."
            )
    teacher = teacher_of(config, summaries.task)
    if teacher and at == 0:
        asked = forecast_teacher(teacher.spec, apart, summaries.task)
        _log.info("%s", asked)
        usd += asked.usd or 0.0
    if config.judge.provider != "lexical":
        model = summaries.judge.identity["model"]
        usd += _announce(forecast_judging(config, at, held_out, model, len(apart)), model)
    if summaries.second:
        model = summaries.second.identity["model"]
        ahead = forecast_second_judge(config, at, held_out, model)
        if ahead and config.second_judge and config.second_judge.provider != "lexical":
            usd += _announce(ahead, model)
    if config.budget_usd is not None and usd > config.budget_usd:
        _log.warning("The budget of $%.2f will not last to the last step.", config.budget_usd)


def _announce(ahead: Forecast, model: str) -> float:
    """Say what a judge will take; returns its dollars, as far as they are known."""
    _log.info("%s", ahead)
    if ahead.usd is None:
        _log.warning(
            "No price is known for %s: its cost is not counted. Give one in its prices.", model
        )
    if ahead.days > 1:
        _log.warning("The daily quota suffices for one of %d days.", ahead.days)
    return ahead.usd or 0.0
