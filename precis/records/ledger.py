"""The ledger of a run's commits, which alone determines where the run resumes."""

import secrets
from collections.abc import Mapping
from shlex import quote
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from precis.errors import StoreError, UnusableRun
from precis.record import Amount, Count, Finite, Name, Record, Sha256, Step, first_problem
from precis.records.spend import Spend
from precis.records.warm_start import GroupVariance, WarmStartRecord
from precis.store import Blob, Store
from precis.store.keys import fault_of
from precis.store.protocol import OwnObject
from precis.text import write_number

TURNS = "turns_to_success"
"""The metric of a step and a validation: the mean number of turns of a success."""
SERVICE_USD = "costs/service"
"""Metric of a training: the dollars charged by a service since the previous training."""

_SPEND_MAX = 1e15


def _check_spend(spend: Spend) -> Spend:
    for amount in vars(spend).values():  # `astuple` would copy each, and dominate the reading time
        # A difference of sums may be a rounding error below zero.
        if not abs(amount) <= _SPEND_MAX:
            raise ValueError(f"{amount} is not a number of calls, tokens or dollars")
    return spend


def _check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    for name in ("environment", "judge"):  # which tables and reports read
        if not isinstance(settings.get(name, {}), dict):
            raise ValueError(f"{name} is not an object")
    return settings


class StepRecord(Record):
    """A committed step. Everything except the times and `judge` is the same for every run with the
    same seed and settings."""

    step: Step
    """The step, which trained adapter `step` into adapter `step + 1`."""
    digest: str
    """SHA-256 of the training groups."""
    reward: Finite
    """Mean reward of the scored rollouts, 0 to 1."""
    reward_std: Finite
    """Mean within-group standard deviation of the reward."""
    metrics: dict[str, Finite] = Field({})
    """Other measures of the scored rollouts, by name: the mean of each."""
    groups_trained: Count
    """Groups with an advantage."""
    groups_dropped: dict[str, Count]
    """Groups left out, by cause."""
    groups_added: Count = 0
    """Groups of further scenarios, in place of those without variance."""
    unscored: dict[str, Count]
    """Rollouts without a score, by cause."""
    trainer: dict[str, Finite]
    """The trainer's own metrics."""
    seconds: dict[str, Amount]
    """Wall time by phase, including the wait for the previous commit."""
    staleness: Count = 0
    """How many steps the sampling adapter is older than the trained one."""
    overlapped_s: Amount = 0.0
    """Seconds of its sampling during the training of the previous step; its `seconds` have only the
    wait after that."""
    commit_s: Amount = 0.0
    """The seconds of its commit, most of them during the next step's gathering."""
    judge: Annotated[Spend, AfterValidator(_check_spend)]
    """The spend on its judging; after a crash, cached replies cost nothing."""
    machine_usd: Amount = 0.0
    """The cost of the rented machine since the previous step, by SkyPilot's price; or of a training
    service, by the settings' prices."""
    machine_saved_usd: Amount = 0.0
    """The further cost on demand; 0 unless it is a spot machine."""
    described_at: Amount = 0.0
    """The time up to which its cost is counted, but for a training service's; in seconds since
    1970."""
    warm_start: WarmStartRecord | None = None
    """The warm start that made the adapter, if any; the reward is then that of the previous
    adapter's `GroupVariance`, and the metrics are those of the demonstrations."""

    @property
    def usd(self) -> float:
        return self.judge.usd + self.machine_usd

    @property
    def wall_s(self) -> float:
        return sum(self.seconds.values())


class Metric(Record):
    """A figure of a validation: a mean, or a ratio, over the held-out scenarios."""

    value: Finite
    low: Finite | None = None
    """Lower end of the 95 % interval (a bootstrap over scenarios; Wilson's if each scores 0 or 1);
    None if not computed."""
    high: Finite | None = None
    """Upper end."""
    is_share: bool = False
    """True for a share, 0 to 1, which reports show as a percentage."""
    scores: tuple[Finite | None, ...] = ()
    """The score of each held-out scenario, in order; None if unscored. Empty if only the mean is
    kept."""
    weights: tuple[Finite | None, ...] = ()
    """The denominators of the scores: the value is the sum of the scores over the sum of these."""
    judge: str = ""
    """The judging model; empty if it is the reward's."""
    rollouts: Count | None = None
    """The number of rollouts with the metric, if not all have it: the value is theirs."""

    def __str__(self) -> str:
        written = f"{self.value:.1%}" if self.is_share else write_number(self.value)
        return written if self.rollouts is None else f"{written} (of {self.rollouts})"

    @property
    def with_interval(self) -> str:
        """`58.3% (48.4% to 66.4%)`."""
        if self.low is None or self.high is None:
            return str(self)
        low = self.model_copy(update={"value": self.low, "rollouts": None})
        high = self.model_copy(update={"value": self.high, "rollouts": None})
        return f"{self} ({low} to {high})"


