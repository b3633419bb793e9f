"""Lookup of a trained model by name: a checkpoint of a run."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from precis.errors import ConfigError, CorruptCheckpoint, StoreError
from precis.models.record import TrainingRecord, read_record
from precis.records.ledger import Ledger, Validation, load_ledger, no_ledger
from precis.records.manifests import Checkpoint
from precis.runs.checkpoints import (
    committed_steps,
    complete_around,
    complete_manifest,
    describe_steps,
    restore,
)
from precis.runs.overview import ListedRun, list_runs
from precis.store import Store

Kind = Literal["policy", "adapter"]
"""The embedded policy, or a LoRA adapter of a language model."""

_KINDS: dict[str, Kind] = {"policy.json": "policy", "adapter_config.json": "adapter"}


@dataclass(frozen=True)
class Reference:
    """A user's name for a model: `NAME`, `NAME@STEP` or `NAME@best`.

    Without a step it is the newest checkpoint, or the best of a run that stopped early.
    """

    name: str
    step: int | Literal["best", "final"] = "final"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a reference. Raises ConfigError unless a step or `best` follows the `@`."""
        name, at, step = text.partition("@")
        if name and step == "best":
            return cls(name, "best")
        if not name or (at and not step.isdecimal()):
            raise ConfigError(f"{text!r} names no model.", "Write NAME, NAME@STEP or NAME@best.")
        return cls(name, int(step)) if step else cls(name)


@dataclass(frozen=True)
class NamedCheckpoint:
    """A checkpoint of a run, with the record of its training, if there is one."""

    store: Store
    ledger: Ledger
    checkpoint: Checkpoint
    kind: Kind
    record: TrainingRecord | None

    @property
    def name(self) -> str:
        return self.checkpoint.model

    @property
    def step(self) -> int:
        return self.checkpoint.step

    @property
    def serving_name(self) -> str:
        """The served model's name, the trainer's too."""
        return f"{self.name}@{self.step}"

    @property
    def validation(self) -> Validation | None:
        """The validation of its step, if there is one."""
        return next((one for one in self.ledger.validations if one.step == self.step), None)

    @property
    def with_score(self) -> str:
        """The served model's name, with the score of its validation if its step was validated."""
        found = self.validation
        score = f" (held-out {found.measure} {found.score})" if found else ""
        return f"{self.serving_name}{score}"

    @property
    def is_agent(self) -> bool:
        """True if the model is an agent, not a summarizer."""
        return self.record is not None and self.record.is_agent

    @property
    def recorded_base(self) -> str:
        """The base model in the run's record, or ""."""
        return self.record.base_model if self.record else ""

    def fetch(self, folder: Path) -> Path:
        """Download its files, verified, to a folder, which they replace. Raises CorruptCheckpoint
        if a file differs from the manifest, or that from the ledger's."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        digest = self.ledger.checkpoints.get(self.step, "")
        restore(self.store, self.name, self.step, folder, digest)
        return folder


def find_model(store: Store, reference: Reference) -> NamedCheckpoint:
    """Return the checkpoint of a reference; `best` is the best still in the store. Raises
    StoreError if there is none, CorruptCheckpoint if the step is incomplete."""
    if "/" in reference.name or reference.name in (".", ".."):  # a path
        raise no_ledger(store, reference.name)
    ledger = load_ledger(store, reference.name)
    checkpoint = _choose(store, ledger, reference)
    for file in checkpoint.files:
        if file.path in _KINDS:
            record = read_record(store, reference.name)
            return NamedCheckpoint(store, ledger, checkpoint, _KINDS[file.path], record)
    raise CorruptCheckpoint(
        f"Checkpoint {checkpoint.step} of {checkpoint.model!r} is neither the embedded policy nor "
        "a LoRA adapter: it has no policy.json and no adapter_config.json."
    )


def rank_models(store: Store) -> list[Reference]:
    """Return the models to use by default, in order of preference. Raises StoreError, with the
    problem of the first, if all runs are unreadable.

    Runs that share documents, judge and measure make a group, best first; the group written last
    comes first. A run's best checkpoint is taken, unless only its start was validated.
    """
    runs, unreadable = list_runs(store)
    if not runs and unreadable:
        raise StoreError(next(iter(unreadable.values())))
    groups: dict[str, list[ListedRun]] = {}
    for run in runs:
        groups.setdefault(run.yardstick, []).append(run)
    ranked: list[Reference] = []
    for group in groups.values():
        group.sort(key=lambda run: -1.0 if run.best is None else run.best, reverse=True)
        for run in group:
            # Only if more than the run's untrained start was validated.
            if run.best is not None and (run.best_step != 0 or run.score != run.best):
                ranked.append(Reference(run.model, "best"))
            ranked.append(Reference(run.model))
    return ranked


def _choose(store: Store, ledger: Ledger, reference: Reference) -> Checkpoint:
    step = reference.step
    if step == "final" and ledger.stopped_early is not None:
        step = "best"
    if step == "final":
        found = complete_around(store, ledger.model, ledger.next_step)
        committed = [step for step in found if step <= ledger.next_step]
        if not committed:
            raise StoreError(
                f"{store.url} holds no whole checkpoint of {ledger.model!r}.",
                "Start its run again, which commits what it has, or bring one back from a backup.",
            )
        return found[max(committed)]
    sizes = store.sizes(f"{ledger.model}/checkpoints/")
    if step == "best":
        ranked = sorted(ledger.validations, key=lambda one: (one.score.value, one.step))
        for validated in reversed(ranked):
            # Retention may have deleted it, or it is damaged: then the next best.
            with suppress(CorruptCheckpoint):
                return complete_manifest(store, ledger.model, validated.step, sizes)
        raise StoreError(
            f"No checkpoint of {ledger.model!r} that was validated is in {store.url}.",
            "Name a step.",
        )
    try:
        return complete_manifest(store, ledger.model, step, sizes)
    except CorruptCheckpoint as error:
        kept = describe_steps(committed_steps(store, ledger.model), step)
        raise CorruptCheckpoint(str(error), f"Steps that are there: {kept}.") from error
