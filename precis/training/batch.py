"""What a step has sampled, and what of it is trained on.

Neither is a dataclass: Prefect walks through those, and all they hold, on every task call.
"""

from collections import Counter
from collections.abc import Sequence

from precis.config import RolloutsConfig
from precis.records.rollout import Rollout
from precis.records.spend import Spend
from precis.rollouts.filter import Group, split_groups


class StepRollouts:
    """All scored rollouts of a step, a row for each scenario.

    Attributes:
        adapter: the step of the adapter that all of them were sampled from.
        seconds: wall time that sampling and scoring took.
        spend: what they cost, where nobody else asked the judge at the same time.
    """

    def __init__(
        self,
        rows: Sequence[Sequence[Rollout]],
        adapter: int,
        seconds: float,
        spend: Spend,
    ) -> None:
        self.rows = rows
        self.adapter = adapter
        self.seconds = seconds
        self.spend = spend


class TrainingBatch:
    """The rollouts of a step, split into the groups to train on and those that were dropped.

    Attributes:
        dropped: how many groups, by cause.
    """

    def __init__(
        self,
        rollouts: StepRollouts,
        groups: Sequence[Group],
        dropped: Counter[str],
    ) -> None:
        self.rollouts = rollouts
        self.groups = groups
        self.dropped = dropped


def filter_groups(rollouts: StepRollouts, config: RolloutsConfig) -> TrainingBatch:
    """Leave out the groups that teach nothing, or too few of whose rollouts were scored."""
    groups, dropped = split_groups(rollouts.rows, config)
    return TrainingBatch(rollouts, groups, dropped)