class Validation(Record):
    """The greedy results of one adapter on the held-out scenarios."""

    step: Step
    """The adapter."""
    measure: str
    """The name of the metric that measures the adapter."""
    metrics: dict[str, Metric]
    """The measures, by name."""
    seconds: Amount
    """Its wall time."""
    unscored: dict[str, Count]
    """Scenarios without a score, by cause; they are in no metric."""
    last_gain: Step | None = None
    """The newest validation up to here that was better, beyond chance, than the previous such one;
    the first counts as one."""

    @model_validator(mode="after")
    def _measure_is_measured(self) -> Self:
        if self.measure not in self.metrics:
            raise ValueError(f"the validation of step {self.step} lacks {self.measure!r}")
        return self

    @property
    def score(self) -> Metric:
        """The measure of the adapter."""
        return self.metrics[self.measure]

    @property
    def second(self) -> Metric | None:
        """The same by another judge; None without one, or if it failed on all scenarios."""
        return next((one for one in self.metrics.values() if one.judge), None)


class Origin(Record):
    """The checkpoint of another run from which a run began."""

    model: Name
    step: Step
    store: str
    """URL of its store."""
    files: str
    """SHA-256 of its manifest's entries of files (`Checkpoint.digest`)."""
    corpus: str
    """Digest of its scenarios and their split."""


