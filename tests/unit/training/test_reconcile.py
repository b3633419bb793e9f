"""Where a run goes on, for what its ledger, its store and its trainer may say."""

import hashlib

import pytest

from precis.errors import CorruptCheckpoint
from precis.records.ledger import Ledger, StepRecord
from precis.records.manifests import Checkpoint, File, files_digest
from precis.trainer.protocol import TrainedStep, TrainerState
from precis.training.resume import ResumePlan, reconcile
from tests.support import ledgers

RUN = "ours"


def record(step: int) -> StepRecord:
    return ledgers.record(step, digest=f"groups {step}")


def files(step: int, content: str = "weights") -> tuple[File, ...]:
    digest = hashlib.sha256(f"{content} {step}".encode()).hexdigest()
    return (File(path="weights", bytes=9, sha256=digest),)


def ledger_at(step: int) -> Ledger:
    ledger = Ledger(model="m", config="c", corpus="k", run_id=RUN)
    for each in range(step):
        ledger = ledger.advance(record(each), files_digest(files(each + 1)))
    return ledger


def stored(*steps: int) -> dict[int, Checkpoint]:
    return {
        step: Checkpoint(
            model="m",
            step=step,
            parent=step - 1 if step else None,
            config="c",
            run=RUN,
            attempt="0" * 16,
            files=files(step),
            record=record(step - 1) if step else None,
        )
        for step in steps
    }


def trained(step: int) -> TrainedStep:
    note = record(step).model_dump(mode="json")
    return TrainedStep(digest=f"groups {step}", result={"step": step + 1, "metrics": {}}, note=note)


def trainer(base: int, newest: int, *, run: str = RUN, content: str = "weights") -> TrainerState:
    """A trainer that began from checkpoint `base` and has trained up to `newest`."""
    return TrainerState(
        run=run,
        checkpoints={step: files(step, content) for step in range(base, newest + 1)},
        trained={step: trained(step) for step in range(base, newest)},
    )


NOBODY = TrainerState()


AT_3 = ledger_at(3)
CASES = {
    "all agree": ([3], trainer(0, 3), ResumePlan(AT_3, "keep")),
    "trained, not uploaded": ([3], trainer(2, 4), ResumePlan(AT_3, "keep", ahead=(trained(3),))),
    "uploaded, not booked": ([3, 4], trainer(2, 4), ResumePlan(ledger_at(4), "keep")),
    "uploaded, trainer gone": ([3, 4], NOBODY, ResumePlan(ledger_at(4), "restore")),
    "two uploaded, not booked": ([3, 4, 5], NOBODY, ResumePlan(ledger_at(5), "restore")),
    "uploaded behind a gap": ([3, 5], NOBODY, ResumePlan(AT_3, "restore")),
    "other weights than were damaged": (
        [2],
        trainer(1, 3, content="other"),
        ResumePlan(AT_3.rewind(2), "restore"),
    ),
    "healed": ([2], trainer(1, 3), ResumePlan(AT_3, "keep", upload=True)),
    "trainer behind": ([3], trainer(0, 2), ResumePlan(AT_3, "restore")),
    "trainer gone": ([3], NOBODY, ResumePlan(AT_3, "restore")),
    "another run's": ([3], trainer(3, 4, run="theirs"), ResumePlan(AT_3, "restore")),
    "other weights": ([3], trainer(3, 4, content="other"), ResumePlan(AT_3, "restore")),
    "damaged, trainer gone": ([1], NOBODY, ResumePlan(AT_3.rewind(1), "restore")),
    "damaged, trainer a step behind": (
        [1],
        trainer(1, 2),
        ResumePlan(AT_3.rewind(1), "keep", ahead=(trained(1),)),
    ),
}


@pytest.mark.parametrize(("whole", "held", "expected"), CASES.values(), ids=CASES)
def test_a_run_at_step_three_goes_on(
    whole: list[int], held: TrainerState, expected: ResumePlan
) -> None:
    assert reconcile(AT_3, stored(*whole), held) == expected


@pytest.mark.parametrize("held", [NOBODY, trainer(0, 2, run="theirs")])
def test_a_new_model_begins_and_uploads_its_start(held: TrainerState) -> None:
    assert reconcile(ledger_at(0), {}, held) == ResumePlan(ledger_at(0), "begin", upload=True)


def test_a_run_whose_checkpoints_are_all_gone_stops() -> None:
    with pytest.raises(CorruptCheckpoint, match="up to step 3 is whole"):
        reconcile(ledger_at(3), {}, NOBODY)


def test_a_manifest_that_another_run_was_late_to_write_is_not_taken_for_a_step() -> None:
    late = stored(3, 4)
    late[4] = late[4].model_copy(update={"run": "theirs"})
    assert reconcile(ledger_at(3), late, NOBODY) == ResumePlan(ledger_at(3), "restore")
