"""The settings of a sweep."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from precis.environment import StoreUrl
from precis.record import Matching, Record, Seed

TRIALS_MAX = 200
"""More runs than this are a mistake more often than a plan."""

SweepName = Annotated[
    str,
    Matching(
        r"^[A-Za-z0-9][A-Za-z0-9._-]{0,29}$",
        "may have letters, digits, dots, dashes and underscores, at most 30 in all, and begins "
        "with a letter or a digit",
    ),
]
"""The trials' models are named after it, and a model's name has at most 64 characters."""

TrainDeployment = Annotated[
    str,
    Matching(r"^train/[^/]+$", "is the name of a deployment that trains, such as train/trial"),
]


class SweepConfig(Record):
    """Settings to compare by training with each of them."""

    name: SweepName = "sweep"
    """Name of the sweep, of letters, digits, dots, dashes and underscores: its trials' model names
    begin with it. A sweep that is run again under its name continues."""
    deployment: TrainDeployment = "train/trial"
    """The deployment to train with, such as `train/trial`. Trials override its settings; its
    concurrency limit is the number of concurrent trials, and its `budget_usd` is each trial's."""
    grid: dict[str, list[Any]] = Field({})
    """Values by setting, each combined with each of the others:
    `{"trainer.learning_rate": [0.1, 0.3], "rollouts.rollouts_per_group": [4, 8]}`."""
    settings: list[dict[str, Any]] = Field([])
    """Single combinations besides the grid's: `[{"trainer.learning_rate": 0.1, "steps": 60}]`."""
    seeds: tuple[Seed, ...] = Field((1, 2, 3), min_length=1)
    """Every combination is trained with each of these seeds, whose differences are chance."""
    store: StoreUrl = Field("", validate_default=True)
    """Folder or s3://bucket/prefix for the trials and the report; empty takes the variable
    PRECIS_STORE, or else .precis/store."""

    @model_validator(mode="after")
    def _names_what_to_try(self) -> Self:
        if not self.grid and not self.settings:
            raise ValueError("neither grid nor settings says what to try")
        empty = [setting for setting, values in self.grid.items() if not values]
        if empty:
            raise ValueError(f"the grid has no value for {', '.join(empty)}")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("a seed is there twice, and would train the same run again")
        return self
