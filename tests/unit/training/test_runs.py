"""Whole runs in this process: a step stale, warmed, judged for pay, forked, ended early."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precis.cluster.site import HourlyPrice, Meter
from precis.errors import (
    BudgetReached,
    JudgeUnavailable,
    StoreRefused,
    TrainerError,
    TrainerLost,
    UnusableRun,
)
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from precis.models.reference import Reference, find_model
from precis.records.ledger import Ledger, StepRecord, Validation, ledger_key, load_ledger
from precis.records.trajectories import scan_trajectories, trajectory_steps
from precis.rehearsal.judges.judge import lexical_judge
from precis.runs.checkpoints import committed_steps, manifest
from precis.runs.repair import repair
from precis.runs.restart import restart
from precis.settings.cluster import ClusterConfig
from precis.store import FolderStore
from precis.training import stages
from precis.training.loop import TrainingLoop
from precis.training.run import PROJECT, Run
from precis.training.validation import validate
from tests.support import unscored
from tests.support.faulty import FaultyServer
from tests.support.in_process import Life, hooked, one_process, train
from tests.support.paid_judge import KEY, paid

STALE: dict[str, Any] = {
    "steps": 3,
    "off_policy_steps": 1,
    "retention": {"keep_last": 2, "keep_every": 0, "keep_best": 0},
}


@pytest.fixture(autouse=True)
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    with one_process(tmp_path / "home"):
        yield


def ledger(life: Life) -> Ledger:
    return load_ledger(life.store, "m")


def digests(life: Life) -> list[str]:
    return [step.digest for step in ledger(life).steps]


def steps_with(metric: str, life: Life) -> list[int]:
    """The steps of which ART's history has a metric."""
    history = life.work / "art" / PROJECT / "models" / "m" / "history.jsonl"
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    return [one["step"] for one in lines if metric in one]


@contextmanager
def noting(life: Life, folder: Path, *points: tuple[str, int]) -> Iterator[None]:
    """Copy the disk into a folder of the point's name when a life first gets to one of them."""

    def note(point: str, step: int | None) -> None:
        if (point, step) in points and not (folder / point).exists():
            life.copy_disk(folder / point)

    with hooked(note):
        yield


async def test_each_step_is_sampled_from_the_adapter_before_its_own_unless_that_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One that is lost everywhere costs the overlap of one step."""
    life = Life(tmp_path / "undisturbed", {**STALE, "validate_every": 5})
    with noting(life, tmp_path, ("ledger written", 2)):
        await life.live()
    sampled_from = []
    for step in range(3):
        rollouts = scan_trajectories(life.store, "m", "train", [step]).collect()
        sampled_from.append(set(rollouts["policy"]))
    assert sampled_from == [{"m@0"}, {"m@0"}, {"m@1"}]
    assert [step.staleness for step in ledger(life).steps] == [0, 1, 1]
    first, *beside = ledger(life).steps
    assert first.overlapped_s == 0
    assert all(step.overlapped_s > 0 for step in beside)
    killed = Life(tmp_path / "killed", life.settings)
    killed.begin_with(tmp_path / "ledger written", machine_is_lost=True)
    assert ledger(killed).next_step == 2
    killed.store.delete("m/checkpoints/0001/")
    await killed.live()
    assert [step.staleness for step in ledger(killed).steps] == [0, 1, 0]
    assert "Step 2 is sampled from its own adapter." in caplog.text
    assert digests(killed)[2] != digests(life)[2], "the adapter is the same"


async def test_arts_files_have_a_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To list what was left half written S3 asks for a permission of its own, of the bucket."""

    def refuse(_: FolderStore) -> int:
        raise StoreRefused("Can't clean s3://bucket: the key is not permitted to.")

    told: list[int] = []

    def log(step: int, metrics: dict[str, float]) -> None:
        if "reward" in metrics:
            told.append(step)

    monkeypatch.setattr(FolderStore, "clean", refuse)
    life = Life(tmp_path / "run", {})
    killed = [("step trained", 1), ("manifest written", 2), ("ledger written", 2)]
    with noting(life, tmp_path, *killed):
        async with life.opened() as run:
            await train(run)
            assert "W&B" not in run.view.links, "nobody has a page without a key"
            run.config = run.config.model_copy(update={"cluster": ClusterConfig(where="sky")})
            assert run.view.links["Logs of the trainer"].startswith("sky logs precis-m-")
    assert not (life.work / "wandb").exists()
    assert steps_with("train/reward", life) == [0, 1]
    assert steps_with("val/accuracy", life) == [0, 1, 2]
    wandb = SimpleNamespace(log=log, table=lambda *_: None, url="")
    monkeypatch.setattr("precis.training.loop.wandb_log", lambda *_: nullcontext(wandb))
    for point, _ in killed:
        told.clear()
        resumed = Life(tmp_path / f"killed at {point}", life.settings)
        resumed.begin_with(tmp_path / point)
        cut_off = '{"whole": {"so": "far"}'
        (resumed.work / "art" / PROJECT / "models" / "m" / "state.json").write_text(cut_off)
        await resumed.live()
        assert told == [1], f"killed at {point}"
        assert steps_with("train/reward", resumed) == [0, 1], f"killed at {point}"


