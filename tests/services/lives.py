"""Runs that are to be killed: each with a store of its own, in one home and one bucket."""

import json
import secrets
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from precis.config import TrainConfig
from precis.records.ledger import Ledger, load_ledger
from precis.run.checkpoints import manifest
from precis.store.s3 import S3Store
from precis.training.run import work_folder
from tests.services.conftest import Precis
from tests.services.crash_points import Kill, Kills
from tests.services.forked import Desk, end_of, forking, start_flow
from tests.services.s3_server import settings_for

TIMES = {"seconds", "judge", "commit_s", "overlapped_s"}
"""What of a step's record differs from run to run."""


@dataclass(frozen=True)
class Life:
    """A run; its flow may live several times."""

    url: str
    home: Path
    desk: Desk
    bucket: str
    name: str
    steps: int = 2
    more: Mapping[str, Any] = field(default_factory=dict)
    """Settings over those below."""

    @property
    def config(self) -> dict[str, Any]:
        return {
            "model": "crash",
            "steps": self.steps,
            "validate_every": 1 if self.steps == 2 else 5,
            "benchmark": False,
            "store": f"s3://{self.bucket}/{self.name}",
            "documents": {"source": "bundled", "train_size": 12, "val_size": 3},
            "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
            "retention": {"keep_last": 1, "keep_every": 0, "keep_best": 0},
            "judge_patience_s": 0,
            "recoveries_max": 100,
            **self.more,
        }

    def start(self, kills: Kills) -> Any:
        return start_flow(self.config, kills, self.log, self.desk)

    def live(self, kills: Kills) -> int:
        """One life of the flow; its exit status."""
        return end_of(self.start(kills), self.log)

    def live_through(self, kills: Kills) -> None:
        """Live to the end, started again whenever the flow was killed; all kills must be done."""
        done: list[Kill] = []
        while (code := self.live(kills)) == -signal.SIGKILL:
            new = [kill for kill in kills.done if kill not in done]
            assert new, "the flow was killed by somebody else"
            done += new
        assert code == 0, self.log.read_text()[-3000:]
        missed = [kill.name for kill in kills.planned if kill not in kills.done]
        assert not missed, f"the run never got to {missed}"

    def named(self, name: str, steps: int | None = None) -> "Life":
        """Another run beside this one, of as many steps or so many."""
        return replace(self, name=name, steps=steps or self.steps)

    @property
    def log(self) -> Path:
        return self.home / f"{self.name}.log"

    @property
    def store(self) -> S3Store:
        return S3Store(self.bucket, self.name, settings_for(self.url))

    @property
    def ledger(self) -> Ledger:
        return load_ledger(self.store, "crash")

    @property
    def work(self) -> Path:
        """The run's local files."""
        return self.home / "work" / work_folder(TrainConfig.model_validate(self.config)).name

    @property
    def outcome(self) -> Any:
        """What must be the same for all: every figure of the ledger, and every weight's digest."""
        store, ledger = self.store, self.ledger
        last, pointer = manifest(store, "crash", self.steps), store.get("crash/latest.json")
        steps = [one.model_dump(exclude=TIMES) for one in ledger.steps]
        validations = [one.model_dump(exclude={"seconds"}) for one in ledger.validations]
        return steps, validations, last and last.files, pointer and pointer.data

    @property
    def trainings(self) -> Counter[tuple[str, int]]:
        """How often each step's training began and ended, by the trainer's own log."""
        log = self.work / "trainer/precis/models/crash/trainings.jsonl"
        events = [json.loads(line) for line in log.read_text().splitlines()]
        return Counter((one["event"], one["step"]) for one in events)


@contextmanager
def first_life(precis: Precis, s3: str) -> Iterator[Life]:
    """A run to make others of, while the server that forks them has what they need of S3."""
    environment = {
        **precis.environment,
        "PREFECT_API_URL": precis.api,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3,
        "PRECIS_S3_CREATE_BUCKET": "1",
        "PRECIS_S3_TRIES_MAX": "2",
    }
    with forking(environment) as desk:
        yield Life(s3, precis.home, desk, f"precis-{secrets.token_hex(4)}", "undisturbed")


def nobody(folder: Path) -> Kills:
    return Kills(folder)


def one_a_step(kills: Iterable[Kill]) -> list[Kill]:
    """The same, each in a step of its own, from the second on."""
    return [replace(kill, step=step) for step, kill in enumerate(kills, 1)]


Undisturbed = Callable[[int], Life]


def undisturbed_by(first: Life, ids: Path) -> Undisturbed:
    """Runs like the first that nobody kills, by their number of steps; each is made once."""

    @cache
    def undisturbed(steps: int) -> Life:
        life = first.named(f"undisturbed-{steps}", steps)
        assert life.live(nobody(ids)) == 0, life.log.read_text()[-3000:]
        assert set(life.trainings.values()) == {1}
        return life

    return undisturbed