class Ledger(Record):
    """The committed steps and validations of a run so far."""

    version: Count = 1
    model: Name
    config: str
    """Digest of the settings that determine the result; a resumed run must have the same."""
    settings: Annotated[dict[str, Any], AfterValidator(_check_settings)] = Field({})
    """All settings of the run that wrote this; none if the ledger was rebuilt and the run has not
    been started since."""
    corpus: str
    """Digest of the scenarios and their split; a benchmark must hold out the same ones. Empty if
    the ledger was rebuilt and the run has not been started since."""
    next_step: Step = 0
    """The next step, which is also the newest committed adapter."""
    steps: tuple[StepRecord, ...] = ()
    validations: tuple[Validation, ...] = ()
    variances: tuple[GroupVariance, ...] = ()
    """The variances of the adapters before and after a warm start."""
    checkpoints: dict[Step, Sha256] = Field({})
    """The digest of each committed checkpoint, by step; one with other files is not the run's."""
    origin: Origin | None = None
    """The origin of checkpoint 0; None if it is the untrained policy."""
    stopped_early: Step | None = None
    """The step at which the run stopped for lack of gains; None if it is running or ran to its
    end."""
    run_id: str = ""
    """The run's id for W&B, and for a trainer with its checkpoints."""
    usd: Amount = 0.0
    """The run's spend so far."""
    other_usd: Amount = 0.0
    """The part of it beside steps, validations and measured groups."""
    unpriced: Count = 0
    """The number of calls beside those of its steps whose price is not known."""
    pending_usd: Amount = 0.0
    """The part of that which belongs to a step whose training a run's end has interrupted. If the
    trainer has finished the step, its record has that cost too."""
    charged_at: Amount = 0.0
    """The time up to which the cost of rented machines is counted; in seconds since 1970."""
    rebuilt_at: Step | None = None
    """The step at which the ledger was rebuilt from the checkpoints' manifests, or None. Before it,
    steps without a checkpoint have no record, and there are no validations."""

    @model_validator(mode="after")
    def _no_step_is_missing(self) -> Self:
        known = [record.step for record in self.steps]
        begun = self.rebuilt_at or 0
        due = list(range(begun, self.next_step))
        if known != sorted(set(known)) or [step for step in known if step >= begun] != due:
            raise ValueError(f"the steps do not run from {begun} to {self.next_step - 1}")
        return self

    @property
    def machine_usd(self) -> float:
        return sum(record.machine_usd for record in self.steps)

    @property
    def is_lower_bound(self) -> bool:
        """True if the price of some calls is not known, which `usd` does not count."""
        return self.unpriced > 0 or any(record.judge.unpriced for record in self.steps)

    @property
    def wall_s(self) -> float:
        """The seconds of its steps and validations."""
        validated_s = sum(one.seconds for one in self.validations)
        return validated_s + sum(record.wall_s for record in self.steps)

    @property
    def best(self) -> Validation | None:
        """The validation with the highest score; of equal ones the newer."""
        return max(self.validations, key=lambda one: (one.score.value, one.step), default=None)

    @property
    def final(self) -> Validation | None:
        """The validation of the adapter to use: the best of a run that stopped early, else the
        newest."""
        newest = self.validations[-1] if self.validations else None
        return newest if self.stopped_early is None else self.best

    def advance(self, record: StepRecord, checkpoint: str = "") -> Self:
        """Return the ledger after one more step, with the digest of its checkpoint, if known."""
        advanced = self._with(
            next_step=record.step + 1,
            steps=(*self.steps, record),
            usd=self.usd + record.usd,
            charged_at=max(self.charged_at, record.described_at),
        )
        return advanced.add_digest(record.step + 1, checkpoint) if checkpoint else advanced

    def add_digest(self, step: int, checkpoint: str) -> Self:
        """Return the ledger with the digest of a reached step's checkpoint."""
        return self._with(checkpoints={**self.checkpoints, step: checkpoint})

    def add_validation(self, validation: Validation, usd: float = 0.0) -> Self:
        """Return the ledger with one more validation, which replaces one of the same step."""
        others = (known for known in self.validations if known.step != validation.step)
        validations = sorted((*others, validation), key=lambda known: known.step)
        return self._with(validations=tuple(validations), usd=self.usd + usd)

    def add_variance(self, variance: GroupVariance, usd: float = 0.0) -> Self:
        """Return the ledger with one more measure of an adapter's groups."""
        others = (known for known in self.variances if known.step != variance.step)
        variances = sorted((*others, variance), key=lambda known: known.step)
        return self._with(variances=tuple(variances), usd=self.usd + usd)

    def charge(
        self, usd: float, pending_usd: float = 0.0, at: float = 0.0, unpriced: int = 0
    ) -> Self:
        """Return the ledger with further spend beside steps and validations, of which a part is
        pending; `at` is the time up to which it counts a machine."""
        return self._with(
            usd=self.usd + usd,
            other_usd=self.other_usd + usd,
            pending_usd=self.pending_usd + pending_usd,
            unpriced=self.unpriced + unpriced,
            charged_at=max(self.charged_at, at),
        )

    def settle(self, *, is_recorded: bool) -> Self:
        """Return the ledger without pending spend: it stays in the total unless a step's record
        brings it."""
        usd = self.pending_usd if is_recorded else 0.0
        return self._with(usd=self.usd - usd, other_usd=self.other_usd - usd, pending_usd=0.0)

    def under(self, settings: Mapping[str, Any]) -> Self:
        """Return the ledger with the settings of the run that writes it."""
        return self._with(settings=dict(settings))

    def stop_early(self, patience: int, steps: int) -> Self:
        """Return the ledger, stopped early if a run of `steps` steps with this patience would.

        It stops if its newest adapter is validated, and `patience` validations in a row have gained
        nothing. A warm start's validation does not count: no step has learned from it yet.
        """
        at = self.next_step
        newest = self.validations[-1] if self.validations else None
        stops = False
        if patience and newest and newest.step == at < steps and newest.last_gain is not None:
            warm = bool(self.steps) and self.steps[0].warm_start is not None
            counted_from = max(newest.last_gain, 1 if warm else 0)
            since = [one for one in self.validations if one.step > counted_from]
            stops = len(since) >= patience
        return self._with(stopped_early=at if stops else None)

    def begin_from(self, origin: Origin) -> Self:
        """Return the ledger of a run that begins from another run's checkpoint."""
        return self._with(origin=origin).add_digest(0, origin.files)

    def rewind(self, step: int) -> Self:
        """Return the ledger as of adapter `step`; the spend stays, as `other_usd`."""
        steps = tuple(one for one in self.steps if one.step < step)
        validations = tuple(one for one in self.validations if one.step <= step)
        steps_usd = sum(one.usd for one in self.steps)
        validated_usd = max(0.0, self.usd - self.other_usd - steps_usd)
        kept_usd = sum(one.usd for one in steps)
        kept_usd += validated_usd * len(validations) / max(1, len(self.validations))
        return self._with(
            next_step=step,
            steps=steps,
            validations=validations,
            other_usd=max(self.other_usd, self.usd - kept_usd),
            unpriced=self.unpriced + sum(one.judge.unpriced for one in self.steps[len(steps) :]),
            stopped_early=None,
            variances=tuple(one for one in self.variances if one.step <= step),
            checkpoints={at: one for at, one in self.checkpoints.items() if at <= step},
            rebuilt_at=None if self.rebuilt_at is None else min(self.rebuilt_at, step),
        )

    def restart(self, step: int) -> Self:
        """Return the ledger rewound, with another run id, so that a trainer's files of this run are
        not used."""
        return self.rewind(step)._with(run_id=secrets.token_hex(4))

    def _with(self, **changes: object) -> Self:
        return type(self).model_validate({**dict(self), **changes})


