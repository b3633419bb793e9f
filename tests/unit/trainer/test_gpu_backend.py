"""The backend for a GPU, over a stand-in for ART's LocalBackend, which needs one to be imported.

That the stand-in's methods are the real one's shows where `tests/gpu/flow` runs on a GPU.
"""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import art
import numpy as np
import pytest
from art.types import LocalTrainResult, TrainConfig
from fastapi import FastAPI, HTTPException, Request

from precis.errors import StaleAdapter, TrainerError
from precis.trainer import jobs
from tests.support.local_server import serving
from tests.support.tokenizers import Tokenizer

ADAPTER = "adapter_model.safetensors"
GPU = "precis.trainer.gpu.backend"


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


class Service:
    """What holds the GPU, without a GPU: an update writes nothing, a step writes given weights."""

    def __init__(self, backend: "LocalBackend", model: Any) -> None:
        self.backend, self.model = backend, model
        self.weights = iter([b"one", b"two"])
        self.reloads = True
        self.fails: Exception | None = None
        self.asked: list[tuple[Any, ...]] = []

    async def register_lora_for_step(self, step: int, folder: str) -> None:
        self.backend.vllm.served[f"{self.model.name}@{step}"] = folder

    async def train(
        self, step: int, updates: list[Any], *given: Any
    ) -> AsyncIterator[dict[str, float]]:
        *options, known = given
        self.asked.append((step, updates, *options))
        for number in range(len(updates)):
            yield {**known, "loss/train": 1.0 / (number + 1)}
        if self.fails is not None:
            raise self.fails
        await self._write(step + 1, next(self.weights))

    train_sft = train

    async def repeat(self, step: int, metrics: dict[str, float]) -> None:
        before = self.backend.checkpoints(self.model) / f"{step:04d}"
        await self._write(step + 1, (before / ADAPTER).read_bytes())

    async def _write(self, step: int, weights: bytes) -> None:
        folder = self.backend.checkpoints(self.model) / f"{step:04d}"
        write(folder, weights)
        if self.reloads:
            await self.register_lora_for_step(step, str(folder))


class LocalBackend:
    """ART's, without its GPU."""

    def __init__(self, *, path: str) -> None:
        self._path, self.vllm = path, Vllm()
        self._services: dict[str, Any] = {}
        self._tokenizers: dict[str, Any] = {}

    def _model_inference_name(self, model: Any, step: int) -> str:
        return f"{model.name}@{step}"

    async def _get_step(self, model: Any) -> int:
        return max(int(one.name) for one in self.checkpoints(model).glob("*"))

    async def _prepare_backend_for_training(self, model: Any, config: Any) -> tuple[str, str]:
        self.vllm.args = config["server_args"]
        step = await self._get_step(model)
        self.vllm.served[f"{model.name}@{step}"] = str(self.checkpoints(model) / f"{step:04d}")
        return self.vllm.url, self.vllm.args["api_key"]

    async def train(
        self, model: Any, groups: Any, *, learning_rate: float, **options: Any
    ) -> LocalTrainResult:
        config = TrainConfig(learning_rate=learning_rate)
        dev_config: Any = {"scale_rewards": True, **options}
        backend: Any = self
        seen = [one async for one in backend._train_model(model, groups, config, dev_config)]
        return LocalTrainResult(step=await self._get_step(model), metrics=seen[-1])

    def checkpoints(self, model: Any) -> Path:
        return Path(self._path, model.project, "models", model.name, "checkpoints")


def write(folder: Path, weights: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / ADAPTER).write_bytes(weights)


