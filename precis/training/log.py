"""The news that a run gives of itself: ART's files, W&B, the observers, and what was seen."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from precis.config import TrainConfig
from precis.environments.trajectories import group_of
from precis.observe.observers import Observers, observing
from precis.observe.rollouts import rollouts_of_step
from precis.observe.samples import sample_table
from precis.observe.wandb import WandbLog, wandb_log
from precis.records.ledger import Ledger, Validation
from precis.records.metrics import step_metrics, validation_metrics
from precis.records.rollout import Rollout, Split
from precis.report.examples import LatestSamples
from precis.trainer.client import Model


class RunLog:
    """The receivers of a run's news beside its ledger, and its latest samples.

    ART's files are always written; W&B and the observers hear of what happens while `open` lasts.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._wandb: WandbLog | None = None
        self._observers = Observers([])
        self.seen = LatestSamples()

    @asynccontextmanager
    async def open(self, config: TrainConfig, run_id: str, files: Path) -> AsyncIterator[None]:
        """Tell W&B, whose own files go into `files`, and the observers while the block lasts."""
        log = wandb_log(config.model, run_id, config.model_dump(), files)
        async with log as self._wandb, observing() as self._observers:
            yield

    @property
    def wandb_url(self) -> str:
        """The run's page at W&B; empty where there is none."""
        return self._wandb.url if self._wandb else ""

    async def log_step(
        self, ledger: Ledger, step: int, groups: Iterable[Sequence[Rollout]] | None
    ) -> None:
        """Append a committed step to ART's files and to W&B; doing it again appends it again.

        Its groups are None where an earlier process has sampled it.
        """
        record = next(one for one in ledger.steps if one.step == step)
        metrics = step_metrics(ledger, record)
        trained = None if groups is None else list(map(group_of, groups))
        await self._model.log(trained, split="train", metrics=metrics, step=step)
        if self._wandb:
            self._wandb.log(step, metrics)

    async def log_validation(self, validation: Validation) -> None:
        """Append a validation to ART's files and to W&B."""
        metrics = {name: metric.value for name, metric in validation.metrics.items()}
        await self._model.log(split="val", metrics=metrics, step=validation.step)
        if self._wandb:
            self._wandb.log(validation.step, validation_metrics(validation))

    def tell_samples(
        self,
        rollouts: Sequence[Sequence[Rollout]],
        run_id: str,
        split: Split,
        step: int,
        adapter: int,
    ) -> None:
        """Tell the observers what an adapter wrote, and W&B of a validation's samples."""
        told = rollouts_of_step(
            rollouts,
            run=run_id,
            policy=self._model.get_inference_name(adapter),
            split=split,
            step=step,
        )
        self._observers.rollouts(told)
        if self._wandb and split == "validation":
            columns, table = sample_table(rollouts)
            self._wandb.table(step, "samples", columns, table)

    def show_rollouts(self, rows: Sequence[Sequence[Rollout]]) -> None:
        """Have the report show these as the last step's."""
        rollouts = tuple(chain.from_iterable(rows))
        self.seen = replace(self.seen, rollouts=rollouts)

    def show_validation(self, step: int, rollouts: Iterable[Rollout]) -> None:
        """Have the report show these as of the validation of adapter `step`."""
        self.seen = self.seen.add_validation(step, rollouts)
