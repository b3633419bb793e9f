"""A rehearsed model beside the others: its embedded policy, served from this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from precis.benchmark.contender import ContenderSpec, local_contender
from precis.config import BenchmarkConfig
from precis.errors import ConfigError
from precis.llm.loop_server import served_completions
from precis.records.ledger import load_ledger
from precis.rehearsal.checkpoint_files import folder_of, steps
from precis.rehearsal.endpoint import PolicyEndpoint
from precis.rehearsal.extractive.kind import SENTENCES
from precis.run.checkpoints import committed_steps, restore
from precis.statistics.standings import Contender
from precis.store import Store

NAME = "extractive"


@asynccontextmanager
async def serve_rehearsed(
    store: Store, config: BenchmarkConfig, corpus_digest: str | None
) -> AsyncIterator[list[ContenderSpec]]:
    """The newest checkpoint of `config.extractive` while the block lasts; nobody where it is empty.

    Raises:
        ConfigError: it was trained on other documents, if these are given, or is no embedded
            policy.
        StoreError: the store holds no such model.
    """
    model = config.extractive
    if not model:
        yield []
        return
    with TemporaryDirectory(prefix="precis-") as folder:
        step = await asyncio.to_thread(_fetch_newest, store, model, corpus_digest, Path(folder))
        endpoint = PolicyEndpoint(SENTENCES, {model: Path(folder)})
        name = f"{model}@{step}"
        in_flight = config.rollouts.in_flight
        async with served_completions(endpoint.complete, endpoint.models) as (url, key):
            yield [local_contender(Contender(NAME), name, url, key, in_flight=in_flight)]


def _fetch_newest(store: Store, model: str, corpus_digest: str | None, folder: Path) -> int:
    """Return the step of the checkpoint that was brought here."""
    ledger = load_ledger(store, model)
    if corpus_digest is not None and ledger.corpus != corpus_digest:
        raise ConfigError(
            f"The rehearsed model {model!r} was trained on other documents or another split than "
            "the benchmark's: some of the held-out ones may have been trained on.",
            "Rehearse on these documents first, or leave `extractive` empty.",
        )
    committed = committed_steps(store, model)
    step = max((one for one in committed if one <= ledger.next_step), default=0)
    into = folder_of(folder, step)
    into.parent.mkdir(parents=True)
    restore(store, model, step, into, ledger.checkpoints.get(step, ""))
    if steps(folder) != [step]:
        raise ConfigError(
            f"{model!r} is no rehearsed model: checkpoint {step} in {store.url} holds no embedded "
            "policy.",
            "Name one that `precis rehearse` has trained, or leave `extractive` empty.",
        )
    return step
