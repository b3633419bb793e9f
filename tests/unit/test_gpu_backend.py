"""The backend for a GPU, over a stand-in for ART's LocalBackend, which needs one to be imported.

That the stand-in's methods are the real one's is checked in `tests/services/test_gpu_packages.py`.
"""

import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import art
import pytest
from art.types import LocalTrainResult
from fastapi import FastAPI, HTTPException, Request

from precis.errors import StaleAdapter
from precis.extractive.serving import LoopServer

GPU = "precis.trainer.gpu"


class Vllm:
    """What vLLM answers for: each adapter's name and folder."""

    def __init__(self) -> None:
        self.served: dict[str, str] = {}
        self.args: dict[str, Any] = {}
        self.url = ""

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/v1/models")
        async def models(request: Request) -> dict[str, Any]:
            if request.headers["authorization"] != f"Bearer {self.args['api_key']}":
                raise HTTPException(401)
            return {"data": [{"id": name, "root": root} for name, root in self.served.items()]}

        return app


class LocalBackend:
    """ART's, without its GPU: training writes a checkpoint of a given content."""

    reloads = True

    def __init__(self, *, path: str) -> None:
        self._path, self.vllm, self.weights = path, Vllm(), iter([b"one", b"two"])
        self._services: dict[str, Any] = {}

    async def _get_service(self, model: Any) -> Any:
        async def register_lora_for_step(step: int, folder: str) -> None:
            self.vllm.served[f"{model.name}@{step}"] = folder

        return SimpleNamespace(register_lora_for_step=register_lora_for_step)

    def _model_inference_name(self, model: Any, step: int) -> str:
        return f"{model.name}@{step}"

    async def _get_step(self, model: Any) -> int:
        return max(int(one.name) for one in self.checkpoints(model).glob("*"))

    async def _prepare_backend_for_training(self, model: Any, config: Any) -> tuple[str, str]:
        self._services[model.name] = True
        self.vllm.args = config["server_args"]
        step = await self._get_step(model)
        self.vllm.served[f"{model.name}@{step}"] = str(self.checkpoints(model) / f"{step:04d}")
        return self.vllm.url, self.vllm.args["api_key"]

    async def train(self, model: Any, groups: Any, **options: float) -> LocalTrainResult:
        seen = [one async for one in self._train_model(model, groups, None, None)]
        return LocalTrainResult(step=await self._get_step(model), metrics=seen[-1])

    async def _train_model(self, model: Any, *_: Any) -> AsyncIterator[dict[str, float]]:
        step = await self._get_step(model) + 1
        yield {"loss/train": 1.0, "data/step_num_groups_trainable": 2.0}
        write(self.checkpoints(model) / f"{step:04d}", next(self.weights))
        if self.reloads:
            self.vllm.served[f"{model.name}@{step}"] = str(self.checkpoints(model) / f"{step:04d}")
        yield {"loss/train": 0.5, "data/step_num_groups_trainable": 2.0}

    def checkpoints(self, model: Any) -> Path:
        return Path(self._path, model.project, "models", model.name, "checkpoints")


def write(folder: Path, weights: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / "adapter_model.safetensors").write_bytes(weights)


@asynccontextmanager
async def backend_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A backend of ours over the stand-in, whose model has the untrained checkpoint."""
    stand_in = ModuleType("art.local")
    stand_in.LocalBackend = LocalBackend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "art.local", stand_in)
    monkeypatch.delitem(sys.modules, GPU, raising=False)
    from precis.trainer.gpu import GpuBackend

    backend: Any = GpuBackend(path)
    write(backend.checkpoints(MODEL) / "0000", b"untrained")
    server = LoopServer(backend.vllm.app())
    await server.start()
    backend.vllm.url = f"http://127.0.0.1:{server.port}/v1"
    try:
        yield backend
    finally:
        await server.stop()
        sys.modules.pop(GPU, None)


MODEL: art.TrainableModel[Any, Any] = art.TrainableModel(
    name="m", project="p", base_model="b", report_metrics=[]
)


async def test_vllm_listens_on_the_loopback_behind_a_key_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backend_at(tmp_path, monkeypatch) as backend:
        _, key = await backend._prepare_backend_for_training(MODEL, None)
        assert backend.vllm.args["host"] == "127.0.0.1"
        assert backend.vllm.args["api_key"] == key
        assert len(key) > 30
        assert await backend._prepare_backend_for_training(MODEL, None) == (backend.vllm.url, key)


async def test_every_checkpoint_that_is_there_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backend_at(tmp_path, monkeypatch) as backend:
        write(backend.checkpoints(MODEL) / "0004", b"later")
        await backend._prepare_backend_for_training(MODEL, None)
        assert set(backend.vllm.served) == {"m@0", "m@4"}


async def test_training_tells_of_its_progress_and_ends_a_step_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, float]] = []
    async with backend_at(tmp_path, monkeypatch) as backend:
        await backend._prepare_backend_for_training(MODEL, None)
        result = await backend.train(MODEL, no_groups(), seen.append, learning_rate=1e-5)
    assert result.step == 1
    assert [one["loss/train"] for one in seen] == [1.0, 0.5]


async def test_an_adapter_that_vllm_did_not_take_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backend_at(tmp_path, monkeypatch) as backend:
        await backend._prepare_backend_for_training(MODEL, None)
        backend.reloads = False
        with pytest.raises(StaleAdapter, match="serves nothing as m@1"):
            await backend.train(MODEL, no_groups())


async def test_an_adapter_that_training_left_as_it_was_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with backend_at(tmp_path, monkeypatch) as backend:
        await backend._prepare_backend_for_training(MODEL, None)
        backend.weights = iter([b"untrained"])
        with pytest.raises(StaleAdapter, match="left the adapter as it was"):
            await backend.train(MODEL, no_groups())


def no_groups() -> Iterable[art.TrajectoryGroup]:
    return []
