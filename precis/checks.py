"""The checks of `precis doctor`, made before any work.

A check is a plain async function that returns its finding, or raises a `PrecisError` with the
problem and the remedy. To add one, write the function and name it in `cli/doctor.py`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from precis.config import DocumentsConfig, JudgeConfig
from precis.environment import Variables
from precis.environments.summaries.judge import JudgeClient, endpoint_for
from precis.environments.summaries.judge.endpoint import OWN_KEY
from precis.errors import ConfigError, PrecisError, without_passwords
from precis.observe.wandb import unreachable
from precis.records.documents import load_corpus
from precis.settings.trainer import Trainer
from precis.store import open_store

_DEADLINE_S = 300.0
"""For each check: SkyPilot's first look at a cloud is slow."""
_WANDB_KEY = re.compile(r"(\w+-)?[\w-]{40,}|[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
"""The keys that W&B's client accepts: 40 characters or more, or a web token in three parts."""


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        detail: the finding, or the problem.
        remedy: what to do about it; empty if all is well.
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    error: PrecisError | None = field(default=None, compare=False)

    @property
    def cells(self) -> dict[str, str]:
        """The row for a table of checks."""
        verdict = "ok" if self.ok else "FAILS"
        return {"check": self.name, "verdict": verdict, "found": self.detail, "do": self.remedy}


Check = Callable[[], Awaitable[str]]


async def run_checks(
    checks: Mapping[str, Check], deadline_s: float = _DEADLINE_S
) -> list[CheckResult]:
    """Make all checks concurrently; return a row for each, in their order, even if others fail."""

    async def run(name: str, check: Check) -> CheckResult:
        try:
            detail = await asyncio.wait_for(check(), deadline_s)
            return CheckResult(name, True, without_passwords(detail))
        except TimeoutError:
            failure = PrecisError(f"No answer in {deadline_s:g} s.", "See whether it is up.")
        except PrecisError as error:
            failure = error
        return CheckResult(name, False, failure.what, failure.remedy, failure)

    return list(await asyncio.gather(*(run(*one) for one in checks.items())))


def raise_failures(rows: Sequence[CheckResult]) -> None:
    """Raise the error of a check that has failed; of several, a ConfigError with all."""
    errors = {row.name: row.error for row in rows if row.error is not None}
    if len(errors) == 1:
        raise next(iter(errors.values()))
    if errors:
        each = "\n".join(f"- {name}: {error}" for name, error in errors.items())
        raise ConfigError(f"{len(errors)} problems prevent this run:\n{each}")


async def check_store(url: str) -> str:
    """Check that the store can write, read and delete."""
    store = open_store(url)
    await asyncio.to_thread(store.check)
    return f"{store.url} can be written"


async def check_judge(config: JudgeConfig, own_key: str = OWN_KEY) -> str:
    """Check that the judge's key is set and its model answers a trial question; costs one call.
    `own_key` is the environment variable with the key of provider `url`."""
    if config.provider == "lexical":
        return "lexical: runs on this machine, needs no key"
    endpoint = endpoint_for(config, Variables().keys(), own_key=own_key)
    async with JudgeClient(endpoint, config) as judge:
        await judge.check()
    return f"{endpoint.model} at {endpoint.base_url} answers"


async def check_documents(config: DocumentsConfig) -> str:
    """Check that the corpus can be read, and is large enough for its split."""
    left_out: list[str] = []
    corpus = await asyncio.to_thread(load_corpus, config, left_out.append)
    found = f"{len(corpus.train)} to train on, {len(corpus.validation)} held out"
    return "; ".join([f"{config.source}: {found}", *left_out])


async def check_wandb(trainer: Trainer) -> str:
    """Check that W&B's key has a valid form, and is set if W&B trains.

    A run continues if W&B can't be reached.
    """
    key = Variables().wandb_api_key
    if key is None and trainer.kind == "serverless":
        raise ConfigError("Serverless training needs WANDB_API_KEY.", "Set it, here or in .env.")
    if key is None:
        return "no WANDB_API_KEY: metrics stay on this machine"
    if not _WANDB_KEY.fullmatch(key.get_secret_value()):
        raise ConfigError(
            "WANDB_API_KEY is not like any key of W&B's.",
            "Copy it again from wandb.ai/authorize, on one line.",
        )
    return await unreachable() or "WANDB_API_KEY has the form of a key"
