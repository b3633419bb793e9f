"""The settings of a sweep, and its trials: its runs and their names."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from precis.config import TrainConfig
from precis.environment import StoreUrl
from precis.errors import ConfigError
from precis.record import Matching, Record, Seed, json_digest
from precis.settings.overrides import lay_over
from precis.settings.problems import problems_in
from precis.store import open_store
from precis.text import count_of

Changes = Mapping[str, Any]
"""Settings by their dotted names, such as `trainer.learning_rate`."""

_OWN = {"model", "seed", "store", "benchmark"}
"""The settings that a sweep gives to its trials itself."""
TRIAL_TAG = "sweep-trial"
"""The tag in Prefect of every run that a sweep has started."""
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


@dataclass(frozen=True)
class Trial:
    """One run: some settings, and a seed."""

    model: str
    changes: Changes
    seed: int

    def parameters(self, store: str) -> dict[str, Any]:
        """Return the run's settings over those of its deployment."""
        own = {"model": self.model, "seed": self.seed, "store": store, "benchmark": False}
        return {**nest(self.changes), **own}

    def tag(self, store: str) -> str:
        """Return the trial's tag on a server where others have sweeps of its name, in other
        stores."""
        return f"trial {self.model} in {open_store(store).url}"


def plan_trials(config: SweepConfig) -> list[Trial]:
    """Return every trial of a sweep; the first seed of all settings comes before the second of any.

    A model is named after sweep, settings and seed, by which the sweep finds its runs again. Raises
    ConfigError for too many, a setting that the sweep itself gives, or one that is part of another.
    """
    count_max = TRIALS_MAX // len(config.seeds)
    # A grid grows fast: stop at the first combination too many.
    combinations = list(itertools.islice(_combinations(config), count_max + 1))
    if len(combinations) > count_max:
        raise ConfigError(
            f"The sweep comes to more than {TRIALS_MAX} runs (over {count_max} combinations with "
            f"{count_of(len(config.seeds), 'seed')} each): name fewer values."
        )
    trials = []
    for seed in config.seeds:
        for changes in combinations:
            model = f"{config.name}-{json_digest(changes)[:8]}-seed{seed}"
            trials.append(Trial(model, changes, seed))
    return trials


def check_trials(
    trials: Sequence[Trial], deployed: Mapping[str, Any], store: str
) -> list[TrainConfig]:
    """Return each trial's settings over those of the deployment, all checked before any run starts;
    a ConfigError names what can't be set."""
    configs = []
    for trial in trials:
        given = trial.parameters(store)
        try:
            configs.append(TrainConfig.model_validate(lay_over(TrainConfig, deployed, given)))
        except ValidationError as error:
            raise ConfigError(
                f"The sweep can't try {describe(trial.changes)}: {problems_in(error)[0]}."
            ) from error
    return configs


def refuse_launcher(deployment: str, entrypoint: str) -> None:
    """Raise ConfigError for a deployment that launches a managed job and ends, before it has
    trained anything."""
    if "flows/managed.py:" in entrypoint:
        raise ConfigError(
            f"A run of {deployment} ends once its managed job is launched, so that a sweep would "
            "rank nothing, and its machines would go on.",
            "Name a deployment whose run trains, such as train/h100.",
        )


def describe_plan(deployment: str, configs: Sequence[TrainConfig]) -> str:
    """Describe the runs of a sweep before they start, and the most that they may spend."""
    plan = (
        f"To compare: {count_of(len(configs), 'run')} of {deployment}. A worker needs a slot for "
        "them beside the sweep's own (--limit 2 or more)."
    )
    budgets = [config.budget_usd for config in configs if config.budget_usd is not None]
    unbounded = len(configs) - len(budgets)
    if unbounded:
        return f"{plan} {unbounded} of the {len(configs)} trials have no budget_usd to stop at."
    usd = sum(budgets)
    return f"{plan} Each trial stops at its budget_usd; together they may spend ${usd:,.2f}."


def describe(changes: Changes) -> str:
    """Return settings in a line: `trainer.learning_rate=0.1, steps=60`, or a phrase for none."""
    if not changes:
        return "the deployment's own settings"
    return ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in changes.items()
    )


def nest(changes: Changes) -> dict[str, Any]:
    """Nest settings by their parts: `{"trainer": {"learning_rate": 0.1}, "steps": 60}`."""
    nested: dict[str, Any] = {}
    for name, value in changes.items():
        *outer, last = name.split(".")
        inner = nested
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def _combinations(config: SweepConfig) -> Iterator[dict[str, Any]]:
    """Yield each combination once, the grid's first. Raises ConfigError as `plan_trials`."""
    names = list(config.grid)
    rows = itertools.product(*config.grid.values()) if names else ()
    grid = (dict(zip(names, row, strict=True)) for row in rows)
    seen = set()
    for changes in itertools.chain(grid, config.settings):
        own = sorted(_OWN & {name.partition(".")[0] for name in changes})
        if own:
            raise ConfigError(
                f"A sweep gives its trials their {', '.join(own)} itself: leave it out of grid and "
                "settings, and use the sweep's own fields (name, seeds, store)."
            )
        for name in changes:
            parts = [other for other in changes if other.startswith(f"{name}.")]
            if parts:
                raise ConfigError(
                    f"The sweep is given {name}, and with it {', '.join(parts)}, a part of it: "
                    f"give {name} whole, or its parts one by one."
                )
        digest = json_digest(changes)
        if digest not in seen:
            seen.add(digest)
            yield changes
