"""The settings of a sweep."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from precis.config import Seed
from precis.record import Name, Record
from precis.settings.store import StoreUrl

TRIALS_MAX = 200
"""More runs than this are a mistake more often than a plan."""

SweepName = Annotated[Name, Field(max_length=30)]
"""The trials' models are named after it, and a model's name has at most 64 characters."""


class SweepConfig(Record):
    """Settings to compare by training with each of them."""

    name: SweepName = "sweep"
    """Name of the sweep: its trials are models of this name and more. A sweep that is run again
    under its name continues with the trials that it has."""
    deployment: str = Field("train/trial", pattern=r"^train/[^/]+$")
    """The deployment of training that is tried. Its settings hold where a trial has no other, its
    concurrency limit is the number of trials at once, and its `budget_usd` is each trial's."""
    grid: dict[str, list[Any]] = Field({})
    """Values by setting, each combined with each of the others:
    `{"trainer.learning_rate": [0.1, 0.3], "rollouts.rollouts_per_group": [4, 8]}`."""
    settings: list[dict[str, Any]] = Field([])
    """Combinations that are given one by one, beside those of the grid:
    `[{"trainer.learning_rate": 0.1, "steps": 60}]`."""
    seeds: tuple[Seed, ...] = Field((1, 2, 3), min_length=1)
    """Each combination is trained with each of these seeds: what differs between them is chance."""
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
