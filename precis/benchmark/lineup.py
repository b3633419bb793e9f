"""Who takes part, from a configuration and what serves it."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from precis.benchmark.contender import ContenderSpec, hosted_contender, local_contender
from precis.benchmark.measure import checkpoints_to_take
from precis.benchmark.presets import PRESETS
from precis.config import BenchmarkConfig
from precis.errors import ConfigError, StoreError
from precis.processes.child import ChildService
from precis.records.documents import Corpus, Document
from precis.records.ledger import Ledger, load_ledger
from precis.run.checkpoints import committed_steps, manifest
from precis.run.trained_on import trained_on
from precis.statistics.standings import Contender
from precis.store import Store
from precis.task import Task


def list_hosted(
    config: BenchmarkConfig, task: Task, keys: Mapping[str, str]
) -> list[ContenderSpec]:
    """The models that somebody else serves.

    Args:
        keys: the keys that are set, by the name of their variable.

    Raises:
        ConfigError: a key is not set.
    """
    wanted = [PRESETS[name].model_copy(update={"name": name}) for name in config.hosted]
    wanted += config.contenders
    return [hosted_contender(each, keys, task.tokens_max) for each in wanted]


def list_baselines(
    config: BenchmarkConfig, task: Task, standins: ChildService
) -> list[ContenderSpec]:
    """The baselines, which the stand-ins serve."""
    url = f"{standins.url}/v1"
    contenders = []
    for name in config.baselines:
        contenders.append(
            local_contender(
                Contender(name),
                name,
                url,
                standins.token,
                tokens_max=task.tokens_max,
                in_flight=config.rollouts.in_flight,
            )
        )
    return contenders


def checkpoint_digest(store: Store, model: str, step: int) -> str:
    """What a checkpoint's summaries depend on: its files.

    Raises:
        StoreError: it is not in the store.
    """
    found = manifest(store, model, step)
    if found is None:
        raise StoreError(f"{store.url} holds no checkpoint {step} of {model!r}.")
    files = sorted((file.path, file.sha256) for file in found.files)
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def turns(contenders: Iterable[ContenderSpec]) -> Iterator[list[ContenderSpec]]:
    """Who is measured one after the other: those that one process of ours serves.

    Hosted models each have limits of their own, and are measured at the same time.
    """
    own: dict[str, list[ContenderSpec]] = {}
    for contender in contenders:
        if contender.paid:
            yield [contender]
        else:
            own.setdefault(contender.endpoint.base_url, []).append(contender)
    yield from own.values()


@dataclass(frozen=True)
class TrainedLineup:
    """What of the trained model takes part.

    Attributes:
        steps: the checkpoints.
        documents_seen: how many of the benchmark's documents it was trained on; None where nobody
            knows.
    """

    ledger: Ledger
    steps: tuple[int, ...]
    documents_seen: int | None


def line_up_trained(
    store: Store, config: BenchmarkConfig, corpus: Corpus, warn: Callable[[str], None]
) -> TrainedLineup | None:
    """Which checkpoints of the trained model take part; None where none is to.

    Args:
        warn: told where the figures may flatter the model.

    Raises:
        ConfigError: it was trained on other documents than the benchmark's.
        StoreError: the store holds no such model.
    """
    if config.checkpoints == "none":
        return None
    ledger = load_ledger(store, config.model)
    if config.test_documents is None and ledger.corpus != corpus.digest:
        raise ConfigError(
            f"{config.model!r} was trained on other documents or another split than these: some of "
            "the held-out ones may have been trained on.",
            "Leave `documents` out to take the run's, "
            "or name documents of the benchmark's own in `test_documents`.",
        )
    seen = trained_on(store, config.model, corpus.validation)
    warning = _flattery(config, seen, len(corpus.validation))
    if warning:
        warn(warning)
    present = committed_steps(store, config.model)
    committed = [step for step in present if step <= _last_of(ledger)]
    steps = checkpoints_to_take(committed, config)
    return TrainedLineup(ledger, tuple(steps), None if seen is None else len(seen))


def _last_of(ledger: Ledger) -> int:
    """The newest checkpoint; of a run that stopped early the best, its model."""
    final = ledger.final
    return final.step if ledger.stopped_early is not None and final else ledger.next_step


def _flattery(config: BenchmarkConfig, seen: Sequence[Document] | None, count: int) -> str:
    """Which figures may flatter the model, or that nobody knows; empty where none do."""
    if seen is None and config.test_documents:
        return (
            f"The store does not say which documents {config.model!r} was trained on: if these are "
            "among them, its accuracy flatters it."
        )
    if not seen:
        return ""
    names = ", ".join(document.id for document in seen[:3])
    if len(seen) > 3:
        names += ", …"
    return (
        f"{config.model!r} was trained on {len(seen)} of these {count} documents ({names}): its "
        "accuracy flatters it."
    )
