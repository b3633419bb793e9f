"""The Tinker API as a trainer of ours has to be."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

import art
from art import dev
from art.metrics_taxonomy import (
    TRAIN_GRADIENT_STEPS_KEY,
    build_training_summary_metrics,
    summarize_trajectory_groups,
)
from art.types import LocalTrainResult
from art.utils.output_dirs import get_model_dir

from precis.llm.server import completions_app
from precis.records.samples import PREFIX_BREAKS, count_prefix_breaks
from precis.runs.local_checkpoints import keep_only, steps_here
from precis.settings.imitation import ImitatesInOnePass
from precis.settings.tinker import TinkerTrainer
from precis.trainer.tinker.data import Update, make_imitations, make_updates
from precis.trainer.tinker.endpoint import TinkerEndpoint
from precis.trainer.tinker.model import TinkerModel
from precis.trainer.tinker.service import find_service
from precis.trainer.tinker.tokenizer import load_tokenizer
from precis.trainer.tokens import count_updates, samples_of, tokenize_demonstrations

Model = art.TrainableModel[Any, Any]


class TinkerBackend(ImitatesInOnePass):
    """Trains and samples at a service that speaks the Tinker API. The seed is of untrained
    adapters, and of the order in which samples are learned from."""

    def __init__(self, path: Path, seed: int = 1) -> None:
        self._path = path
        self._seed = seed
        self._models: dict[str, TinkerModel] = {}
        self._training = asyncio.Lock()
        endpoint = TinkerEndpoint(self._models)
        self.completions = completions_app(endpoint.complete, endpoint.list_models).routes

    async def register(self, model: art.Model[Any, Any]) -> None:
        """Have the service begin the model, unless a checkpoint is here; idempotent. A ConfigError
        says that key or tokenizer is missing, or refused."""
        assert isinstance(model, art.TrainableModel)
        model.base_path = str(self._path)
        settings = _settings_of(model)
        held = self._models.get(model.name)
        if held is None or held.settings != settings:
            tokenizer = await asyncio.to_thread(
                load_tokenizer, settings.tokenizer or settings.base_model
            )
            folder = Path(get_model_dir(model=model, art_path=str(self._path)))
            self._models[model.name] = TinkerModel(
                folder, settings, find_service(settings), tokenizer, self._seed
            )
        if not steps_here(self._models[model.name].folder):
            await self._models[model.name].begin()

    async def close(self) -> None:
        for model in self._models.values():
            await model.leave()

    async def train(
        self,
        model: Model,
        trajectory_groups: Iterable[art.TrajectoryGroup],
        **options: Any,
    ) -> LocalTrainResult:
        """Train one step; options are settings of `TinkerTrainer` that replace the model's.

        Raises TrainerError where the service refuses it, and TrainerLost where something was lost
        on the way: the step is then as if it had not begun.
        """
        groups = list(trajectory_groups)
        known = build_training_summary_metrics(
            summarize_trajectory_groups(groups), include_trainable_groups=True
        )
        async with self._training:
            trained = self._models[model.name]
            how = _settings_of(model, options)
            samples = samples_of(groups, scale_rewards=how.scale_rewards)
            if not samples:
                return await trained.repeat(known)
            count = count_updates(groups, how.trajectories_per_update)
            order = f"{self._seed}/{trained.step}"
            updates = make_updates(samples, count, order)
            rates = [how.learning_rate] * len(updates)
            known |= _sizes(updates)
            known[PREFIX_BREAKS] = float(count_prefix_breaks(groups))
            return await trained.learn(updates, rates, known)

    async def train_sft(
        self,
        model: Model,
        trajectories: Iterable[art.Trajectory],
        *,
        batch_size: int,
        learning_rates: Sequence[float],
    ) -> LocalTrainResult:
        """Train one step by imitation: token-level cross-entropy of given answers. Raises
        TrainerError where every answer is longer than `trainer.tokens_max`."""
        async with self._training:
            trained = self._models[model.name]
            longest = trained.settings.tokens_max
            demonstrations = tokenize_demonstrations(trajectories, trained.tokenizer, longest)
            endless = make_imitations(demonstrations, batch_size, f"{self._seed}/sft")
            updates = list(islice(endless, len(learning_rates)))
            return await trained.learn(updates, learning_rates, _sizes(updates), imitates=True)

    async def forget(self, model: Model) -> None:
        """Leave the session, in which the service has what its files were replaced of."""
        held = self._models.get(model.name)
        if held is not None:  # the service may have refused to begin it
            await held.leave()

    async def _prepare_backend_for_training(
        self, model: Model, config: dev.OpenAIServerConfig | None = None
    ) -> tuple[str, str]:
        """Return no address: the trainer server answers completions by our routes."""
        return "", ""

    def _model_inference_name(self, model: art.Model[Any, Any], step: int | None = None) -> str:
        return f"{model.name}@{self._models[model.name].step if step is None else step}"

    async def _get_step(self, model: Model) -> int:
        return self._models[model.name].step

    async def _delete_checkpoint_files(self, model: Model, steps_to_keep: list[int]) -> None:
        """Drop a step's local files; the service keeps its weights for `keep_days`, or for good."""
        await asyncio.to_thread(keep_only, self._models[model.name].folder, steps_to_keep)


def _settings_of(model: Model, options: Mapping[str, Any] | None = None) -> TinkerTrainer:
    """Return the settings that a model came with, and those that are given for a step."""
    section: Mapping[str, Any] = cast(Any, model._internal_config or {}).get("tinker", {})
    given = {**section, **(options or {}), "base_model": model.base_model}
    return TinkerTrainer.model_validate(given)


def _sizes(updates: Sequence[Update]) -> dict[str, float]:
    samples = chain.from_iterable(update.samples for update in updates)
    return {
        "data/step_trainer_tokens": float(sum(sample.trained for sample in samples)),
        TRAIN_GRADIENT_STEPS_KEY: float(len(updates)),
    }
