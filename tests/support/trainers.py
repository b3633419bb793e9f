"""A trainer's backend that trains nothing, and groups to train it on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import art
import openai
from art.types import TrainResult
from openai.types.chat.chat_completion import ChatCompletion, Choice

from precis.llm.connections import tls_for
from precis.runs.local_checkpoints import folder_of
from precis.trainer.backend import TrainerBackend
from precis.trainer.client import RemoteTrainer
from precis.trainer.server import trainer_app
from tests.support.local_server import serving

TOKEN = "a-token"

Model = art.TrainableModel[Any, Any]


class CountingBackend:
    """A backend that trains nothing and remembers what it was asked for."""

    completions = ()

    def __init__(self, path: Path) -> None:
        self.path, self.step, self.trained = path, 0, 0
        self.begun = 0
        self.may_train = asyncio.Event()
        self.may_train.set()
        self.inference_url = "http://127.0.0.1:9/v1"
        self.registered: list[tuple[str, Any]] = []
        self.forgotten: list[str] = []
        self.kept: list[int] = []

    async def register(self, model: Any) -> None:
        self.registered.append((model.base_model, model._internal_config))
        self._checkpoint(model)

    async def _prepare_backend_for_training(self, model: Any, config: Any) -> tuple[str, str]:
        return self.inference_url, "inner"

    def _model_inference_name(self, model: Any, step: int | None = None) -> str:
        return f"{model.name}@{self.step if step is None else step}"

    async def _get_step(self, model: Any) -> int:
        return self.step

    async def _delete_checkpoint_files(self, model: Any, steps_to_keep: list[int]) -> None:
        self.kept = steps_to_keep

    async def train(self, model: Any, trajectory_groups: Any, **kwargs: Any) -> TrainResult:
        self.begun += 1
        await self.may_train.wait()
        self.trained, self.step = self.trained + 1, self.step + 1
        self._checkpoint(model)
        return TrainResult(self.step, {"loss/train": 0.5, **kwargs})

    async def forget(self, model: Any) -> None:
        self.forgotten.append(model.base_model)

    async def train_sft(self, model: Any, trajectories: Any, **kwargs: Any) -> TrainResult:
        return await self.train(model, [], **kwargs)

    async def _train_sft(self, *_: Any) -> AsyncIterator[dict[str, float]]:
        yield {}

    async def close(self) -> None:
        pass

    def _checkpoint(self, model: Model) -> None:
        folder = folder_of(self.path / model.project / "models" / model.name, self.step)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "weights").write_text(str(self.step))


@dataclass
class Trained:
    """A model, and the trainer that trains its steps on groups with given rewards."""

    trainer: RemoteTrainer
    model: Model

    async def begin(self, run: str = "a-run") -> None:
        await self.trainer.begin(self.model, run)
        await self.model.register(self.trainer)

    async def train(self, *rewards: float, step: int = 0, **options: Any) -> TrainResult:
        return await self.trainer.train(self.model, [group(*rewards)], step=step, **options)


@asynccontextmanager
async def trainer_of(backend: TrainerBackend, folder: Path) -> AsyncIterator[RemoteTrainer]:
    """A client of a backend over HTTP; both have their files in a folder."""
    async with serving(trainer_app(backend, folder / "trainer", TOKEN)) as url:
        client = RemoteTrainer(url, TOKEN, folder / "art")
        yield client
        await client.close()
    await backend.close()


async def complete(served: Model, /, **request: Any) -> ChatCompletion:
    """One answer of what a trainer serves, by OpenAI's client."""
    url = str(served.inference_base_url)
    async with openai.AsyncOpenAI(
        base_url=url,
        api_key=served.inference_api_key,
        http_client=openai.DefaultAsyncHttpxClient(verify=tls_for(url)),
    ) as client:
        answer: ChatCompletion = await client.chat.completions.create(**request)
    return answer


def group(*rewards: float) -> art.TrajectoryGroup:
    choice = Choice.model_validate(
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "words"},
            "logprobs": {"content": [{"token": "token_id:3", "logprob": -1.5, "top_logprobs": []}]},
        }
    )
    messages: list[Any] = [{"role": "user", "content": "summarize"}, choice]
    trajectories = [art.Trajectory(messages_and_choices=messages, reward=one) for one in rewards]
    return art.TrajectoryGroup(trajectories)
