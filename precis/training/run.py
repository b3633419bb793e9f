"""The objects that a training run works with, and the names under which it keeps things."""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from shlex import quote

import art

from precis.cluster.keys import cluster_name
from precis.config import RunConfig, TrainConfig
from precis.environment import private_home
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.errors import BudgetReached, StoreError
from precis.llm.silence import silences
from precis.observe.observers import Observers
from precis.observe.rollouts import records_of
from precis.observe.samples import sample_table
from precis.observe.wandb import WandbLog
from precis.processes.kill_points import reached
from precis.records.ledger import Ledger, StepRecord, encode_ledger, find_ledger, ledger_key
from precis.records.metrics import step_metrics
from precis.records.rollout import Rollout, Split
from precis.records.spend import Spend
from precis.report.training_report import LatestSamples, TrainingView
from precis.rollouts.filter import StepRollouts
from precis.runs.continuation import check_settings
from precis.runs.lease import Lease
from precis.runs.outlook import RunPlan
from precis.runs.repair import refuse_lost_ledger
from precis.store import Store, open_store
from precis.store.protocol import OwnObject
from precis.text import write_dollars
from precis.trainer.client import Model
from precis.trainer.protocol import StoredModel
from precis.training.beside import WorkBeside
from precis.training.connection import TrainerConnection

PROJECT = "precis"

_log = logging.getLogger(__name__)

_NOTHING = Spend()
_USD_MIN = 1e-9
"""Dollars; smaller sums are rounding errors."""
_BOOK_S = 5.0
"""A rented machine is given back only then, and a cancelled run is soon killed."""


