"""What a training run works with, and the names under which it keeps things."""

import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import art

from precis.config import RunConfig, TrainConfig
from precis.documents import Corpus
from precis.environment import Environment
from precis.errors import BudgetReached
from precis.judge import JudgeClient
from precis.judge.ruler import RulerJudge
from precis.judge.spend import Spend
from precis.lease import Lease, leased
from precis.ledger import Ledger
from precis.loopback import Service
from precis.observe.wandb import WandbLog, wandb_log
from precis.stopwatch import Stopwatch
from precis.store import Store, open_store
from precis.trainer import RemoteTrainer

PROJECT = "precis"

Model = art.TrainableModel[Any, Any]


@dataclass(frozen=True)
class Services:
    """What answers requests during a run: the trainer, the judge, and the local stand-ins.

    Attributes:
        ruler: the same judge, ranking groups; None where `reward` asks questions.
    """

    trainer: RemoteTrainer
    judge: JudgeClient
    ruler: RulerJudge | None
    standins: Service


class Run:
    """A run at work, with the ledger of what it has committed so far.

    Not a dataclass: Prefect walks through those, and all they hold, on every task call.
    """

    ledger: Ledger
    lease: Lease

    def __init__(self, config: TrainConfig, corpus: Corpus, services: Services) -> None:
        self.config, self.corpus = config, corpus
        self.trainer, self.judge, self.ruler = services.trainer, services.judge, services.ruler
        self.store: Store = open_store(config.store)
        self.identity = config.identity(corpus.digest, self.judge.identity)
        self.model = trainable(config)
        self.stopwatch = Stopwatch()
        self.wandb: WandbLog | None = None
        self._booked = Spend()

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
        """Log to W&B while the block lasts, where it is configured."""
        config, folder = self.config.model_dump(), work_folder(self.config) / "wandb"
        async with wandb_log(self.name, self.ledger.wandb_run_id, config, folder) as self.wandb:
            yield

    def check_budget(self) -> None:
        """Stop here if the ledger has reached the budget.

        Raises:
            BudgetReached: what was spent; everything up to here is committed.
        """
        budget = self.config.budget_usd
        if budget is not None and self.ledger.usd >= budget:
            raise BudgetReached(
                f"The run has spent ${self.ledger.usd:.2f} of its ${budget:.2f} and stops after "
                f"step {self.ledger.next_step}, which is committed. Raise budget_usd and start "
                "it again to continue."
            )

    @property
    def unbooked(self) -> Spend:
        """What judging has cost and no ledger says yet, tries that failed included."""
        return self.spend.since(self._booked)

    def book(self, ledger: Ledger, spend: Spend) -> None:
        """Go on from a ledger that was written, and that says what `spend` says."""
        self.ledger, self._booked = ledger, self._booked + spend

    @property
    def spend(self) -> Spend:
        """What judging has cost since this process began."""
        return self.judge.spend + (self.ruler.spend if self.ruler else Spend())

    @property
    def name(self) -> str:
        return self.config.model


def trainable(config: RunConfig) -> Model:
    """The model as ART knows it; it logs to ART's own files only."""
    return art.TrainableModel(
        name=config.model,
        project=PROJECT,
        base_model="extractive",
        base_path=str(work_folder(config) / "art"),
        report_metrics=[],
    )


def work_folder(config: RunConfig) -> Path:
    """A run's local files: ART's metrics and trajectories, the trainer's folder, logs.

    The same model in another store is another run, with files of its own.
    """
    store = hashlib.sha256(open_store(config.store).url.encode()).hexdigest()
    return Environment().home / "work" / f"{config.model}-{store[:8]}"


@contextmanager
def trainer_folder(config: RunConfig) -> Iterator[Path]:
    """A folder for a local trainer of this process, which restores what it needs from the store.

    It is nobody else's: a second run of the model must not disturb the first before it has been
    refused. Those of processes that were killed are swept up.
    """
    trainers = work_folder(config) / "trainers"
    trainers.mkdir(parents=True, exist_ok=True)
    for left in trainers.iterdir():
        if not _is_alive(int(left.name.partition("-")[0])):
            shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=f"{os.getpid()}-", dir=trainers) as folder:
        yield Path(folder)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def mend_art_files(config: RunConfig) -> None:
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
