"""The error model: one class for each boundary at which a run can fail.

    PrecisError
    ├── ConfigError              a setting that can't work; nothing was started
    │   └── DocumentsError       a corpus that can't be read; names file, row and column
    ├── BudgetReached            the run has spent what it may; it stops after a commit
    ├── ProviderError            a server of language models did not do what it was asked
    │   ├── ProviderRejected     it rejects all our requests (key, model); no retry will help
    │   └── ProviderFailed       this one request failed; another try may not
    ├── JudgeError               the judge gives no verdicts
    │   ├── JudgeRejected        it rejects all our requests (key, model); no retry will help
    │   └── JudgeUnavailable     too many verdicts of a step failed; the run stops, resumable
    ├── RolloutError             a step's rollouts can't be trained on
    │   └── StaleAdapter         a completion came from another step's adapter
    ├── TrainerError             the trainer refused a request, or failed at it
    │   ├── StepConflict         it trained this step already, on other data
    │   ├── Unauthorized         the bearer token is missing or wrong
    │   └── TrainerLost          it no longer answers
    ├── StoreError               a checkpoint or ledger can't be written or read
    │   ├── StoreRefused         its key, bucket or a permission is wrong; no retry will help
    │   ├── UnusableRun          it holds no such run, or its ledger can't be read; nor here
    │   ├── CorruptCheckpoint    a file is missing or differs from its manifest
    │   └── StoreConflict        somebody else wrote in between
    │       ├── LeaseHeld        another run works on the model
    │       └── LeaseLost        another run has taken the model over
    ├── LockHeld                 another process of this machine does not give a lock back
    ├── ClusterError             the machine can't be had, or was lost
    │   └── NoCapacity           no place has such a machine to rent now
    └── ModelError               the trained model can't be used, merged, converted or pushed, or
                                 can't summarize a document

An unjudged summary is not an error but a record (`Unscored`): it leaves its group and is counted.

Every message is a sentence or two: what was wrong, where, and what to do; it has no terminal's
control characters, and addresses have no passwords. A new class belongs below the boundary at which
it is raised. Errors that no retry can fix are in `HOPELESS`.
"""

import re

_USER_INFO = re.compile(r"://[^\s/?#]*@")
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile(
    # A terminal's sequences, whole where they are whole; other controls; halves of characters.
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]"
)


def without_passwords(text: str) -> str:
    """Replace user and password in each address by `…`: `https://…@host/v1`."""
    return _USER_INFO.sub("://…@", text)


def without_controls(text: str) -> str:
    """Return text with plain line ends, and without control characters that a terminal
    interprets."""
    return _CONTROLS.sub("", _LINE_ENDS.sub("\n", text))


class PrecisError(Exception):
    """Base of all errors that Précis raises on purpose; `str(error)` is written for a user.

    Args:
        what: what was wrong, and where: a sentence.
        remedy: what to do about it; empty if `what` says it, or nothing can be done.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        # A server's words may be in it, and a terminal would obey their control characters.
        self.what = without_controls(without_passwords(what))
        self.remedy = without_passwords(remedy)
        super().__init__(self.what, self.remedy)  # for copies in other processes

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}".rstrip()


class ConfigError(PrecisError):
    """A setting can't work."""


class DocumentsError(ConfigError):
    """A corpus can't be read."""


class BudgetReached(PrecisError):
    """The run has spent its budget."""


class ProviderError(PrecisError):
    """A server of language models did not do what was asked."""


class ProviderRejected(ProviderError):
    """It rejects our requests as such (key, model, address); retries won't help. `status` is the
    HTTP status of its answer; 401 for a bad key, whatever the answer's. `unsupported` is the
    parameter that the model does not take, if that is the cause."""

    def __init__(self, message: str, status: int, unsupported: str = "") -> None:
        super().__init__(message)
        self.args = (self.what, status, unsupported)
        self.status = status
        self.unsupported = unsupported


class ProviderFailed(ProviderError):
    """One request failed; a retry may succeed.

    Attributes:
        cause: the short name for `Unscored`: `timeout`, `rate_limited`, …
        retry_after_s: the server's Retry-After, if any.
    """

    def __init__(self, cause: str, detail: str, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.args = (cause, self.what, retry_after_s)
        self.cause = cause
        self.retry_after_s = retry_after_s


class JudgeError(PrecisError):
    """The judge gives no verdicts."""


class JudgeRejected(JudgeError):
    """The judge rejects our requests as such (key, model, address); retries won't help."""


class JudgeUnavailable(JudgeError):
    """Too large a share of a step's verdicts failed."""


class RolloutError(PrecisError):
    """A step's rollouts can't be trained on."""


class StaleAdapter(RolloutError):
    """A completion came from the adapter of another step."""


class TrainerError(PrecisError):
    """The trainer refused a request or failed at it."""


class StepConflict(TrainerError):
    """The trainer has trained this step already, on other groups."""


class Unauthorized(TrainerError):
    """The bearer token is missing or wrong."""


class TrainerLost(TrainerError):
    """The trainer no longer answers."""


class StoreError(PrecisError):
    """The store can't be written or read."""


class StoreRefused(StoreError):
    """The store rejects our requests as such (key, bucket, permission); retries won't help."""


class UnusableRun(StoreError):
    """The store holds no such run, or a ledger that can't be read; retries won't help."""


class CorruptCheckpoint(StoreError):
    """A checkpoint's file is missing or differs from its manifest."""


class StoreConflict(StoreError):
    """A conditional write found another version than expected."""


class LeaseHeld(StoreConflict):
    """Another run works on the model."""


class LeaseLost(StoreConflict):
    """The run no longer holds the lease on its model, and must not write any more."""


class LockHeld(PrecisError):
    """Another process of this machine does not release a lock."""


class ClusterError(PrecisError):
    """The machine can't be rented, or was lost."""


class NoCapacity(ClusterError):
    """No place to rent at has such a machine."""


class ModelError(PrecisError):
    """The trained model can't be used, or can't summarize a document."""


HOPELESS = (
    BudgetReached,
    ConfigError,
    CorruptCheckpoint,
    JudgeRejected,
    ProviderRejected,
    StepConflict,
    StoreConflict,
    StoreRefused,
    TrainerLost,  # the client has retried for seconds, and its process will not come back
    Unauthorized,
    UnusableRun,
)
"""The errors that no retry can fix."""
