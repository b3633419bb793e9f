"""What the rest of a run will cost, said before it costs anything."""

import logging

from precis.benchmark.teacher import forecast_teacher, teacher_of
from precis.training.run import Run

_log = logging.getLogger(__name__)


def announce_cost(run: Run) -> None:
    """Say what the rest of the run will cost, as far as it can be foreseen."""
    config = run.config
    at = run.ledger.next_step
    usd = run.ledger.usd
    teacher = teacher_of(config)
    if teacher and run.warm_start and at == 0:
        asked = forecast_teacher(teacher.spec, run.environment, run.warm_start.scenarios)
        _log.info("%s", asked)
        usd += asked.usd or 0.0
    for ahead in run.environment.forecasts(config, at):
        _log.info("%s", ahead)
        for sentence in ahead.warnings:
            _log.warning("%s", sentence)
        usd += ahead.usd or 0.0
    if config.budget_usd is not None and usd > config.budget_usd:
        _log.warning("The budget of $%.2f will not last to the last step.", config.budget_usd)
