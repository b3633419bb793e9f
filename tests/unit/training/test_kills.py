"""Any prefix of a run's writes, then resume, gives the same bits.

Each kind of run is lived once, undisturbed, and the disk is kept at every point where a process
may die; from each of these disks the run is resumed, and must end as the undisturbed one did. That
real processes leave such disks, and that a trainer alone can be killed, tests/services/test_crashes
shows.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from precis.records.ledger import StepRecord, load_ledger
from precis.records.trajectories import scan_trajectories
from precis.runs.checkpoints import committed_steps, manifest, restore
from precis.store.files import read_files
from precis.trainer.tinker.checkpoints import read_kept
from tests.support import unscored
from tests.support.in_process import Life, Point, live_noting, one_process
from tests.support.local_server import serving
from tests.support.tinker_server import BASE_MODEL, KEY, TinkerServer
from tests.support.tokenizers import write_chat_tokenizer

ROOT = Path(__file__).parents[3]
TIMES = {"seconds", "judge", "commit_s", "overlapped_s", "trainer", "described_at"}
"""What of a step's record differs from run to run; the trainer's metrics have times among them."""
AT_ONCE = 8
"""Lives that go on at the same time; each waits for its servers to end."""
OF_A_CHECKPOINT = {
    *("0 files uploaded", "1 files uploaded", "all files uploaded"),
    *("manifest written", "pointer moved", "before ledger", "ledger written"),
}
"""Points that are about the checkpoint which a step makes: its number is one higher."""
IMITATED = {"groups measured", "demonstrations collected", "demonstrations kept"}


@dataclass(frozen=True)
class Kind:
    """A kind of run.

    Attributes:
        killed: the step that it is killed in, at each point once; None kills it in every step,
            and before and behind them.
        lacks: the points that it does not get to.
        shows: whether a step is of this kind; that in which it is killed must be.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    killed: int | None = 1
    lacks: frozenset[str] = frozenset(IMITATED)
    shows: Callable[[StepRecord], bool] = lambda step: step.groups_trained > 0


LONG = "plain, in every step"
"""What makes it is in the others as well, but for the other steps."""
STALE = "one step stale, with replacements"
KINDS = {
    LONG: Kind(killed=None),
    STALE: Kind(
        {
            "steps": 3,
            "off_policy_steps": 1,
            "validate_every": 2,
            "retention": {"keep_last": 2, "keep_every": 0, "keep_best": 0},
            # Of two summaries alone many groups have no variance.
            "rollouts": {
                "groups_per_step": 1,
                "rollouts_per_group": 2,
                "scored_min": 2,
                "replacements_max": 4,
            },
        },
        shows=lambda step: step.staleness == 1 and step.overlapped_s > 0 and step.groups_added > 0,
    ),
    "warm start": Kind(
        {
            "documents": {"source": "bundled", "train_size": 10, "val_size": 1},
            "validate_every": 2,
            "warm_start": {"scenarios": 3, "samples": 2, "measured_scenarios": 1},
        },
        killed=0,
        lacks=frozenset(),
        shows=lambda step: step.warm_start is not None,
    ),
    "an agent that a judge scores": Kind(
        {
            "environment": {
                "kind": "python",
                "file": unscored.__file__,
                "score": "ruler",
                "rubric": "The word is found.",
            },
            "rollouts": {"groups_per_step": 2, "rollouts_per_group": 3, "scored_min": 2},
            "steps": 1,
        },
        killed=None,
        lacks=frozenset(IMITATED | {"manifest deleted", "summary sampled"}),
    ),
    "a training service": Kind(
        {
            "trainer": {
                "kind": "tinker",
                "base_model": BASE_MODEL,
                "learning_rate": 0.5,
                "trajectories_per_update": 2,
                "prices": [1.0, 10.0, 100.0],
            },
            "validate_every": 2,
            "rollouts": {"groups_per_step": 1, "rollouts_per_group": 4, "replacements_max": 2},
        },
        shows=lambda step: (
            step.groups_trained > 0
            and step.trainer["offpolicy/logprob_gap"] < 1e-6
            and step.machine_usd == step.trainer["costs/service"] > 0
        ),
    ),
}


