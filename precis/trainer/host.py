"""What a trainer does: one backend, its models, and the record of what was trained."""

import asyncio
import inspect
import json
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import art

from precis.checkpoints import commit, restore
from precis.errors import StepConflict, TrainerError
from precis.store import Store, open_store
from precis.trainer.jobs import Progress
from precis.trainer.protocol import (
    CheckpointRequest,
    Json,
    ModelSpec,
    TrainRequest,
    decode_groups,
)


class Host:
    """A backend and what it has done, for one base folder."""

    def __init__(self, backend: art.Backend, path: Path) -> None:
        self.backend, self.path = backend, path
        self.models: dict[str, art.TrainableModel[Any, Any]] = {}
        self.inference: tuple[str, str] | None = None
        self._training = asyncio.Lock()

    async def register(self, spec: ModelSpec) -> Json:
        model = self._model(spec)
        await self.backend.register(model)
        self.inference = await self.backend._prepare_backend_for_training(model, None)
        return {"step": await self.backend._get_step(model)}

    async def step(self, spec: ModelSpec) -> int:
        return await self.backend._get_step(self._registered(spec))

    async def train(self, request: TrainRequest, progress: Progress) -> Json:
        """Train a step, one at a time; a step that was trained gets its stored result."""
        async with self._training:
            return await self._train(request, progress)

    async def _train(self, request: TrainRequest, progress: Progress) -> Json:
        if (done := self.trained(request)) is not None:
            return done
        model = self._registered(request.model)
        if (at := await self.backend._get_step(model)) != request.step:
            raise StepConflict(
                f"The trainer is at step {at} of {request.model.name}, not at {request.step}: "
                "restore the checkpoint to continue from."
            )
        options: dict[str, Any] = dict(request.options)
        if "on_progress" in inspect.signature(self.backend.train).parameters:
            options["on_progress"] = progress
        result = await self.backend.train(model, decode_groups(request.groups), **options)
        answer = {"step": result.step, "metrics": result.metrics}
        _write(self._record(request), {"digest": request.digest, "result": answer})
        return answer

    def trained(self, request: TrainRequest) -> Json | None:
        """The stored result of a step that was trained already.

        Raises:
            StepConflict: on other groups.
        """
        path = self._record(request)
        if not path.exists():
            return None
        record = json.loads(path.read_bytes())
        if record["digest"] != request.digest:
            raise StepConflict(
                f"Step {request.step} of {request.model.name} was trained already on other groups "
                f"(digest {record['digest'][:12]}, not {request.digest[:12]})."
            )
        result: Json = record["result"]
        return result

    async def commit(self, request: CheckpointRequest) -> Json:
        folder = self.folder(request.model) / "checkpoints" / f"{request.step:04d}"
        store = _store(request.store)
        checkpoint = await asyncio.to_thread(
            commit, store, request.name, request.step, folder, request.config
        )
        return {"files": [file.model_dump() for file in checkpoint.files]}

    async def fetch(self, request: CheckpointRequest) -> Json:
        """Bring a checkpoint here, to be served beside the others."""
        checkpoints = self.folder(request.model) / "checkpoints"
        checkpoints.mkdir(parents=True, exist_ok=True)
        into = checkpoints / f"{request.step:04d}"
        await asyncio.to_thread(restore, _store(request.store), request.name, request.step, into)
        return {}

    async def restore(self, request: CheckpointRequest) -> Json:
        """Bring a checkpoint here as the latest: what was trained after it is forgotten."""
        folder = self.folder(request.model)
        shutil.rmtree(folder / "trained", ignore_errors=True)
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        return await self.fetch(request)

    def folder(self, spec: ModelSpec) -> Path:
        """ART's own layout."""
        return self.path / spec.project / "models" / spec.name

    def _record(self, request: TrainRequest) -> Path:
        return self.folder(request.model) / "trained" / f"{request.step:04d}.json"

    def _model(self, spec: ModelSpec) -> art.TrainableModel[Any, Any]:
        if spec.name not in self.models:
            self.models[spec.name] = art.TrainableModel(
                name=spec.name,
                project=spec.project,
                base_model=spec.base_model,
                base_path=str(self.path),
                report_metrics=[],
                _internal_config=spec.internal_config,  # type: ignore[arg-type]
            )
        return self.models[spec.name]

    def _registered(self, spec: ModelSpec) -> art.TrainableModel[Any, Any]:
        if spec.name not in self.models:
            raise TrainerError(f"The model {spec.name!r} is not registered with this trainer.")
        return self.models[spec.name]


@lru_cache(maxsize=8)
def _store(url: str) -> Store:
    """The store at a URL; its connections are kept for the next checkpoint."""
    return open_store(url)


def _write(path: Path, record: Json) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(record))
    temporary.replace(path)
