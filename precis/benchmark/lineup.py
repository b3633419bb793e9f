"""Who takes part, from a configuration and what serves it."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec, hosted_contender, local_contender
from precis.benchmark.presets import PRESETS
from precis.config import BenchmarkConfig
from precis.errors import StoreError
from precis.processes.child import ChildService
from precis.run.checkpoints import manifest
from precis.statistics.standings import Contender
from precis.store import Store


def list_hosted(config: BenchmarkConfig, keys: Mapping[str, str]) -> list[ContenderSpec]:
    """The models that somebody else serves.

    Args:
        keys: the keys that are set, by the name of their variable.

    Raises:
        ConfigError: a key is not set.
    """
    presets = (PRESETS[name].model_copy(update={"name": name}) for name in config.hosted)
    words_max = config.rollouts.words_max
    return [hosted_contender(each, keys, words_max) for each in (*presets, *config.contenders)]


def list_baselines(config: BenchmarkConfig, standins: ChildService) -> list[ContenderSpec]:
    """The baselines, which the stand-ins serve."""
    url = f"{standins.url}/v1"
    rollouts = config.rollouts
    return [
        local_contender(
            Contender(name),
            name,
            url,
            standins.token,
            words_max=rollouts.words_max,
            in_flight=rollouts.in_flight,
        )
        for name in config.baselines
    ]


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


def turns(writers: Iterable[ContenderClient]) -> Iterator[list[ContenderClient]]:
    """Who is measured one after the other: those that one process of ours serves.

    Hosted models each have limits of their own, and are measured at the same time.
    """
    own: dict[str, list[ContenderClient]] = {}
    for writer in writers:
        if writer.entry.paid:
            yield [writer]
        else:
            own.setdefault(writer.entry.endpoint.base_url, []).append(writer)
    yield from own.values()
