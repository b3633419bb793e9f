"""The outlook of a run: its seconds and dollars, to its end."""

from dataclasses import dataclass
from statistics import fmean
from typing import Self

from precis.config import TrainConfig
from precis.records.ledger import Ledger

_RECENT = 20
"""Steps to extrapolate from: a policy's rollouts change, and their cost with them."""


@dataclass(frozen=True)
class RunPlan:
    """The steps of a run, and the validations that are still to come."""

    steps: int
    validations_left: int = 0

    @classmethod
    def of(cls, config: TrainConfig, ledger: Ledger) -> Self:
        """Return the rest of a run by its settings, without its benchmark."""
        steps = config.steps if ledger.stopped_early is None else ledger.stopped_early
        due = set(filter(config.validates, range(ledger.next_step, steps + 1)))
        known = {one.step for one in ledger.validations}
        return cls(steps, len(due - known))


@dataclass(frozen=True)
class Projection:
    """The seconds that are left, and the dollars at the end.

    Attributes:
        usd_at_end: what the whole run will have cost; None before the first step.
        seconds_left: None before the first step.
    """

    usd_at_end: float | None
    seconds_left: float | None


def outlook(ledger: Ledger, plan: RunPlan) -> Projection:
    """Extrapolate from the mean of the last twenty steps, and of all validations."""
    trained = [step for step in ledger.steps if step.warm_start is None]
    recent = trained[-_RECENT:]
    if not recent:
        return Projection(None, None)
    left = max(0, plan.steps - ledger.next_step)
    step_usd = fmean(step.usd for step in recent)
    # What no step in the ledger has spent, the validations have.
    rest = ledger.usd - ledger.other_usd - sum(step.usd for step in ledger.steps)
    other_usd = plan.validations_left * (max(0.0, rest) / max(1, len(ledger.validations)))
    seconds = left * fmean(step.wall_s for step in recent)
    validated = [one.seconds for one in ledger.validations]
    seconds += plan.validations_left * (fmean(validated) if validated else 0.0)
    return Projection(ledger.usd + left * step_usd + other_usd, seconds)


def in_words(seconds: float) -> str:
    """`about 40 s`, `about 12 min`, `about 3.5 h`."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"
