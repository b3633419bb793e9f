"""Settings, best first, and how much of their differences may be chance.

Seeds differ in batches, samples and the untrained policy. The result of settings is the mean over
their seeds, with Student's interval: seeds are few, and each is one draw.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, stdev

from precis.errors import UnusableRun
from precis.records.ledger import Ledger, load_ledger
from precis.statistics.intervals import Interval
from precis.store import Store
from precis.sweep.trials import Changes, Trial

_T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""The 97.5 % quantile of Student's t, for 1 to 30 degrees of freedom; beyond, the last is kept,
which is a little wide."""
SEEDS_MIN = 3
"""With fewer there is no interval: Student's for two seeds is 13 times as wide as their gap."""


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial.

    Attributes:
        accuracy: of the newest validated adapter, or of the best if the run stopped early; None if
            none was trained.
        is_lower_bound: whether some calls had no known price, which its dollars do not count.
        failure: why the run did not end well, or "".
        shares: all shares of the same validation, by name.
    """

    trial: Trial
    accuracy: float | None = None
    steps: int = 0
    usd: float = 0.0
    is_lower_bound: bool = False
    failure: str = ""
    measure: str = "accuracy"
    is_share: bool = True
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SettingsResult:
    """The result of some settings over their seeds.

    Attributes:
        accuracy: mean over the seeds, with its interval; None if no seed was measured. With fewer
            seeds than `SEEDS_MIN` chance is unknown, and the interval has the measure's bounds.
        gaps: the lead of the best settings over these, for each seed measured with both; none for
            the best.
    """

    changes: Changes
    trials: tuple[TrialResult, ...]
    accuracy: Interval | None
    gaps: tuple[float, ...] = ()

    @property
    def behind(self) -> Interval | None:
        """The mean of the gaps with its interval; None with too few seeds, or if all are alike."""
        if len(self.gaps) < SEEDS_MIN:
            return None
        most = 1.0 if self.is_share else math.inf
        found = interval_over_seeds(self.gaps, -most, most)
        return found if found.low < found.high else None

    @property
    def is_share(self) -> bool:
        """True if the measure is between 0 and 1."""
        return all(one.is_share for one in self.trials)

    @property
    def is_told_apart(self) -> bool:
        """True if they are behind the best settings by more than chance."""
        return self.behind is not None and self.behind.low > 0


def read_result(store: Store, trial: Trial, failure: str) -> TrialResult:
    """Read the result of a trial from the store; `failure` is empty if its run ended well."""
    try:
        return result_of(trial, load_ledger(store, trial.model), failure)
    except UnusableRun as error:
        return TrialResult(trial, failure=failure or str(error))


def result_of(trial: Trial, ledger: Ledger, failure: str = "") -> TrialResult:
    """Return the result of a trial by its ledger."""
    last = ledger.final if ledger.validations and ledger.validations[-1].step else None
    metrics = last.metrics if last else {}
    shares = {name: metric.value for name, metric in metrics.items() if metric.is_share}
    return TrialResult(
        trial,
        accuracy=last.score.value if last else None,
        steps=ledger.next_step,
        usd=ledger.usd,
        is_lower_bound=ledger.is_lower_bound,
        failure=failure,
        measure=last.measure if last else "accuracy",
        is_share=last is None or last.score.is_share,
        shares=shares,
    )


def in_one_measure(results: Sequence[TrialResult]) -> list[TrialResult]:
    """Return the results by one measure. A run without a success at its first validation is
    measured by its reward, even if the runs of other seeds count successes."""
    counted = {one.measure for one in results if one.accuracy is not None and one.is_share}
    if len(counted) != 1:
        return list(results)
    [measure] = counted
    found = []
    for one in results:
        if one.accuracy is None or one.is_share:
            found.append(one)
            continue
        # A validation without any success has no share of them.
        share = one.shares.get(measure, 0.0)
        found.append(replace(one, accuracy=share, measure=measure, is_share=True))
    return found


def rank(results: Sequence[TrialResult]) -> list[SettingsResult]:
    """Return the settings by their mean accuracy, best first; those without any at the end."""
    groups: dict[str, list[TrialResult]] = {}
    for result in in_one_measure(results):
        groups.setdefault(str(sorted(result.trial.changes.items())), []).append(result)
    found = []
    for trials in groups.values():
        values = [one.accuracy for one in trials if one.accuracy is not None]
        accuracy = None
        if values:
            ends = (0.0, 1.0) if all(one.is_share for one in trials) else (-math.inf, math.inf)
            accuracy = interval_over_seeds(values, *ends)
        found.append(SettingsResult(trials[0].trial.changes, tuple(trials), accuracy))
    found.sort(key=lambda one: one.accuracy.mean if one.accuracy else -math.inf, reverse=True)
    ranked = found[:1]
    for settings in found[1:]:
        # The lead of the best settings, on each seed that both were measured with.
        theirs = {their.trial.seed: their.accuracy for their in settings.trials}
        gaps = []
        for best in found[0].trials:
            other = theirs.get(best.trial.seed)
            if best.accuracy is not None and other is not None:
                gaps.append(best.accuracy - other)
        ranked.append(replace(settings, gaps=tuple(gaps)))
    return ranked


def interval_over_seeds(values: Sequence[float], least: float, most: float) -> Interval:
    """Return the mean with Student's 95 % interval, cut to the bounds of a value; both ends are the
    mean of values that are all alike, whose spread is unknown."""
    mean = fmean(values)
    if len(values) < SEEDS_MIN:
        return Interval(mean, least, most)
    if math.isclose(min(values), max(values), abs_tol=1e-12):
        return Interval(mean, mean, mean)
    quantile = _T_975[min(len(values) - 1, len(_T_975)) - 1]
    reach = quantile * stdev(values) / math.sqrt(len(values))
    return Interval(mean, max(least, mean - reach), min(most, mean + reach))