@pytest.fixture
async def unready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A backend of ours over the stand-in, whose model has the untrained checkpoint."""
    stand_in = ModuleType("art.local")
    stand_in.LocalBackend = LocalBackend  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "art.local", stand_in)
    monkeypatch.delitem(sys.modules, GPU, raising=False)
    from precis.trainer.gpu.backend import GpuBackend

    backend: Any = GpuBackend(tmp_path)
    write(backend.checkpoints(MODEL) / "0000", b"untrained")
    backend._services[MODEL.name] = Service(backend, MODEL)
    backend._tokenizers[MODEL.base_model] = Tokenizer()
    monkeypatch.setattr(backend, "_updates", lambda *_: backend.updates)
    backend.updates = [[SimpleNamespace(trained=np.ones(3, dtype=bool))]] * 2
    async with serving(backend.vllm.app()) as url:
        backend.vllm.url = f"{url}/v1"
        yield backend
    sys.modules.pop(GPU, None)


@pytest.fixture
async def backend(unready: Any) -> Any:
    await unready._prepare_backend_for_training(MODEL, None)
    return unready


MODEL: art.TrainableModel[Any, Any] = art.TrainableModel(
    name="m", project="p", base_model="b", report_metrics=[]
)
NO_GROUPS: list[art.TrajectoryGroup] = []


async def test_vllm_listens_on_the_loopback_behind_a_key_and_serves_all(unready: Any) -> None:
    write(unready.checkpoints(MODEL) / "0004", b"later")
    url, key = await unready._prepare_backend_for_training(MODEL, None)
    assert unready.vllm.args["host"] == "127.0.0.1"
    assert unready.vllm.args["api_key"] == key
    assert len(key) > 30
    assert set(unready.vllm.served) == {"m@0", "m@4"}
    assert await unready._prepare_backend_for_training(MODEL, None) == (url, key)


async def test_arts_monitor_of_vllm_lasts_without_a_reference(backend: Any) -> None:
    asyncio.create_task(backend._monitor_openai_server(MODEL, "", "")).set_name("monitor")
    await asyncio.sleep(0)
    gc.collect()
    monitors = [task for task in asyncio.all_tasks() if task.get_name() == "monitor"]
    assert len(monitors) == 1, "it was collected, and asyncio logs an error"
    monitors[0].cancel()


async def test_its_process_has_another_name(unready: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that starts runs `pkill -9 model-service`, for whatever is on its host."""
    names: list[str] = []
    actors = ModuleType("mp_actors")
    actors.move_to_child_process = (  # type: ignore[attr-defined]
        lambda _, process_name="model-service": names.append(process_name)
    )
    monkeypatch.setitem(sys.modules, "mp_actors", actors)
    unready._services.clear()
    await unready._get_service(MODEL)
    (name,) = names
    assert "model-service" not in name


async def test_training_has_its_metrics_and_its_rate_rises(backend: Any) -> None:
    for step in range(2):
        result = await backend.train(MODEL, NO_GROUPS, learning_rate=4e-5, warmup_steps=3)
        assert result.step == step + 1
        assert result.metrics["loss/train"] == 0.5
        assert result.metrics["data/step_num_gradient_steps"] == 2
    asked = backend._services[MODEL.name].asked
    assert [round(config.learning_rate, 9) for _, _, config, _ in asked] == [1e-5, 2e-5]


async def test_a_step_without_anything_to_learn_from_is_a_copy(backend: Any) -> None:
    backend.updates = []
    assert (await backend.train(MODEL, NO_GROUPS)).step == 1
    assert (backend.checkpoints(MODEL) / "0001" / ADAPTER).read_bytes() == b"untrained"


@pytest.mark.parametrize("imitates", [False, True])
@pytest.mark.parametrize(
    ("reloads", "weights", "said"),
    [(False, b"trained", "serves nothing as m@1"), (True, b"untrained", "the adapter as it was")],
)
async def test_an_adapter_that_vllm_did_not_take_or_training_left_as_it_was_is_noticed(
    reloads: bool, weights: bytes, said: str, imitates: bool, backend: Any
) -> None:
    service = backend._services[MODEL.name]
    service.reloads, service.weights = reloads, iter([weights])
    with pytest.raises(StaleAdapter, match=said):
        if imitates:
            await backend.train_sft(MODEL, demonstrations(1), batch_size=1, learning_rates=[0.1])
        else:
            await backend.train(MODEL, NO_GROUPS)


async def test_a_failed_training_ends_it(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter in memory has moved by a part of the step: nothing may go on from it."""
    ended: list[str] = []
    monkeypatch.setattr(jobs, "end_after_answer", ended.append)
    backend._services[MODEL.name].fails = RuntimeError("CUDA out of memory")
    with pytest.raises(RuntimeError, match="out of memory"):
        await backend.train(MODEL, NO_GROUPS)
    assert ended == ["Training step 0 of m failed (CUDA out of memory)"]


async def test_imitation_goes_through_answers_for_every_rate(backend: Any) -> None:
    result = await backend.train_sft(
        MODEL, demonstrations(3), batch_size=2, learning_rates=[0.3, 0.2, 0.1]
    )
    ((step, updates, rates),) = backend._services[MODEL.name].asked
    assert (step, rates) == (0, [0.3, 0.2, 0.1])
    assert len(updates) == 3
    assert result.step == 1
    assert result.metrics["loss/train"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    learned = [sequence.trained.sum() for update in updates[:2] for sequence in update]
    assert sum(learned) == sum(len("answer 0") + 1 for _ in range(3)), "one pass has each once"


async def test_answers_that_are_all_too_long_are_refused(backend: Any) -> None:
    long = demonstrations(1, "y" * 5000)
    with pytest.raises(TrainerError, match="more than 4096 tokens"):
        await backend.train_sft(MODEL, long, batch_size=2, learning_rates=[0.1])


def demonstrations(count: int, answer: str = "answer") -> list[art.Trajectory]:
    made = []
    for number in range(count):
        messages: Any = [
            {"role": "user", "content": f"document {number}"},
            {"role": "assistant", "content": f"{answer} {number}"},
        ]
        made.append(art.Trajectory(messages_and_choices=messages))
    return made