class Stopwatch:
    """Seconds spent in each named phase since the last reset."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time that the block takes under `name`, also when it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def reset(self) -> None:
        self.seconds = {}


class Run:
    """A live run: its settings, what it works with, and the ledger of its committed steps.

    Its parts are given at construction and stay. Its state is kept by one owner each: the ledger
    here, changed by `write_ledger` alone, the commit that is under way in `commits`, the trainer's
    losses and its machine's price in `trainer`.

    Not a dataclass: Prefect walks through those, and all they hold, on every task call.

    Attributes:
        identity: digest of the settings that decide the result (`TrainConfig.identity`).
        environment: the policy's task.
        recorder: every rollout asks the policy through it.
        warm_start: the imitation in step 0; None where reinforcement begins at once.
        drawn: the scenarios that steps draw from.
        held_out: the scenarios of validations.
        taught: the cost of a teacher since this process began.
        lease: held as long as the run lives; no other run may write its checkpoints.
        commits: the commit that is under way beside the next step; at most one.
        ahead: the next step's sampling, beside the training of a step; at most one.
        described: the step that this process has described last, until the ledger has it; the cost
            in the record of any other step was spent by another process.
        service_usd: the charge of a training service for that step.
        found_at: the step of the ledger as `resume` found it.
        seen: the latest samples, for the report.
        wandb, observers: the other receivers of the run's records, while it trains.
        first_adapter: the adapter that reinforcement begins with.
        oldest_adapter: that steps may be sampled from; older ones are not served any more, or are
            from before the warm start.
    """

    def __init__(
        self,
        config: TrainConfig,
        environment: Environment,
        recorder: Recorder,
        store: Store,
        lease: Lease,
        trainer: TrainerConnection,
    ) -> None:
        self.config = config
        self.environment = environment
        self.recorder = recorder
        self.warm_start = environment.warm_start
        apart = {one.id for one in self.warm_start.scenarios} if self.warm_start else set()
        train = environment.scenarios("train")
        self.drawn = tuple(one for one in train if one.id not in apart)
        self.held_out = tuple(environment.scenarios("validation"))
        self.store = store
        self.lease = lease
        self.trainer = trainer
        self.digest = environment.digest
        self.identity = identity_of(config, environment)
        self.model = trainable(config)
        self.commits: WorkBeside[None] = WorkBeside()
        self.ahead: WorkBeside[StepRollouts] = WorkBeside()
        self.described: StepRecord | None = None
        self.service_usd = 0.0
        self.first_adapter = 0 if self.warm_start is None else 1
        self.oldest_adapter = self.first_adapter
        self.found_at = 0
        self.seen = LatestSamples()
        self.wandb: WandbLog | None = None
        self.observers = Observers([])
        self.stopwatch = Stopwatch()
        self.ledger = self._new_ledger()
        self.taught = Spend()
        self._booked = Spend()
        self._stored = OwnObject(store, ledger_key(config.model), None)

    async def read_ledger(self) -> None:
        """Take the ledger from the store, or begin one; a ConfigError says that the model was
        trained with other settings, an UnusableRun that the ledger is damaged or lost."""
        found = await asyncio.to_thread(find_ledger, self.store, self.name)
        if found is None:
            await asyncio.to_thread(refuse_lost_ledger, self.store, self.name)
            self.ledger = self._new_ledger()
        else:
            check_settings(found[0], self.config, self.identity, self.digest, self.store.url)
            # A rebuilt one has no digest; a run with the same settings has the same documents.
            corpus = found[0].corpus or self.digest
            self.ledger = found[0].model_copy(update={"corpus": corpus})
        version = found[1].version if found else None
        self._stored = OwnObject(self.store, ledger_key(self.name), version)

    def _new_ledger(self) -> Ledger:
        run_id = secrets.token_hex(4)
        return Ledger(model=self.name, config=self.identity, corpus=self.digest, run_id=run_id)

    async def write_ledger(self, ledger: Ledger, spend: Spend = _NOTHING) -> None:
        """Commit a ledger, with spending that belongs to no step, and continue from it. Raises
        LeaseLost or StoreConflict where another run has taken over, or wrote the ledger."""
        await self.lease.check()  # an upload may have taken longer than the lease
        ledger = ledger.under(self.config.model_dump(mode="json"))
        ledger = ledger.model_copy(update={"unpriced": ledger.unpriced + spend.unpriced})
        ledger = ledger.stop_early(self.config.patience, self.config.steps)
        reached("before ledger", ledger.next_step)
        data = await asyncio.to_thread(encode_ledger, self.store, ledger)
        await asyncio.to_thread(self._stored.write, data)
        reached("ledger written", ledger.next_step)
        self.ledger = ledger
        self._booked = self._booked + spend
        if self.described and self.described.step < ledger.next_step:
            self._booked = self._booked + self.described.judge
            self.trainer.meter.book(self.described.machine_usd, self.described.machine_saved_usd)
            self.described = None
            self.service_usd = 0.0

    @property
    def next_step(self) -> int:
        """The step to take next; the one before it may still be on its way to the store."""
        step = self.commits.step
        return self.ledger.next_step if step is None else step + 1

    def adapter_for(self, step: int) -> int:
        """Return the adapter that a step is sampled from, interrupted or not. With
        `off_policy_steps` that is the one before its own, which is still being trained."""
        return max(step - self.config.off_policy_steps, self.oldest_adapter)

    @property
    def validation_is_due(self) -> bool:
        """Return whether to validate adapter `next_step`."""
        known = any(validation.step == self.next_step for validation in self.ledger.validations)
        return not known and self.config.validates(self.next_step)

    @property
    def variance_is_due(self) -> bool:
        """Return whether to measure the groups of adapter `next_step`: around a warm start."""
        known = any(one.step == self.next_step for one in self.ledger.variances)
        return self.warm_start is not None and self.next_step in (0, 1) and not known

    @property
    def is_done(self) -> bool:
        """Return whether all steps are committed and the last adapter measured, or it stopped
        early."""
        if self.ledger.stopped_early is not None:
            return True
        measured = not self.validation_is_due and not self.variance_is_due
        return self.ledger.next_step >= self.config.steps and measured

    def limit_reached(self, machine_usd: float = 0.0) -> BudgetReached | None:
        """Return the error to stop with, once everything up to here is committed, where the run has
        spent its budget, or held its machine for as long as it may. `machine_usd` is the price of
        an hour of the machine to be rented now, if one is."""
        step = self.ledger.next_step
        budget = self.config.budget_usd
        if budget is not None and self.usd + machine_usd >= budget:
            rent = f", and a machine costs ${machine_usd:.2f} an hour" if machine_usd else ""
            return BudgetReached(
                f"The run has spent {write_dollars(self.usd)} of its {write_dollars(budget)}"
                f"{rent}. It stops after step {step}, which is committed.",
                "Raise budget_usd and start it again to continue.",
            )
        hours = self.trainer.meter.hours
        if hours >= self.config.cluster.hours_max:
            return BudgetReached(
                f"The run has held its machine for {hours:.1f} hours (cluster.hours_max) and stops "
                f"after step {step}, which is committed.",
                "Start it again to continue.",
            )
        return None

    async def book_rest(self, spend: Spend) -> None:
        """Book the cost of the machine, and other spending, for which no step will be committed by
        this process. Where the store does not take it, it is in no ledger, and the log says so."""
        machine_usd = self.trainer.meter.unbooked_usd
        is_shared = self.config.cluster.where == "sky"  # and not the machine of this process
        if machine_usd and is_shared and await self.lease.is_lost():
            machine_usd = 0.0  # the run that has taken over counts it, from what is booked on
        usd = spend.usd + machine_usd
        if usd < _USD_MIN:
            return
        # A commit that did not succeed may still be in the store, with its part of this.
        pending_usd = self.described.usd if self.described else 0.0
        self.ledger = self.ledger.charge(usd, pending_usd, time.time(), spend.unpriced)
        # Also if the write fails or is cancelled: the next one, if any, has it in the ledger.
        self.trainer.meter.book(machine_usd)
        self._booked = self._booked + spend
        try:
            if self._stored.version is None:
                raise StoreError("The run did not begin.")
            async with asyncio.timeout(_BOOK_S):
                await self.write_ledger(self.ledger)
        except (StoreError, TimeoutError) as error:
            why = str(error) or f"The store did not answer for {_BOOK_S:.0f} s."
            _log.warning("The run's last %s are in no ledger: %s", write_dollars(usd), why)

    @property
    def usd(self) -> float:
        """The run's spend in dollars, with the part that is not committed yet."""
        unbooked = self.unbooked.usd + self.trainer.meter.unbooked_usd + self.service_usd
        return self.ledger.usd + unbooked

    @property
    def usd_left(self) -> float | None:
        """The rest of the budget, at least a cent, since no limit may be 0; None without one."""
        budget = self.config.budget_usd
        return None if budget is None else max(0.01, budget - self.usd)

    @property
    def unbooked(self) -> Spend:
        """The cost of judging and a teacher that no ledger has yet, failed tries included."""
        spend = self.spend.since(self._booked)
        return replace(spend, usd=max(0.0, spend.usd))  # a rounding error may be below zero

    @property
    def spend(self) -> Spend:
        """The spend of the environment and a teacher since this process began."""
        return self.environment.spend + self.taught

    def metrics_of(self, step: int) -> dict[str, float]:
        """Return a committed step's numbers under flat names, as they are logged."""
        record = next(one for one in self.ledger.steps if one.step == step)
        return step_metrics(self.ledger, record)

    def tell_samples(
        self, split: Split, step: int, rows: Sequence[Sequence[Rollout]], adapter: str
    ) -> None:
        """Send an adapter's rollouts to the observers, and a validation's samples to W&B."""
        origin = {"split": split, "step": str(step)}
        everyone = chain.from_iterable(rows)
        self.observers.rollouts(records_of(everyone, self.ledger.run_id, adapter, origin))
        if self.wandb and split == "validation":
            columns, table = sample_table(rows)
            self.wandb.table(step, "samples", columns, table)

    @property
    def name(self) -> str:
        return self.config.model

    @property
    def stored_model(self) -> StoredModel:
        """The place of the run's checkpoints, and the name in which they are committed."""
        return StoredModel(
            store=self.store.url,
            name=self.name,
            config=self.identity,
            run=self.ledger.run_id,
            lease=self.lease.id,
        )

    @property
    def view(self) -> TrainingView:
        """The run's current state, for its report."""
        links = {
            "Store": f"{self.store.url}/{self.name}",
            "All rollouts": f"precis runs rollouts {self.name} --store {quote(self.store.url)}",
            "Logs of the trainer": str(work_folder(self.config)),
        }
        if self.config.cluster.where == "sky":
            links["Logs of the trainer"] = f"sky logs {cluster_name(self.name, self.store.url)}"
        if self.wandb and self.wandb.url:
            links["W&B"] = self.wandb.url
        environment = self.environment
        return TrainingView(
            self.ledger,
            RunPlan.of(self.config, self.ledger),
            self.seen,
            links,
            environment.caveat,
            environment.show,
            environment.nouns,
            tuple(silences()),
        )

    @property
    def kept_folder(self) -> Path:
        """The folder that keeps a checkpoint that can't be uploaded."""
        return work_folder(self.config) / f"kept-{self.ledger.run_id}"


def identity_of(config: TrainConfig, environment: Environment) -> str:
    """Return the digest of all that decides the result of a run."""
    warm_start = environment.warm_start
    shown = warm_start.digest if warm_start else ""
    return config.identity(environment.digest, environment.identity, shown)


def trainable(config: RunConfig) -> Model:
    """Return the model as ART knows it; it logs to ART's own files only."""
    return art.TrainableModel(
        name=config.model,
        project=PROJECT,
        base_model=config.trainer.base_model,
        _internal_config=config.trainer.internal_config,  # type: ignore[arg-type]
        base_path=str(work_folder(config) / "art"),
        report_metrics=[],
    )


def work_folder(config: RunConfig) -> Path:
    """Return a run's local files: ART's metrics and trajectories, the trainer's folder, logs. The
    same model in another store is another run, with its own files."""
    store = hashlib.sha256(open_store(config.store).url.encode()).hexdigest()
    return private_home() / "work" / f"{config.model}-{store[:8]}"