async def test_a_cached_verdict_costs_nothing_and_one_fault_of_the_judge_in_five_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with paid(tmp_path / "calm", validate_every=5) as (calm, judge):
        await calm.live()
        spent = judge.usd
        again = Life(tmp_path / "again", calm.settings)
        await again.live()
        assert digests(again) == digests(calm)
        assert judge.usd == spent > 0
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "other-home"))  # another cache of replies
    async with paid(tmp_path / "storm", 0.2, validate_every=5) as (storm, _):
        await storm.live()
    assert digests(storm) == digests(calm)
    assert all(not step.unscored for step in ledger(storm).steps)


async def test_a_run_stops_at_its_budget_and_continues_with_a_larger(tmp_path: Path) -> None:
    settings = {**STALE, "steps": 2, "validate_every": 5}
    async with paid(tmp_path / "bounded", **settings) as (unbounded, _):
        life = Life(unbounded.folder, {**unbounded.settings, "budget_usd": 1e-6})
        sampled: list[int | None] = []

        def note(point: str, step: int | None) -> None:
            if point == "before sampling":
                sampled.append(step)

        with hooked(note), pytest.raises(BudgetReached, match="The run has spent"):
            await life.live()
        spent = ledger(life).usd
        assert [one.step for one in ledger(life).steps] == sampled == [0]
        assert spent > 1e-6
        with pytest.raises(BudgetReached):
            await life.live()
        assert ledger(life).usd == spent, "a run at its budget has spent more"
        await unbounded.live()
        assert ledger(unbounded).next_step == 2
        assert ledger(unbounded).usd > spent


async def test_what_was_paid_for_a_step_that_failed_is_booked(tmp_path: Path) -> None:
    """Its verdicts are kept and cost nothing again, so that no later step can book them."""
    async with paid(tmp_path / "run") as (life, judge):
        judge.answers_left = 2
        with pytest.raises(JudgeUnavailable):
            await life.live()
        assert not ledger(life).validations, "a score of one document of two is no validation"
        judge.answers_left = 7
        with pytest.raises(JudgeUnavailable):
            await life.live()
        failed = ledger(life)
        assert (failed.next_step, len(failed.validations)) == (0, 1)
        assert failed.usd == pytest.approx(judge.usd)
        judge.answers_left = 1000
        await life.live()
        assert ledger(life).usd == pytest.approx(judge.usd)


async def test_what_was_paid_for_a_step_that_was_not_trained_is_booked(tmp_path: Path) -> None:
    """The lost trainer is started again, and then the budget is used up."""

    async def fail(*_: object) -> StepRecord:
        raise TrainerLost("It is gone.")

    async with paid(tmp_path / "run", budget_usd=1e-6) as (life, judge), life.opened() as run:
        with pytest.raises(BudgetReached):
            await train(run, train=fail)
        assert run.trainer.losses == len(run.ledger.validations) == 1
        assert ledger(life).usd == pytest.approx(judge.usd)


@pytest.mark.parametrize(
    ("error", "is_trained"),
    [(TrainerLost, True), (TrainerError, False), (asyncio.CancelledError, False)],
)
async def test_a_step_that_ends_with_its_run_is_booked_once(
    error: type[BaseException], is_trained: bool, tmp_path: Path
) -> None:
    """The next start finds it trained, and commits it with its cost, or samples it again."""
    hours = 0.0

    def work(point: str, step: int | None) -> None:
        nonlocal hours
        hours += point in ("validation scored", "step trained")

    async def train_and_be_lost(*step: Any) -> StepRecord:
        if is_trained:
            await stages.train_step(*step)
        raise error("It is gone.")

    async with paid(tmp_path / "run", recoveries_max=0) as (life, judge):
        async with life.opened() as run:
            run.trainer.meter = Meter(lambda: 3600 * hours)
            run.trainer.meter.start(HourlyPrice(2.0, 2.0))
            with hooked(work), pytest.raises(error):
                await train(run, train=train_and_be_lost)
        assert (hours, ledger(life).next_step) == (1 + is_trained, 0)
        assert ledger(life).usd == pytest.approx(judge.usd + 2.0 * hours)
        await life.live()
        first = ledger(life).steps[0]
        assert (first.machine_usd, first.judge.usd > 0) == (2.0 * is_trained, is_trained)
        assert ledger(life).usd == pytest.approx(judge.usd + 2.0 * hours)


