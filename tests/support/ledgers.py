"""A run's ledger in small: its steps and validations."""

from precis.records.ledger import (
    StepRecord,
    Validation,
)
from precis.records.spend import Spend


def record(step: int, reward: float = 0.5, usd: float = 0.25) -> StepRecord:
    return StepRecord(
        step=step,
        digest="d",
        reward=reward,
        reward_std=0.1,
        words=300,
        groups_trained=5,
        groups_dropped={},
        unscored={},
        disqualified={},
        trainer={"loss/train": 0.1},
        seconds={"gather": 1.0},
        judge=Spend(usd=usd),
    )


def validation(step: int, accuracy: float = 0.5) -> Validation:
    return Validation(
        step=step, accuracy=accuracy, low=0.4, high=0.6, words=300, seconds=1, unscored={}
    )
