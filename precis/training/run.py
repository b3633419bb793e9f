"""What a training run works with, and the names under which it keeps things."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import art

from precis.cluster.site import TrainerHost
from precis.config import RunConfig, TrainConfig
from precis.environment import private_home
from precis.judge import JudgeClient
from precis.judge.ruler import RulerJudge
from precis.observe.observers import Observers, observing
from precis.observe.wandb import WandbLog, wandb_log
from precis.processes.child import ChildService
from precis.records.documents import Corpus
from precis.records.ledger import Ledger, read_ledger, write_ledger
from precis.records.spend import Spend
from precis.report.examples import LatestSamples
from precis.run.lease import Lease, leased
from precis.store import Store, open_store
from precis.trainer.client import RemoteTrainer
from precis.training.meter import Meter
from precis.training.stopwatch import Stopwatch

PROJECT = "precis"

Model = art.TrainableModel[Any, Any]

_NOTHING = Spend()


@dataclass(frozen=True)
class Services:
    """What answers requests during a run beside the trainer: the judge and the local stand-ins.

    Attributes:
        ruler: the same judge, ranking groups; None where `reward` asks questions.
    """

    judge: JudgeClient
    ruler: RulerJudge | None
    standins: ChildService


class Run:
    """A run at work, with the ledger of what it has committed so far.

    Not a dataclass: Prefect walks through those, and all they hold, on every task call.

    Attributes:
        site: where the trainer runs.
        trainer: what trains and answers for the policy.
        next_step: the step to take next; the one before it may still be on its way to the store.
        committing: the commit that is under way beside the next step; at most one.
        machine: what the rented machine has cost since this process began.
        losses: how often the trainer was lost since a step was last committed.
    """

    ledger: Ledger
    lease: Lease
    site: TrainerHost
    trainer: RemoteTrainer

    def __init__(self, config: TrainConfig, corpus: Corpus, services: Services) -> None:
        self.config = config
        self.corpus = corpus
        self.judge = services.judge
        self.ruler = services.ruler
        self.store: Store = open_store(config.store)
        self.identity = config.identity(corpus.digest, self.judge.identity)
        self.model = trainable(config)
        self.stopwatch = Stopwatch()
        self.next_step = 0
        self.committing: asyncio.Task[None] | None = None
        self.losses = 0
        self.machine = Meter()
        self.wandb: WandbLog | None = None
        self.observers = Observers([])
        self.seen = LatestSamples()
        self._booked = Spend()
        self._ledger_version: str | None = None

    @asynccontextmanager
    async def holding(self, run: str) -> AsyncIterator[None]:
        """Hold the model's lease while the block lasts: nobody else may write its checkpoints.

        Args:
            run: what to call this run when another one is refused.

        Raises:
            LeaseHeld: another run holds it.
        """
        take_over = self.config.take_over
        async with leased(self.store, self.name, run, take_over=take_over) as self.lease:
            yield

    @asynccontextmanager
    async def observed(self) -> AsyncIterator[None]:
        """Tell W&B and the other observers while the block lasts, those there are keys for."""
        config = self.config.model_dump()
        folder = work_folder(self.config) / "wandb"
        log = wandb_log(self.name, self.ledger.run_id, config, folder)
        async with log as self.wandb, observing() as self.observers:
            yield

    async def read_ledger(self) -> None:
        """Take the ledger from the store, or begin one.

        Raises:
            ConfigError: the model was trained with other settings.
        """
        self.ledger, self._ledger_version = await asyncio.to_thread(
            read_ledger, self.store, self.name, self.identity, self.corpus.digest
        )

    async def write_ledger(self, ledger: Ledger, spend: Spend = _NOTHING) -> None:
        """Commit a ledger that says what `spend` says, and go on from it.

        Raises:
            LeaseLost: another run has taken the model over.
            StoreConflict: another run wrote the ledger in between.
        """
        await self.lease.check()  # an upload may have taken longer than the lease
        ledger = ledger.under(self.config.model_dump(mode="json"))
        self._ledger_version = await asyncio.to_thread(
            write_ledger, self.store, ledger, self._ledger_version
        )
        self.ledger = ledger
        self._booked = self._booked + spend

    @property
    def validation_is_due(self) -> bool:
        """Whether adapter `next_step` is to be validated: every so many steps, and the last."""
        at = self.next_step
        config = self.config
        known = any(validation.step == at for validation in self.ledger.validations)
        return not known and (at % config.validate_every == 0 or at >= config.steps)

    @property
    def is_done(self) -> bool:
        """Whether all steps are committed and the last adapter is validated."""
        return self.ledger.next_step >= self.config.steps and not self.validation_is_due

    @property
    def is_over_budget(self) -> bool:
        """Whether what was spent has reached the budget, what is not yet committed included."""
        budget = self.config.budget_usd
        return budget is not None and self.usd >= budget

    @property
    def usd(self) -> float:
        """What the run has spent, what is not yet committed included."""
        return self.ledger.usd + self.unbooked.usd + self.machine.unbooked_usd

    @property
    def unbooked(self) -> Spend:
        """What judging has cost and no ledger says yet, tries that failed included."""
        return self.spend.since(self._booked)

    @property
    def spend(self) -> Spend:
        """What judging has cost since this process began."""
        return self.judge.spend + (self.ruler.spend if self.ruler else Spend())

    @property
    def name(self) -> str:
        return self.config.model

    @property
    def kept_folder(self) -> Path:
        """Where a checkpoint that can't be uploaded is kept."""
        return work_folder(self.config) / f"kept-{self.ledger.run_id}"


def trainable(config: RunConfig) -> Model:
    """The model as ART knows it; it logs to ART's own files only."""
    return art.TrainableModel(
        name=config.model,
        project=PROJECT,
        base_model=config.trainer.base_model,
        _internal_config=config.trainer.internal_config,  # type: ignore[arg-type]
        base_path=str(work_folder(config) / "art"),
        report_metrics=[],
    )


def work_folder(config: RunConfig) -> Path:
    """A run's local files: ART's metrics and trajectories, the trainer's folder, logs.

    The same model in another store is another run, with files of its own.
    """
    store = hashlib.sha256(open_store(config.store).url.encode()).hexdigest()
    return private_home() / "work" / f"{config.model}-{store[:8]}"


def repair_art_files(config: RunConfig) -> None:
    """Drop what a killed process left half-written of ART's files, which are not atomic.

    `state.json` only sums up `history.jsonl`; ART begins a new one.
    """
    folder = work_folder(config) / "art" / PROJECT / "models" / config.model
    if (state := folder / "state.json").exists() and not state.read_bytes().endswith(b"}"):
        state.unlink()
    if (history := folder / "history.jsonl").exists():
        whole, newline, torn = history.read_bytes().rpartition(b"\n")
        if torn:
            history.write_bytes(whole + newline)
