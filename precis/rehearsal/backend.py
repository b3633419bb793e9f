"""`art.Backend` on the CPU: an embedded policy, its training, checkpoints and endpoint."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from art import Trajectory, TrajectoryGroup, dev
from art.backend import AnyModel, AnyTrainableModel
from art.metrics_taxonomy import (
    TRAIN_GRADIENT_STEPS_KEY,
    average_metric_samples,
    build_training_summary_metrics,
    summarize_trajectory_groups,
)
from art.types import LocalTrainResult
from art.utils.output_dirs import get_model_dir

from precis.errors import TrainerError
from precis.llm.server import completions_app
from precis.processes.kill_points import reached
from precis.records.samples import PREFIX_BREAKS, count_prefix_breaks
from precis.records.warm_start import batches
from precis.rehearsal.checkpoint_files import TrainingState, initial_state, load, save
from precis.rehearsal.endpoint import PolicyEndpoint
from precis.rehearsal.kind import PolicyKind
from precis.rehearsal.train_step import advance, end_imitation, imitate, passes, with_advantages
from precis.runs.local_checkpoints import keep_only, steps_here
from precis.settings.imitation import ImitatesInOnePass
from precis.settings.trainer import EmbeddedTrainer


class EmbeddedBackend(ImitatesInOnePass):
    """An ART backend that trains embedded policies of one kind. Its only state is the checkpoints
    in ART's layout (`{path}/{project}/models/{name}/checkpoints/0001/`)."""

    def __init__(self, kind: PolicyKind, *, path: str | Path, seed: int = 1) -> None:
        self._kind = kind
        self._path = Path(path)
        self._seed = seed
        self._folders: dict[str, Path] = {}
        self._training = asyncio.Lock()
        endpoint = PolicyEndpoint(kind, self._folders)
        self.completions = completions_app(endpoint.complete, endpoint.models).routes

    async def register(self, model: AnyModel) -> None:
        """Create the model's folder, and step 0 in it if it has no checkpoint. Idempotent."""
        folder = Path(get_model_dir(model=model, art_path=str(self._path)))
        if self._folders.setdefault(model.name, folder) != folder:
            raise TrainerError(
                f"A model {model.name!r} of another project is registered already, and both would "
                "be served under one name: give one of them another name."
            )
        model.base_path = str(self._path)
        if not steps_here(folder):
            layout = self._kind.layout
            save(folder, initial_state(layout, self._seed), layout)

    async def close(self) -> None:
        """Do nothing: no process or connection is open."""

    async def train(
        self,
        model: AnyTrainableModel,
        trajectory_groups: Iterable[TrajectoryGroup],
        **options: Any,
    ) -> LocalTrainResult:
        """Train one step of GRPO, and write and serve its checkpoint; independent of the order of
        groups. `options` are those of `EmbeddedTrainer`, for this step. Raises ValidationError for
        an unknown or invalid one, and TrainerError if a trajectory can't be learned from."""
        settings = EmbeddedTrainer.model_validate(options)
        groups = list(trajectory_groups)
        async with self._training:
            trained = self._latest(model)
            seen = []
            kept = advance(trained)
            sampled = []
            for group in groups:
                sampled.append(list(map(self._kind.samples_of, group.trajectories)))
            samples, advantages = with_advantages(sampled, settings.scale_rewards)
            if samples:
                batch = self._kind.batch_of(samples, advantages)
                for after, metrics in passes(trained, batch, settings):
                    kept = after
                    seen.append(metrics)
                    await asyncio.sleep(0)  # lets completions be served between passes
            summary = summarize_trajectory_groups(groups)
            metrics = {
                **average_metric_samples(seen),
                **build_training_summary_metrics(summary, include_trainable_groups=True),
                "data/step_trainer_tokens": self._kind.count_tokens(samples),
                PREFIX_BREAKS: float(count_prefix_breaks(groups)),
                TRAIN_GRADIENT_STEPS_KEY: float(len(seen)),
            }
            return self._keep(model, kept, metrics)

    async def train_sft(
        self,
        model: AnyTrainableModel,
        trajectories: Iterable[Trajectory],
        *,
        batch_size: int,
        learning_rates: Sequence[float],
    ) -> LocalTrainResult:
        """Imitate the picks of given answers, and write and serve the checkpoint. `learning_rates`
        has one rate per update. Raises TrainerError for an answer that the policy can't give."""
        demonstrations = list(map(self._kind.demonstrations_of, trajectories))
        samples = list(chain.from_iterable(demonstrations))
        shown_together = batches(demonstrations, batch_size, self._seed)
        seen = []
        async with self._training:
            trained = self._latest(model)
            for shown, rate in zip(shown_together, learning_rates, strict=False):
                batch = self._kind.batch_of(shown, [1.0] * len(shown))
                trained, metrics = imitate(trained, batch, rate)
                seen.append(metrics)
                await asyncio.sleep(0)  # lets completions be served between updates
            kept = advance(end_imitation(trained))
            metrics = {
                **average_metric_samples(seen),
                "data/step_trainer_tokens": self._kind.count_tokens(samples),
                TRAIN_GRADIENT_STEPS_KEY: float(len(seen)),
            }
            return self._keep(model, kept, metrics)

    def _keep(
        self, model: AnyModel, kept: TrainingState, metrics: dict[str, float]
    ) -> LocalTrainResult:
        reached("before weights saved", kept.step - 1)
        folder = save(self._folder(model), kept, self._kind.layout, metrics)
        reached("weights saved", kept.step - 1)
        return LocalTrainResult(step=kept.step, metrics=metrics, checkpoint_path=str(folder))

    async def forget(self, model: AnyTrainableModel) -> None:
        """Do nothing: the checkpoints on disk are the only state."""

    async def _prepare_backend_for_training(
        self, model: AnyTrainableModel, config: dev.OpenAIServerConfig | None = None
    ) -> tuple[str, str]:
        """Return no address: the trainer server answers completions by our routes."""
        return "", ""

    def _model_inference_name(self, model: AnyModel, step: int | None = None) -> str:
        return f"{model.name}@{self._step(model) if step is None else step}"

    async def _get_step(self, model: AnyTrainableModel) -> int:
        return self._step(model)

    async def _delete_checkpoint_files(
        self, model: AnyTrainableModel, steps_to_keep: list[int]
    ) -> None:
        keep_only(self._folder(model), steps_to_keep)

    def _folder(self, model: AnyModel) -> Path:
        if model.name not in self._folders:
            raise TrainerError(
                f"The model {model.name!r} is not registered: call model.register(backend) first."
            )
        return self._folders[model.name]

    def _step(self, model: AnyModel) -> int:
        return max(steps_here(self._folder(model)), default=0)

    def _latest(self, model: AnyModel) -> TrainingState:
        return load(self._folder(model), self._step(model), self._kind.layout)
