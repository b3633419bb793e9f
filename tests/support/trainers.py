"""A trainer's backend that trains nothing, and groups to train it on."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import art
from art.types import TrainResult
from openai.types.chat.chat_completion import Choice

TOKEN = "a-token"


Model = art.TrainableModel[Any, Any]


class CountingBackend:
    """A backend that trains nothing and remembers what it was asked for."""

    completions = ()

    def __init__(self, path: Path) -> None:
        self.path, self.step, self.trained = path, 0, 0
        self.pause = 0.0
        self.inference_url = "http://127.0.0.1:9/v1"
        self.error: Exception | None = None
        self.registered: list[tuple[str, Any]] = []
        self.forgotten: list[str] = []
        self.seen: list[art.TrajectoryGroup] = []
        self.shown: list[art.Trajectory] = []

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
        pass

    async def train(
        self,
        model: Any,
        trajectory_groups: Iterable[art.TrajectoryGroup],
        **kwargs: Any,
    ) -> TrainResult:
        await asyncio.sleep(self.pause)
        if self.error:
            raise self.error
        self.seen, self.trained, self.step = (
            list(trajectory_groups),
            self.trained + 1,
            self.step + 1,
        )
        self._checkpoint(model)
        return TrainResult(self.step, {"loss/train": 0.5, **kwargs})

    async def forget(self, model: Any) -> None:
        self.forgotten.append(model.base_model)

    async def train_sft(
        self,
        model: Any,
        trajectories: Iterable[art.Trajectory],
        *,
        batch_size: int,
        learning_rates: Sequence[float],
    ) -> TrainResult:
        self.shown = list(trajectories)
        self.trained, self.step = self.trained + 1, self.step + 1
        self._checkpoint(model)
        return TrainResult(self.step, {"updates": float(len(learning_rates))})

    async def _train_sft(self, *_: Any) -> AsyncIterator[dict[str, float]]:
        yield {}

    async def close(self) -> None:
        pass

    def _checkpoint(self, model: Model) -> None:
        folder = self.path / model.project / "models" / model.name / "checkpoints"
        (folder / f"{self.step:04d}").mkdir(parents=True, exist_ok=True)
        (folder / f"{self.step:04d}" / "weights").write_text(str(self.step))


def group(*rewards: float) -> art.TrajectoryGroup:
    choice = Choice.model_validate(
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "words"},
            "logprobs": {"content": [{"token": "token_id:3", "logprob": -1.5, "top_logprobs": []}]},
        }
    )
    return art.TrajectoryGroup(
        [
            art.Trajectory(
                messages_and_choices=[{"role": "user", "content": "summarize"}, choice],
                reward=reward,
                metadata={"index": at},
            )
            for at, reward in enumerate(rewards)
        ]
    )
