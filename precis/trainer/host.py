"""The work of a trainer: one backend, its models, and its memory of finished steps."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import art

from precis.errors import StepConflict, TrainerError
from precis.runs.checkpoints import commit, restore
from precis.runs.local_checkpoints import steps_here
from precis.store import open_store
from precis.trainer.backend import TrainerBackend
from precis.trainer.jobs import Job
from precis.trainer.journal import Journal
from precis.trainer.protocol import (
    CheckpointRequest,
    FileRequest,
    Json,
    ModelSpec,
    TrainedStep,
    TrainRequest,
    decode_groups,
)

Model = art.TrainableModel[Any, Any]

_STEP = re.compile(r"[0-9]{1,7}")
_KEPT = 2
"""Checkpoints kept here once a newer one is in the store: it and the one before it."""


class TrainerService:
    """A backend with its models and their journals, in one base folder."""

    def __init__(self, backend: TrainerBackend, path: Path) -> None:
        self.backend = backend
        self.path = path
        self.models: dict[str, Model] = {}
        self._specs: dict[str, ModelSpec] = {}
        self.endpoints: dict[str, tuple[str, str]] = {}
        """Each model's address and key for completions."""
        self._settled: set[Path] = set()
        self._training = asyncio.Lock()
        self._jobs: dict[str, Job] = {}

    def start(self, key: str, work: Callable[[], Awaitable[Json]]) -> Job:
        """Start an operation, or attach to it if it is under way."""
        if key not in self._jobs:
            self._jobs[key] = Job(asyncio.ensure_future(work()))
            self._jobs[key].task.add_done_callback(lambda _: self._jobs.pop(key))
        return self._jobs[key]

    async def register(self, spec: ModelSpec) -> Json:
        """Have the backend serve the model; load it again if its base model or settings have
        changed."""
        self._journal(spec)
        if self._specs.get(spec.name) != spec:
            if spec.name in self.models:
                # A run that continues here with other settings, or another run of this name.
                async with self._training:
                    await self.backend.forget(self.models[spec.name])
            self.models[spec.name] = art.TrainableModel(
                name=spec.name,
                project=spec.project,
                base_model=spec.base_model,
                base_path=str(self.path),
                report_metrics=[],
                _internal_config=spec.internal_config,  # type: ignore[arg-type]
            )
            self._specs[spec.name] = spec
        model = self.models[spec.name]
        await self.backend.register(model)
        self.endpoints[spec.name] = await self.backend._prepare_backend_for_training(model, None)
        return {"step": await self.backend._get_step(model)}

    def served_as(self, asked: str) -> str:
        """Return the backend's name of the adapter that clients ask for as `name@step`. Raises
        TrainerError if it names no adapter. vLLM would answer as its base model, or by another
        adapter."""
        name, _, step = asked.rpartition("@")
        if name not in self.endpoints or not _STEP.fullmatch(step):
            raise TrainerError(
                f"{asked[:200]!r} is not an adapter of this trainer: ask for MODEL@STEP of "
                f"{', '.join(self.endpoints)}."
            )
        return self.backend._model_inference_name(self.models[name], int(step))

    async def step(self, spec: ModelSpec) -> Json:
        return {"step": await self.backend._get_step(self._find_registered(spec))}

    async def state(self, spec: ModelSpec) -> Json:
        """Return the state of a model, once a running training has ended."""
        async with self._training:
            return (await asyncio.to_thread(self._journal(spec).state)).model_dump()

    async def begin(self, spec: ModelSpec, run: str) -> Json:
        """Forget the model: the run begins it again."""
        async with self._training:
            await self._forget(spec)
            self._journal(spec).belongs(run)
        return {}

    async def train(self, request: TrainRequest) -> Json:
        """Train a step, one at a time; for a trained step return the stored result. Raises
        StepConflict if it was trained on other groups, the model here is another run's, or is at
        another step."""
        async with self._training:
            name = request.model.name
            journal = self._journal(request.model)
            if request.run and journal.run != request.run:
                held = f"of the run {journal.run}" if journal.run else "of no run"
                raise StepConflict(
                    f"The trainer holds {name} {held}, not of {request.run}: restore the "
                    "checkpoint to continue from."
                )
            done = journal.trained(request.step)
            if done is not None and done.digest != request.digest:
                raise StepConflict(
                    f"Step {request.step} of {name} was trained already on other groups (digest "
                    f"{done.digest[:12]}, not {request.digest[:12]})."
                )
            if done is not None:
                return done.result
            model = self._find_registered(request.model)
            at = await self.backend._get_step(model)
            if at != request.step:
                raise StepConflict(
                    f"The trainer is at step {at} of {name}, not at {request.step}: restore the "
                    "checkpoint to continue from."
                )
            # Noted before and after: a trainer that is killed in between can tell at its next start
            # (`Journal.settle`) whether the weights were saved, and the step is not trained twice.
            journal.began(request.step, request.digest, request.note)
            groups = decode_groups(request.groups)
            if request.imitates:
                shown: list[art.Trajectory] = []
                for group in groups:
                    shown += group.trajectories
                result = await self.backend.train_sft(model, shown, **request.options)
            else:
                result = await self.backend.train(model, groups, **request.options)
            answer = {"step": result.step, "metrics": result.metrics}
            trained = TrainedStep(digest=request.digest, result=answer, note=request.note)
            self._settled.discard(journal.folder)  # in case there is no room on the disk
            journal.finished(request.step, trained)
            self._settled.add(journal.folder)
            return answer

    async def commit(self, request: CheckpointRequest) -> Json:
        checkpoint = await asyncio.to_thread(
            commit,
            open_store(request.store),
            request.name,
            request.step,
            self._journal(request.model).checkpoint(request.step),
            request.config,
            request.record,
            request.run,
            request.lease,
        )
        # Only now: until the store has this checkpoint, an older one may be needed here.
        model = self.models.get(request.model.name)
        if model is not None:
            here = steps_here(self._journal(request.model).folder)
            kept = [step for step in here if step > request.step - _KEPT]
            await self.backend._delete_checkpoint_files(model, kept)
        return checkpoint.model_dump(mode="json")

    async def fetch(self, request: CheckpointRequest) -> Json:
        """Download a checkpoint, to serve it beside the others."""
        into = self._journal(request.model).checkpoint(request.step)
        into.parent.mkdir(parents=True, exist_ok=True)
        wanted = (open_store(request.store), request.name, request.step, into, request.digest)
        await asyncio.to_thread(restore, *wanted)
        return {}

    async def restore(self, request: CheckpointRequest) -> Json:
        """Download a checkpoint as the latest, and forget any later training."""
        async with self._training:
            await self._forget(request.model)
            answer = await self.fetch(request)
            # Last: a trainer that is killed before this has no model, and is asked again.
            self._journal(request.model).belongs(request.run)
        return answer

    async def keep_checkpoints(self, spec: ModelSpec, steps: list[int]) -> Json:
        await self.backend._delete_checkpoint_files(self._find_registered(spec), steps)
        return {}

    async def _forget(self, spec: ModelSpec) -> None:
        """Drop a model's files, and its backend's memory of it."""
        self._journal(spec).forget()
        if spec.name in self.models:
            await self.backend.forget(self.models[spec.name])

    def file(self, request: FileRequest) -> Path:
        """Return a file of a local checkpoint; a TrainerError says that there is none."""
        folder = self._journal(request.model).checkpoint(request.step).resolve()
        path = (folder / request.path).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise TrainerError(f"Checkpoint {request.step} has no file {request.path!r} here.")
        return path

    def folder(self, spec: ModelSpec) -> Path:
        """Return a model's folder in ART's own layout."""
        return self.path / spec.project / "models" / spec.name

    def _journal(self, spec: ModelSpec) -> Journal:
        """Return the journal of a model, settled after the last trainer in this folder, or after a
        result that could not be noted."""
        journal = Journal(self.folder(spec))
        if journal.folder not in self._settled:
            journal.settle()
            self._settled.add(journal.folder)
        return journal

    def _find_registered(self, spec: ModelSpec) -> Model:
        if spec.name not in self.models:
            raise TrainerError(f"The model {spec.name!r} is not registered with this trainer.")
        return self.models[spec.name]