@pytest.mark.parametrize(("budget_usd", "is_enough"), [(5.0, False), (7.0, True)])
async def test_no_machine_is_rented_in_place_of_a_lost_one_that_the_budget_pays_for_no_hour(
    budget_usd: float, is_enough: bool, tmp_path: Path
) -> None:
    async with Life(tmp_path / "run", {"budget_usd": budget_usd}).opened() as run:
        loop = TrainingLoop(run)
        await loop.resume()
        await run.write_ledger(run.ledger.charge(4.0))
        run.config = run.config.model_copy(update={"cluster": ClusterConfig(where="sky")})
        run.trainer.meter.price = HourlyPrice(2.0, 2.0)
        stops = pytest.raises(BudgetReached, match=r"\$4.00 of its \$5.00, and .* \$2.00 an hour.")
        with nullcontext() if is_enough else stops:
            async with loop.recovering():
                raise TrainerLost("It is gone.")
        assert run.trainer.losses == is_enough


async def test_what_a_machine_cost_after_the_last_step_is_booked(tmp_path: Path) -> None:
    """Its training, its commit and its validation, each for an hour here, and a benchmark."""
    hours = 0.0

    def work(point: str, step: int | None) -> None:
        nonlocal hours
        hours += point in ("step trained", "pointer moved", "validation scored")

    life = Life(tmp_path / "run", {})
    with pytest.raises(TrainerError):
        async with life.opened() as run:
            run.trainer.meter = Meter(lambda: 3600 * hours)
            run.trainer.meter.start(HourlyPrice(2.0, 2.0))
            run.trainer.losses = 1
            with hooked(work):
                await train(run)
            assert ledger(life).usd == 2.0 * hours
            hours += 3
            raise TrainerError("The benchmark failed.")
    assert ledger(life).usd == 2.0 * hours > ledger(life).machine_usd > 0
    assert run.trainer.losses == 0, "steps were committed since"


async def test_a_judge_that_is_out_at_a_validation_is_waited_for(tmp_path: Path) -> None:
    out = [JudgeUnavailable("It is out."), JudgeUnavailable("It is out.")]

    async def validate_at_last(run: Run, step: int) -> Validation:
        if out:
            raise out.pop()
        return await validate(run, step)

    async def wait(run: Run, work: Any) -> Any:
        while True:
            try:
                return await work()
            except JudgeUnavailable:
                waited.append(run.next_step)

    waited: list[int] = []
    life = Life(tmp_path / "run", {"steps": 1})
    async with life.opened() as run:
        await train(run, validate=validate_at_last, around_judge=wait)
    assert waited == [0, 0]
    assert ledger(life).next_step == 1


async def test_a_second_judge_always_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = lexical_judge

    async def decline_first(asked: ChatRequest) -> Completion:
        completion = await judge(asked)
        said = json.loads(completion.choices[0].content)
        if "answers" in said:
            said["answers"][0]["answer"] = "UNANSWERABLE"
        return Completion(asked.model, [Choice(json.dumps(said))])

    monkeypatch.setenv("SECOND_JUDGE_API_KEY", KEY)
    documents = {"source": "bundled", "train_size": 8, "val_size": 8}
    async with FaultyServer(completions_app(decline_first, lambda: ["strict"], KEY)) as url:
        second = {"provider": "url", "base_url": url, "model": "strict"}
        rollouts = {"reward": "ruler", "groups_per_step": 2, "rollouts_per_group": 4}
        settings = {"documents": documents, "second_judge": second, "rollouts": rollouts}
        life = Life(tmp_path / "honest", {**settings, "steps": 1})
        await life.live()
    assert ledger(life).steps[0].groups_trained
    validations = ledger(life).validations
    assert len(validations) == 2
    for validation in validations:
        assert validation.second is not None
        assert validation.second.value < validation.score.value
        assert validation.second.judge == "strict"
        assert len(validation.second.scores) == len(validation.score.weights) == 8
        assert validation.metrics["copied"].value > 0.9  # it picks sentences


async def test_a_run_without_gain_stops_early_at_its_best(tmp_path: Path) -> None:
    idle: dict[str, Any] = {
        "trainer": {"kind": "extractive", "learning_rate": 1e-9},
        "documents": {"source": "bundled", "train_size": 12, "val_size": 8},
        "retention": {"keep_last": 2, "keep_every": 0, "keep_best": 1},
        "steps": 4,
        "validate_every": 2,
        "off_policy_steps": 1,
    }
    async with paid(tmp_path / "run", **idle) as (endless, judge):
        patient = Life(endless.folder, {**endless.settings, "patience": 1})
        await patient.live()
        stopped = ledger(patient)
        assert stopped.usd == pytest.approx(judge.usd), "what it sampled ahead is not booked"
        assert (stopped.next_step, stopped.stopped_early) == (2, 2)
        assert [one.last_gain for one in stopped.validations] == [0, 0]
        assert stopped.best is not None
        assert find_model(patient.store, Reference("m")).step == stopped.best.step
        await patient.live()
        assert ledger(patient).steps == stopped.steps
        await endless.live()
    finished = ledger(patient)
    assert (finished.next_step, finished.stopped_early) == (4, None)
    assert find_model(patient.store, Reference("m")).step == 4