@pytest.mark.filterwarnings(
    # The service's client leaves some of its connections to the garbage collector.
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.long if one == LONG else ()) for one in KINDS]
)
async def test_any_prefix_of_the_writes_then_resume_gives_the_same_bits(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = KINDS[name]
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    tokenizer = write_chat_tokenizer(tmp_path / "tokenizer")
    with one_process(tmp_path / "home"):
        service = TinkerServer(1)
        async with settings_at(service, kind, tokenizer) as settings:
            undisturbed = Life(tmp_path / "undisturbed", settings)
            points = await live_noting(undisturbed, tmp_path / "disks", lambda: dict(service.saved))
        assert named_points() - {point.name for point in points} == kind.lacks
        killed = load_ledger(undisturbed.store, "m").steps[kind.killed or 0]
        assert kind.shows(killed), killed
        expected = outcome(undisturbed, service)
        turns = asyncio.Semaphore(AT_ONCE)

        async def resume(killed_at: list[Point], *, machine_is_lost: bool = False) -> None:
            copy = killed_at[0].copy
            # Whatever the service was given later, it has not got yet.
            then = TinkerServer(1)
            then.saved, then.ids = dict(killed_at[0].service), service.ids
            async with turns, settings_at(then, kind, tokenizer) as settings:
                life = Life(tmp_path / f"killed-{copy.name}-{machine_is_lost}", settings)
                life.begin_with(copy, machine_is_lost=machine_is_lost)
                await life.live()
            where = ", ".join(f"{one.name} ({one.number})" for one in killed_at)
            assert outcome(life, then) == expected, f"killed at {where}"
            trained = Counter(trainings(life))
            assert set(trained.values()) <= {1}, f"trained twice when killed at {where}"

        async with asyncio.TaskGroup() as resuming:
            for killed_at in by_disk(kind, points).values():
                resuming.create_task(resume(killed_at))
                # All but the store is gone: each prefix of what was put there is enough.
                if name == STALE and OF_A_CHECKPOINT & {one.name for one in killed_at}:
                    resuming.create_task(resume(killed_at, machine_is_lost=True))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "ledger.json" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def named_points() -> set[str]:
    """Every point at which a process may die."""
    named = {"0 files uploaded", "1 files uploaded"}
    for path in (ROOT / "precis").rglob("*.py"):
        if path.name != "kill_points.py":
            named |= set(re.findall(r'\breached\(\s*f?"([^"]+)"', path.read_text("utf-8")))
    return named - {"{count} files uploaded"}


def by_disk(kind: Kind, points: list[Point]) -> dict[Path, list[Point]]:
    """The points at which a run of this kind is to be killed, by the disks that they leave."""
    disks: dict[Path, list[Point]] = {}
    seen = set()
    for point in points:
        least = (kind.killed or 0) + (point.name in OF_A_CHECKPOINT)
        if kind.killed is not None and (point.number < least or point.name in seen):
            continue
        seen.add(point.name)
        disks.setdefault(point.copy, []).append(point)
    return disks


def outcome(life: Life, service: TinkerServer) -> Any:
    """What must be the same for all: the ledger's figures, each rollout, and each weight."""
    store = life.store
    ledger = load_ledger(store, "m")
    rollouts = {}
    for split in ("train", "validation"):
        frame = scan_trajectories(store, "m", split).collect()
        rollouts[split] = frame.drop("seconds").to_dicts()
    shown = []
    for batch in read_files(store, store.keys("m/warm-start/")).values():
        shown += json.loads(batch)["demonstrations"]
    steps = committed_steps(store, "m")
    return {
        "steps": [one.model_dump(exclude=TIMES | {"machine_usd"}) for one in ledger.steps],
        "validations": [one.model_dump(exclude={"seconds"}) for one in ledger.validations],
        "variances": [one.model_dump(exclude={"seconds"}) for one in ledger.variances],
        "rollouts": rollouts,
        "demonstrations": shown,
        "weights": {step: weights_of(life, step, service) for step in steps},
        "latest": getattr(store.get("m/latest.json"), "data", None) if not service.saved else None,
    }


def weights_of(life: Life, step: int, service: TinkerServer) -> Any:
    """The SHA-256 of a checkpoint's files; of one at a service, what the service has of it."""
    checkpoint = manifest(life.store, "m", step)
    assert checkpoint is not None
    if not service.saved:
        return checkpoint.files
    with TemporaryDirectory() as folder:
        restore(life.store, "m", step, Path(folder) / "checkpoint")
        policy = service.saved[read_kept(Path(folder) / "checkpoint").state]
    return policy.logits.tolist(), policy.adam.count


def trainings(life: Life) -> list[tuple[str, int]]:
    """Each step whose training has ended, by the trainer's own log."""
    log = life.work / "trainer/precis/models/m/trainings.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [(one["run"], one["step"]) for one in events if one["event"] == "trained"]


@asynccontextmanager
async def settings_at(
    service: TinkerServer, kind: Kind, tokenizer: Path
) -> AsyncIterator[Mapping[str, Any]]:
    """The settings of a run of this kind, which trains at the service, if at any."""
    trainer = kind.settings.get("trainer")
    if trainer is None:
        yield kind.settings
        return
    async with serving(service.app()) as url:
        address = {"base_url": url, "tokenizer": str(tokenizer)}
        yield {**kind.settings, "trainer": {**trainer, **address}}
