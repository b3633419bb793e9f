"""The choice of contenders, from a configuration and a store."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from precis.benchmark.contender import PRESETS, ContenderSpec, hosted_contender, local_contender
from precis.config import BenchmarkConfig
from precis.environment import Variables
from precis.environments.protocol import Environment
from precis.environments.recorder import describe_error
from precis.errors import ConfigError
from precis.llm.loop_server import served_completions
from precis.llm.server import ApiError, ChatRequest, Completion, callable_tools
from precis.records.ledger import Ledger, load_ledger
from precis.records.results import TRAINED
from precis.rehearsal.checkpoint_files import POLICY_FILE
from precis.rehearsal.endpoint import PolicyEndpoint
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.tool_calls.options import list_options
from precis.runs.checkpoints import committed_steps, restore
from precis.runs.local_checkpoints import folder_of
from precis.runs.trained_on import trained_on
from precis.statistics.standings import Contender
from precis.store import Store

RANDOM = "random"
"""The baseline of an agent that makes any of the calls that its tools allow."""


def hosted_of(config: BenchmarkConfig) -> list[ContenderSpec]:
    """Return the hosted models of a benchmark; their keys must be set."""
    keys = Variables().keys()
    wanted = [PRESETS[name].model_copy(update={"name": name}) for name in config.hosted]
    wanted += config.contenders
    return [hosted_contender(each, keys) for each in wanted]


def refuse_unknown_baselines(names: Iterable[str], known: Collection[str]) -> None:
    """Raise ConfigError for a name that is not among an environment's baselines."""
    for name in names:
        if name not in known:
            raise ConfigError(
                f"The environment has no baseline {name!r}.",
                f"Give `baselines` some of {', '.join(known) or 'none'}, or leave it out.",
            )


@asynccontextmanager
async def serve_baselines(
    config: BenchmarkConfig, environment: Environment
) -> AsyncIterator[list[ContenderSpec]]:
    """Serve the chosen baselines of the environment from this process within the block."""
    known = dict(environment.baselines())
    names = environment.usual_baselines if config.baselines is None else config.baselines
    if environment.takes_random_player and RANDOM not in known:
        known[RANDOM] = play_randomly
        names = names if config.baselines is not None else (*names, RANDOM)
    refuse_unknown_baselines(names, known)
    # The settings refuse two others of the same name.
    called = {TRAINED, *config.hosted, *(each.called for each in config.contenders)}
    twice = ", ".join(sorted(called.intersection(names)))
    if twice:
        raise ConfigError(
            f"A baseline and another contender are called {twice}.",
            "Give one of them another name, or leave it out.",
        )

    async def complete(request: ChatRequest) -> Completion:
        try:
            found = await known[request.model](request)
            if not isinstance(found, Completion):
                raise TypeError(f"it returned a {type(found).__name__}, not a Completion")
        except ApiError:
            raise
        except Exception as error:  # of the agent's file
            raise ApiError(400, describe_error(error), "baseline_failed") from error
        return found

    in_flight = config.rollouts.in_flight
    async with served_completions(complete, lambda: list(names)) as (url, key):
        yield [
            local_contender(Contender(name), name, url, key, in_flight=in_flight) for name in names
        ]


async def play_randomly(asked: ChatRequest) -> Completion:
    """Answer with one of the request's options, chosen by the request and its seed. Raises ApiError
    400 if the options can't be listed."""
    options = list_options(asked.messages, callable_tools(asked.tools, asked.tool_choice))
    decisive = json.dumps([asked.messages, asked.tools, asked.seed], sort_keys=True)
    picked = int.from_bytes(hashlib.sha256(decisive.encode()).digest()[:8]) % len(options)
    return Completion(asked.model, [options[picked].answer(asked.messages)])


@asynccontextmanager
async def serve_rehearsed(
    store: Store, config: BenchmarkConfig, corpus_digest: str | None
) -> AsyncIterator[list[ContenderSpec]]:
    """Serve the newest checkpoint of `config.extractive` within the block; none if it is empty.
    Raises ConfigError if it was trained on other documents, or is not an embedded policy."""
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
            yield [local_contender(Contender("extractive"), name, url, key, in_flight=in_flight)]


def _fetch_newest(store: Store, model: str, corpus_digest: str | None, folder: Path) -> int:
    """Download the newest checkpoint; return its step."""
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
    if not (into / POLICY_FILE).exists():
        raise ConfigError(
            f"{model!r} is not a rehearsed model: checkpoint {step} in {store.url} has no embedded "
            "policy.",
            "Name one that `precis rehearse` has trained, or leave `extractive` empty.",
        )
    return step


def turns(contenders: Iterable[ContenderSpec]) -> Iterator[list[ContenderSpec]]:
    """Group the contenders to measure one after the other, which share one of our processes. Hosted
    models have their own limits, and are measured concurrently."""
    own: dict[str, list[ContenderSpec]] = {}
    for contender in contenders:
        if contender.paid:
            yield [contender]
        else:
            own.setdefault(contender.endpoint.base_url, []).append(contender)
    yield from own.values()


@dataclass(frozen=True)
class TrainedLineup:
    """The chosen checkpoints of the trained model, and how many of the benchmark's scenarios it was
    trained on; None if unknown."""

    ledger: Ledger
    steps: tuple[int, ...]
    seen: int | None

    @property
    def measure(self) -> str:
        """The measure of the run's validations, or "" without any."""
        return self.ledger.validations[0].measure if self.ledger.validations else ""


def line_up_trained(
    store: Store, config: BenchmarkConfig, environment: Environment, warn: Callable[[str], None]
) -> TrainedLineup | None:
    """Choose the trained model's checkpoints, and warn if figures may flatter it; None without any.
    Raises ConfigError if it was trained on other scenarios than the benchmark's, and StoreError if
    the store holds no such model."""
    if config.checkpoints == "none":
        return None
    ledger = load_ledger(store, config.model)
    nouns = environment.nouns
    if config.test_documents is None and ledger.corpus != environment.digest:
        raise ConfigError(
            f"{config.model!r} was trained on other {nouns.scenarios} or another split than these: "
            "some of the held-out ones may have been trained on.",
            "Leave `documents` and `environment` out to take the run's, or give `test_documents`.",
        )
    held_out = environment.scenarios("validation")
    known = trained_on(store, config.model, map(environment.content_of, held_out))
    seen: list[str] | None = None
    if known is not None:
        seen = [one.id for one, is_seen in zip(held_out, known, strict=True) if is_seen]
    if seen is None and config.test_documents:
        warn(
            f"The store does not say which {nouns.scenarios} {config.model!r} was trained on: if "
            f"these are among them, its {nouns.reward} flatters it."
        )
    elif seen:
        names = ", ".join([*seen[:3], "…"] if len(seen) > 3 else seen)
        warn(
            f"{config.model!r} was trained on {len(seen)} of these {len(held_out)} "
            f"{nouns.scenarios} ({names}): its {nouns.reward} flatters it."
        )
    # Up to the newest checkpoint, or to the best of a run that stopped early.
    final = ledger.final
    last = final.step if ledger.stopped_early is not None and final else ledger.next_step
    committed = [step for step in committed_steps(store, config.model) if step <= last]
    ends = {*committed[:1], *committed[-1:]}
    steps = committed[-1:]
    if config.checkpoints == "ends":
        steps = sorted(ends)
    elif config.checkpoints == "every":
        steps = [step for step in committed if step % config.every == 0 or step in ends]
    return TrainedLineup(ledger, tuple(steps), None if seen is None else len(seen))
