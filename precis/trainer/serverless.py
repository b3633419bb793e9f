"""W&B's serverless training (ART's ServerlessBackend), as a trainer of ours has to be.

The weights stay with W&B, which trains and serves them. A copy of each checkpoint comes here, so
that it is committed, verified and compared like any other.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import art
from art.serverless.backend import ServerlessBackend
from art.types import ServerlessTrainResult
from art.utils.output_dirs import get_model_dir

from precis.environment import Variables
from precis.errors import ConfigError, TrainerError
from precis.runs.local_checkpoints import folder_of, keep_only, steps_here, write_checkpoint
from precis.trainer.journal import Journal

Model = art.TrainableModel[Any, Any]


class WandbBackend(ServerlessBackend):
    """ServerlessBackend with copies of its checkpoints, in ART's layout."""

    completions = ()  # W&B answers

    def __init__(self, path: Path, api_key: str, base_url: str | None = None) -> None:
        super().__init__(api_key=api_key, base_url=base_url)
        self._path = path

    async def register(self, model: art.Model[Any, Any]) -> None:
        """Register the model; to train it, have W&B's newest checkpoint be the newest that is here.

        A trainer that only serves, a benchmark's, changes nothing at W&B. A TrainerError says that
        W&B holds another model of this name, or lacks the checkpoint to continue from.
        """
        await super().register(model)
        model.base_path = str(self._path)
        assert isinstance(model, art.TrainableModel)
        folder = self._folder(model)
        if not steps_here(folder):
            untrained = json.dumps({"base_model": model.base_model})

            def write(into: Path) -> None:
                (into / "untrained.json").write_text(untrained)

            write_checkpoint(folder_of(folder, 0), write, {})
        if Journal(folder).run:
            newest = max(steps_here(folder))
            held = await self._held(model)
            later = [step for step in held if step > newest]
            if newest == 0 and len(later) > 1:
                raise TrainerError(
                    f"W&B holds a model {model.name!r} that was trained to step {max(later)} "
                    "already.",
                    "Train under another model name, or delete that one.",
                )
            await self._delete_later(model)  # trained, and never committed
            if newest and newest not in held:
                raise TrainerError(
                    f"W&B lacks checkpoint {newest} of {model.name!r}, and takes none from "
                    "elsewhere.",
                    "Go back to a step that it has with `precis runs restart`.",
                )

    async def train(
        self,
        model: Model,
        trajectory_groups: Iterable[art.TrajectoryGroup],
        **options: Any,
    ) -> ServerlessTrainResult:
        """Train a step at W&B by the options of `ServerlessBackend.train`, and copy its checkpoint
        here. Where that fails, W&B trains the step again at the next try."""
        await self._delete_later(model)
        result = await super().train(model, trajectory_groups, **options)
        step = await super()._get_step(model)
        folder = folder_of(self._folder(model), step)
        pull = partial(self._pull, model, step)
        await asyncio.to_thread(write_checkpoint, folder, pull, result.metrics)
        return replace(result, step=step)

    async def train_sft(
        self, model: Model, trajectories: Iterable[art.Trajectory], **options: Any
    ) -> ServerlessTrainResult:
        """Not there: no setting leads here."""
        raise TrainerError(
            "W&B's serverless trainer imitates nothing here.", "Train without warm_start."
        )

    async def forget(self, model: Model) -> None:
        """Do nothing: no model is in memory, and `register` asks W&B."""

    async def _get_step(self, model: Any) -> int:
        """Return the newest checkpoint that is here: W&B may have trained one that did not come."""
        return max(steps_here(self._folder(model)), default=0)

    async def _held(self, model: Model) -> list[int]:
        """Return the steps of the checkpoints that W&B has."""
        listed = self._client.models.checkpoints.list(model_id=model.id or "")
        return [one.step async for one in listed]

    async def _delete_later(self, model: Model) -> None:
        """Have W&B drop what it has beyond the newest checkpoint that is here."""
        newest = max(steps_here(self._folder(model)))
        later = [step for step in await self._held(model) if step > newest]
        if later:
            await self._client.models.checkpoints.delete(model_id=model.id or "", steps=later)

    async def _prepare_backend_for_training(self, model: Any, config: Any) -> tuple[str, str]:
        base_url, api_key = await super()._prepare_backend_for_training(model, config)
        return base_url.rstrip("/"), api_key

    async def _delete_checkpoint_files(self, model: Any, steps_to_keep: list[int]) -> None:
        """Drop copies; W&B keeps its own, which it serves."""
        keep_only(self._folder(model), steps_to_keep)

    def _pull(self, model: Model, step: int, into: Path) -> None:
        """Download a checkpoint; W&B's client blocks meanwhile."""
        pulling = self._experimental_pull_model_checkpoint(model, step=step, local_path=str(into))
        asyncio.run(pulling)

    def _folder(self, model: art.Model[Any, Any]) -> Path:
        return Path(get_model_dir(model=model, art_path=str(self._path)))


def open_wandb(path: Path) -> WandbBackend:
    """Return the backend of the W&B account whose key is in the environment; a ConfigError says
    that there is no key."""
    key = Variables().wandb_api_key
    if key is None:
        raise ConfigError("Serverless training needs WANDB_API_KEY: set it, here or in .env.")
    return WandbBackend(path, key.get_secret_value())