async def test_old_checkpoints_always_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else hundreds of them would fill the disk of a store."""
    monkeypatch.setattr(stages, "_DELETE_EVERY", 2)
    life = Life(tmp_path, {"steps": 5, "validate_every": 100})
    there = []

    def look(point: str, step: int | None) -> None:
        if point == "pointer moved":
            there.append(committed_steps(life.store, "m"))

    with hooked(look):
        await life.live()
    assert there == [[0], [0, 1], [0, 1, 2], [0, 2, 3], [0, 2, 3, 4], [0, 4, 5]]


async def test_a_run_is_taken_back_and_another_one_begun_with_it(tmp_path: Path) -> None:
    first = Life(tmp_path, {"retention": {"keep_last": 3, "keep_every": 0, "keep_best": 0}})
    await first.live()
    store = first.store
    once = manifest(store, "m", 2)
    origin = {"model": "m", "step": 1}
    await Life(tmp_path, {"model": "forked", "steps": 1, "from_checkpoint": origin}).live()
    begun = load_ledger(store, "forked")
    assert begun.origin is not None
    assert (begun.origin.model, begun.origin.step) == ("m", 1)
    assert committed_steps(store, "forked") == [0, 1]
    copied, original = manifest(store, "forked", 0), manifest(store, "m", 1)
    assert copied is not None and original is not None and copied.files == original.files
    ours, theirs = (
        scan_trajectories(store, one, "train", [0]).collect() for one in ("m", "forked")
    )
    assert ours["scenario_id"].to_list() == theirs["scenario_id"].to_list()
    assert ours["messages"].to_list() != theirs["messages"].to_list(), "the policy is the same"

    await restart(store, "m", 1)
    assert committed_steps(store, "m") == [0, 1]
    assert trajectory_steps(store, "m", "train") == [0]
    await first.live()
    again = manifest(store, "m", 2)
    assert once is not None and again is not None and again.files == once.files


async def test_no_checkpoint_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    life = Life(tmp_path, {})
    await life.live()
    newest = ledger(life)
    life.store.put(ledger_key("m"), newest.rewind(0).model_dump_json().encode())
    with pytest.raises(UnusableRun, match="it ends with step 0, and they with step 2"):
        await life.live()
    assert committed_steps(life.store, "m") == [0, 2]
    life.store.put(ledger_key("m"), newest.model_dump_json().encode())
    life.store.delete("m/checkpoints/0002/")
    shutil.rmtree(life.work)
    await life.live()
    assert "No checkpoint of step 2 is whole: the run goes back to step 0." in caplog.text


async def test_an_agent_trains_and_is_validated_by_a_judge_alone(tmp_path: Path) -> None:
    rollouts = {"groups_per_step": 2, "rollouts_per_group": 4}
    ranked = {"score": "ruler", "rubric": "The word is found."}
    environment = {"kind": "python", "file": unscored.__file__, **ranked}
    settings: dict[str, Any] = {"environment": environment, "rollouts": rollouts, "documents": {}}
    async with paid(tmp_path / "run", **settings) as (life, judge):
        await life.live()
        assert ledger(life).usd == pytest.approx(judge.usd)
        found = ledger(life)
        start, *later = found.validations
        assert start.measure == "preferred to the start"
        assert start.score.value == 0.5
        assert start.score.with_interval == "50.0%", "it has its value by definition, and no doubt"
        assert all(0 <= one.score.value <= 1 and not one.unscored for one in later)
        rewards = scan_trajectories(life.store, "m", "train").collect()["reward"]
        assert len(rewards) == 16
        assert rewards.null_count() == 0 and rewards.n_unique() > 1

        life.store.delete(ledger_key("m"))
        await repair(life.store, "m")
        longer = Life(life.folder, {**life.settings, "steps": 3})
        async with longer.opened() as run:
            await train(run)
            seen = run.seen
        assert seen.first is not None and seen.first.step == 0, "the report compares with another"
        assert ledger(longer).validations, "nothing was validated since"
        assert ledger(longer).corpus == found.corpus, "a rebuilt ledger has none"
        for one in ledger(longer).validations:
            compared = scan_trajectories(life.store, "m", "validation", [one.step]).collect()
            for details in compared["details"]:
                assert "transcript" not in json.loads(details), "it took the first one's place"
