"""A training run with all its services in this process, and its disk at each point of it.

A kill leaves what is on the disk, and nothing else. So nobody has to be killed: at each point where
a process may die (`precis.processes.kill_points`) the disk is copied while no other thread moves a
file on it, and the run goes on. Each copy is a prefix of the run's writes: what a process finds
that is started after a kill at that point.
"""

import hashlib
import os
import secrets
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
from pydantic_settings import BaseSettings

from precis.config import DocumentsConfig, RunConfig, TrainConfig
from precis.environment import S3Environment, Variables
from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.llm.loop_server import LoopServer
from precis.llm.server import completions_app
from precis.processes import kill_points
from precis.processes.child import ChildService
from precis.records.documents import Corpus, load_corpus
from precis.rehearsal.judges.judge import lexical_judge
from precis.store import Store, open_store
from precis.trainer.server import open_backend, trainer_app
from precis.training.loop import Stages, TrainingLoop
from precis.training.opening import open_environment, open_run
from precis.training.run import Run, work_folder

_UNNOTED = ("lease.json", "lock", "history.jsonl", ".log")
"""How the names of files end that no run resumes from, or that change all the time."""


@asynccontextmanager
async def in_process(
    module: str, arguments: Sequence[str], _log: Path, _python: str = "", **_: Any
) -> AsyncIterator[ChildService]:
    """Serve from this event loop what would be a child process."""
    token = secrets.token_hex(8)
    if module == "precis.trainer.server":
        given = [one for one in arguments if one != "--with-parent"]
        options = dict(zip(given[::2], given[1::2], strict=True))
        path = Path(options["--path"])
        path.mkdir(parents=True, exist_ok=True)
        name: Any = options["--backend"]
        backend = open_backend(name, path, int(options["--seed"]))
        app: Any = trainer_app(backend, path, token)
    else:
        backend = None
        app = completions_app(lexical_judge, lambda: [LEXICAL_MODEL], token)
    server = LoopServer(app, lifespan="auto")
    await server.start()
    try:
        yield ChildService(f"http://127.0.0.1:{server.port}", token, os.getpid())
    finally:
        await server.stop()
        if backend is not None:
            await backend.close()


@dataclass(frozen=True)
class Life:
    """A run on a disk of its own; it may be lived on several, from where it was left on each.

    Attributes:
        folder: for its store, unless the settings name another; its local files lie where those
            of every run do.
        settings: over those below.
    """

    folder: Path
    settings: Mapping[str, Any]

    @cached_property
    def config(self) -> TrainConfig:
        return TrainConfig.model_validate(
            {
                "model": "m",
                "steps": 2,
                "validate_every": 1,
                "benchmark": False,
                "store": str(self.folder),
                "documents": {"source": "bundled", "train_size": 8, "val_size": 2},
                "rollouts": {"groups_per_step": 2, "rollouts_per_group": 3, "scored_min": 2},
                "retention": {"keep_last": 1, "keep_every": 0, "keep_best": 0},
                **self.settings,
            }
        )

    @property
    def store(self) -> Store:
        return open_store(self.config.store)

    @cached_property
    def work(self) -> Path:
        """The run's local files, the trainer's among them."""
        return work_folder(self.config)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Run]:
        """Open the run with its services while the block lasts."""
        async with (
            open_environment(self.config, in_process, _read) as environment,
            open_run(self.config, environment, "the run", in_process) as run,
        ):
            yield run

    async def live(self) -> None:
        """Take the run from where its disk has it to its end."""
        async with self.opened() as run:
            await train(run)

    def copy_disk(self, into: Path) -> None:
        """Copy store and local files."""
        half_written = shutil.ignore_patterns("*.tmp")
        shutil.copytree(self.folder, into / "store", ignore=half_written)
        shutil.copytree(self.work, into / "work", ignore=half_written)

    def begin_with(self, copy: Path, *, machine_is_lost: bool = False) -> None:
        """Take such a copy for the disk.

        Args:
            machine_is_lost: without the local files.
        """
        shutil.copytree(copy / "store", self.folder)
        if not machine_is_lost:
            shutil.copytree(copy / "work", self.work)

    def digest_disk(self) -> str:
        """Digest all that a run resumes from."""
        digest = hashlib.sha256()
        for folder in (self.folder, self.work):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.name.endswith(_UNNOTED):
                    digest.update(f"{path.relative_to(folder)} ".encode() + path.read_bytes())
        return digest.hexdigest()


@contextmanager
def hooked(note: Callable[[str, int | None], None]) -> Iterator[None]:
    """Have each point noted that is reached within the block, and its step."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kill_points, "_hooks", [note])
        yield


async def train(run: Run, **stages: Any) -> None:
    """Take an open run from where its disk has it to its end; some of its stages may be others."""
    loop = TrainingLoop(run, Stages(**stages))
    await loop.resume()
    await loop.train()


@cache
def _corpus(documents: str) -> Corpus:
    return load_corpus(DocumentsConfig.model_validate_json(documents))


async def _read(config: RunConfig) -> Corpus:
    return _corpus(config.documents.model_dump_json())


@dataclass(frozen=True)
class Point:
    """A place that a run has got to.

    Attributes:
        number: the step or checkpoint that it is about.
        copy: the disk as a kill would have left it there; one for all points with the same.
        service: what a training service held by then.
    """

    name: str
    number: int
    copy: Path
    service: Any = None


async def live_noting(
    life: Life, folder: Path, remember: Callable[[], Any] = lambda: None
) -> list[Point]:
    """Live to the end; gives every point that was reached, with the disk as it was there.

    Args:
        folder: for the copies of the disk.
        remember: tells what a training service holds.
    """
    moving = threading.RLock()
    copies: dict[str, Path] = {}
    points: dict[tuple[str, int], Point] = {}
    replace = os.replace

    def replace_in_turn(*arguments: Any, **options: Any) -> None:
        with moving:
            replace(*arguments, **options)

    def note(name: str, number: int | None) -> None:
        with moving:
            place = (name, number or 0)
            if place not in points:
                digest = life.digest_disk()
                if digest not in copies:
                    copies[digest] = folder / str(len(copies))
                    life.copy_disk(copies[digest])
                points[place] = Point(*place, copies[digest], remember())

    with hooked(note), pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace_in_turn)
        await life.live()
    return list(points.values())


@contextmanager
def one_process(home: Path) -> Iterator[None]:
    """Have lives in this process share what takes long to make, and leave it as they found it."""
    ends = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRECIS_HOME", str(home))
        # A life asks for its home many times, and each time all variables and .env are read.
        read = cache(lambda settings, _variables: settings())

        def known(settings: type[BaseSettings]) -> Callable[[], BaseSettings]:
            return lambda: read(settings, frozenset(os.environ.items()))

        for module in ("environment", "observe.observers", "observe.wandb", "trainer.tinker.check"):
            patch.setattr(f"precis.{module}.Variables", known(Variables))
        patch.setattr("precis.environment.S3Environment", known(S3Environment))
        yield
    signal.signal(signal.SIGTERM, ends)
