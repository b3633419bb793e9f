"""The trainer's memory of one model, in files that survive its SIGKILL.

    run.txt             the model's run
    pending.json        the step whose training has begun, without a result yet
    trained/0007.json   a trained step: the digest of its groups, and its result
    trainings.jsonl     the log: a line when a training begins, one when its weights are saved

Each file but the log is replaced in one move.
"""

import json
import shutil
from pathlib import Path
from typing import Literal

from precis.processes.kill_points import reached
from precis.record import Record
from precis.runs.checkpoints import files_in
from precis.runs.local_checkpoints import folder_of, read_metrics, steps_here
from precis.store.durable import make_folder, sync, write_text
from precis.trainer.protocol import Json, TrainedStep, TrainerState


class _Pending(Record):
    step: int
    digest: str
    note: Json


class Journal:
    """The memory of one model, in its folder of ART's layout, with `checkpoints/` in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def run(self) -> str:
        """The run of the checkpoints here; empty if there is none."""
        return (_read(self.folder / "run.txt") or b"").decode()

    @property
    def pending(self) -> _Pending | None:
        """The training that is under way, or was when the trainer was killed."""
        data = _read(self.folder / "pending.json")
        return _Pending.model_validate_json(data) if data else None

    def belongs(self, run: str) -> None:
        """Note that the model is now this run's."""
        write_text(self.folder / "run.txt", run)

    def forget(self) -> None:
        """Drop every checkpoint and its records; the log stays."""
        (self.folder / "run.txt").unlink(missing_ok=True)
        (self.folder / "pending.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "trained", ignore_errors=True)
        shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)
        if self.folder.is_dir():
            sync(self.folder)  # before another run's name could be put on files that come back

    def began(self, step: int, digest: str, note: Json) -> None:
        pending = _Pending(step=step, digest=digest, note=note)
        write_text(self.folder / "pending.json", pending.model_dump_json())
        self._log("began", step, digest)
        reached("training begun", step)

    def finished(self, step: int, trained: TrainedStep) -> None:
        """Note that a training has ended and its weights are saved; a repeat is not logged."""
        self._log("trained", step, trained.digest)
        reached("training logged", step)
        # The result is written before the pending mark is removed: a kill in between leaves both,
        # and `finished` is called again.
        write_text(self._record(step), trained.model_dump_json())
        (self.folder / "pending.json").unlink(missing_ok=True)
        reached("result stored", step)

    def settle(self) -> None:
        """Keep a training whose weights were saved before a kill; drop an unfinished one."""
        pending = self.pending
        if pending is None:
            return
        checkpoint = self.checkpoint(pending.step + 1)
        trained = self.trained(pending.step)
        metrics = read_metrics(checkpoint)
        if trained is None and metrics is not None:
            result = {"step": pending.step + 1, "metrics": metrics}
            trained = TrainedStep(digest=pending.digest, result=result, note=pending.note)
        if trained is not None:
            return self.finished(pending.step, trained)
        # The weights first: half of them must not outlive the note that they are unfinished.
        shutil.rmtree(checkpoint, ignore_errors=True)
        (self.folder / "pending.json").unlink(missing_ok=True)

    def trained(self, step: int) -> TrainedStep | None:
        """Return the record of a step, or None if it was not trained here."""
        data = _read(self._record(step))
        return TrainedStep.model_validate_json(data) if data else None

    def state(self) -> TrainerState:
        checkpoints = {}
        trained = {}
        run = self.run
        for step in steps_here(self.folder) if run else ():
            checkpoints[step] = files_in(self.checkpoint(step))
            record = self.trained(step - 1) if step else None
            if record is not None:
                trained[step - 1] = record
        return TrainerState(run=run, checkpoints=checkpoints, trained=trained)

    def checkpoint(self, step: int) -> Path:
        return folder_of(self.folder, step)

    def _record(self, step: int) -> Path:
        return self.folder / "trained" / f"{step:04d}.json"

    def _log(self, event: Literal["began", "trained"], step: int, digest: str) -> None:
        make_folder(self.folder)
        file = self.folder / "trainings.jsonl"
        line = json.dumps({"event": event, "step": step, "digest": digest, "run": self.run})
        if event == "trained" and line.encode() in (_read(file) or b"").splitlines():
            return
        with file.open("a") as log:
            log.write(line + "\n")
        sync(file)
        sync(self.folder)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