def ledger_key(model: str) -> str:
    return f"{model}/ledger.json"


def load_ledger(store: Store, model: str) -> Ledger:
    """Return the model's ledger in the store. Raises UnusableRun if there is none, or it is
    damaged, or was written by a newer Précis."""
    found = find_ledger(store, model)
    if found is None:
        raise no_ledger(store, model)
    return found[0]


def find_ledger(store: Store, model: str) -> tuple[Ledger, Blob] | None:
    """Return the model's ledger, and its object with version and time of writing, or None. Raises
    UnusableRun if it is damaged, or was written by a newer Précis."""
    blob = store.get(ledger_key(model))
    return (_parse(blob.data, store, model), blob) if blob else None


def no_ledger(store: Store, model: str) -> UnusableRun:
    """Return the error for a missing ledger: the run is unknown, or has lost it. The name may be a
    path, which is no run's."""
    left = [] if fault_of(ledger_key(model)) else store.keys(f"{model}/checkpoints/")
    if any(key.endswith("/manifest.json") for key in left):
        return UnusableRun(
            f"{store.url} holds checkpoints of {model!r}, but its ledger is gone.",
            f"Rebuild it with `precis runs repair {model} --store {quote(store.url)}`, or delete "
            f"the rest of the run with `precis runs delete {model} --store {quote(store.url)}`.",
        )
    return UnusableRun(
        f"{store.url} holds no run {model!r}.",
        f"See `precis runs list --store {quote(store.url)}`, or train it first.",
    )


def write_ledger(store: Store, ledger: Ledger, over: str | None) -> str:
    """Commit the ledger over the version `over`: from then on its last step counts.

    Returns:
        Its version.

    Raises:
        StoreConflict: another process wrote the ledger in between.
        StoreError: it would not be readable, and is not written.
    """
    stored = OwnObject(store, ledger_key(ledger.model), over)
    return stored.write(encode_ledger(store, ledger))


def encode_ledger(store: Store, ledger: Ledger) -> bytes:
    """Return a ledger as it is stored. Raises StoreError if it would not be readable."""
    data = ledger.model_dump_json().encode()
    _parse(data, store, ledger.model)
    return data


def _parse(data: bytes, store: Store, model: str) -> Ledger:
    try:
        ledger = Ledger.model_validate_json(data)
    except ValidationError as error:
        raise UnusableRun(
            f"{store.url}/{ledger_key(model)} can't be read as a ledger of this version of Précis "
            f"({first_problem(error)}).",
            f"If it is damaged, `precis runs repair {model} --store {quote(store.url)}` rebuilds "
            "it from the run's checkpoints; if a newer Précis has written it, update.",
        ) from error
    if ledger.model != model:
        raise StoreError(
            f"{store.url}/{ledger_key(model)} is the ledger of {ledger.model!r}: give its folder "
            "that name again."
        )
    return ledger
