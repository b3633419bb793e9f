"""ART's LocalBackend on one or two GPUs, as a trainer of ours has to be.

ART tokenizes, computes the loss and runs vLLM's server. What is ours: the number of updates of a
step follows from its samples (`packing`), model and vLLM stay on the GPU together (`service`), Adam
goes with the checkpoint, vLLM listens on the loopback behind a key, a hung training ends the
process, and what is served under a step's name is that step's checkpoint.
"""

import asyncio
import filecmp
import math
import os
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast

import art
import httpx
from art import dev
from art.local import LocalBackend
from art.metrics_taxonomy import (
    TRAIN_GRADIENT_STEPS_KEY,
    average_metric_samples,
    build_training_summary_metrics,
    summarize_trajectory_groups,
)
from art.types import LocalTrainResult, TrainConfig
from art.utils.output_dirs import get_model_dir

from precis.errors import StaleAdapter, TrainerError
from precis.processes.supervisor import end_descendants, need
from precis.records.samples import PREFIX_BREAKS, count_prefix_breaks
from precis.runs.local_checkpoints import folder_of, keep_only, steps_here
from precis.settings.trainer import EngineConfig
from precis.trainer.gpu.packing import Update, count_trained, pack
from precis.trainer.gpu.service import GpuService
from precis.trainer.jobs import watch_steps
from precis.trainer.tokens import count_updates, samples_of, tokenize_demonstrations

_ADAPTER = "adapter_model.safetensors"
_SERVICE = "precis-gpu"
"""The name of the process that holds the GPU. Not ART's `model-service`, which every trainer of
ART's kills on its host when it starts (its issue 396)."""
_NEEDED = (_SERVICE, "VLLM::EngineCor")
"""The processes without which nothing works; Linux keeps 15 characters of a name."""

Model = art.TrainableModel[Any, Any]


class GpuBackend(LocalBackend):
    """LocalBackend with updates of a fixed size and nothing moved between sampling and training.

    Args:
        path: folder for all models.
        seed: of new adapters, and of the order in which samples are learned from.
    """

    completions = ()  # another process answers

    def __init__(self, path: Path, seed: int = 1) -> None:
        os.environ.setdefault("ART_SERVER_TIMEOUT", "600")  # its 30 s are too few for a cold start
        super().__init__(path=str(path))
        self._seed = seed
        self._per_update = 8
        self._endpoints: dict[str, tuple[str, str]] = {}
        self._never = asyncio.Event()

    async def _prepare_backend_for_training(
        self, model: Model, config: dev.OpenAIServerConfig | None = None
    ) -> tuple[str, str]:
        """Start vLLM, unless it runs; by itself it would listen everywhere, with a known key."""
        if model.name not in self._services or model.name not in self._endpoints:
            key = secrets.token_urlsafe(32)
            closed = {
                "host": "127.0.0.1",
                "api_key": key,
                "uvicorn_log_level": "warning",  # a line for each summary would fill the log
            }
            server = cast(dev.OpenAIServerConfig, {"server_args": closed})
            self._endpoints[model.name] = await super()._prepare_backend_for_training(model, server)
            need(_NEEDED)
        # Serve every checkpoint that is here; vLLM starts with the newest alone.
        service: Any = await self._get_service(model)
        served = await self._list_served(model)
        folder = self._folder(model)
        for step in steps_here(folder):
            if self._model_inference_name(model, step) not in served:
                await service.register_lora_for_step(step, str(folder_of(folder, step)))
        await self._check_served(model, await self._get_step(model))
        return self._endpoints[model.name]

    async def train(
        self,
        model: Model,
        trajectory_groups: Iterable[art.TrajectoryGroup],
        *,
        trajectories_per_update: int = 8,
        warmup_steps: int = 0,
        learning_rate: float = 5e-6,
        **options: Any,
    ) -> LocalTrainResult:
        """Train one step.

        Args:
            trajectories_per_update: the optimizer moves once for so many trajectories.
            warmup_steps: the learning rate rises in equal parts over so many steps.
            options: of `art.LocalBackend.train`.

        Raises:
            StaleAdapter: what is served afterwards is not what was trained.
        """
        before = await self._get_step(model)
        self._per_update = trajectories_per_update
        rate = learning_rate * min(1.0, (before + 1) / (warmup_steps + 1))
        result = await super().train(model, trajectory_groups, learning_rate=rate, **options)
        await self._check_served(model, result.step)
        if result.step != before + 1:
            raise TrainerError(
                f"Training step {before} of {model.name} ended at step {result.step}; its log is "
                f"{self._folder(model) / 'logs'}."
            )
        if result.metrics.get(TRAIN_GRADIENT_STEPS_KEY):
            self._check_moved(model, before)
        return result

    async def train_sft(
        self,
        model: Model,
        trajectories: Iterable[art.Trajectory],
        *,
        batch_size: int,
        learning_rates: Sequence[float],
    ) -> LocalTrainResult:
        """Train one step by imitation: token-level cross-entropy of given answers. Raises
        TrainerError if every answer is longer than `engine.tokens_max`, or the chat template can't
        say its tool calls, and StaleAdapter if what is served afterwards is not what was
        trained."""
        step = await self._get_step(model)
        service = await self._get_service(model)
        rates = list(learning_rates)
        updates = await asyncio.to_thread(
            self._sft_updates, model, list(trajectories), batch_size, len(rates)
        )
        known = {
            "data/step_trainer_tokens": float(count_trained(updates)),
            TRAIN_GRADIENT_STEPS_KEY: float(len(updates)),
        }
        seen = []
        training = service.train_sft(step, updates, rates, known)
        async for metrics in watch_steps(training, f"Training step {step} of {model.name}"):
            seen.append(metrics)
        await self._check_served(model, step + 1)
        self._check_moved(model, step)
        folder = str(folder_of(self._folder(model), step + 1))
        return LocalTrainResult(
            step=step + 1, metrics=average_metric_samples(seen), checkpoint_path=folder
        )

    async def forget(self, model: Model) -> None:
        """End the process that holds the GPU for a model; `register` starts another."""
        self._endpoints.pop(model.name, None)
        service: Any = self._services.pop(model.name, None)
        if service is not None:
            from mp_actors import close_proxy

            # By itself ART would leave vLLM's engine behind, with the GPU's memory.
            await asyncio.to_thread(end_descendants, service._process.pid)
            close_proxy(service)

    async def _delete_checkpoint_files(self, model: Model, steps_to_keep: list[int]) -> None:
        keep_only(self._folder(model), steps_to_keep)

    async def _get_service(self, model: Model) -> Any:
        """Return the process that holds the GPU for a model; ART's own would kill those of
        others."""
        if model.name not in self._services:
            from mp_actors import move_to_child_process

            service = GpuService(
                name=model.name,
                base_model=model.base_model,
                folder=self._folder(model),
                engine=_engine(model),
                seed=self._seed,
            )
            self._services[model.name] = move_to_child_process(
                cast(Any, service), process_name=_SERVICE
            )
        return self._services[model.name]

    async def _train_model(
        self,
        model: Model,
        trajectory_groups: list[art.TrajectoryGroup],
        config: TrainConfig,
        dev_config: dev.TrainConfig,
        verbose: bool = False,
    ) -> AsyncIterator[dict[str, float]]:
        service = await self._get_service(model)
        step = await self._get_step(model)
        updates = await asyncio.to_thread(self._updates, model, trajectory_groups, dev_config, step)
        summary = summarize_trajectory_groups(trajectory_groups)
        known = build_training_summary_metrics(summary, include_trainable_groups=True)
        known[TRAIN_GRADIENT_STEPS_KEY] = float(len(updates))
        if not updates:
            await service.repeat(step, known)
            yield known
            return
        known["data/step_trainer_tokens"] = float(count_trained(updates))
        known[PREFIX_BREAKS] = float(count_prefix_breaks(trajectory_groups))
        steps = service.train(step, updates, config, dev_config, known)
        async for metrics in watch_steps(steps, f"Training step {step} of {model.name}"):
            yield metrics

    def _updates(
        self,
        model: Model,
        groups: Sequence[art.TrajectoryGroup],
        dev_config: Mapping[str, Any],
        step: int,
    ) -> list[Update]:
        """Return the updates that the optimizer learns from, in order; none if no advantage differs
        from zero."""
        samples = samples_of(groups, scale_rewards=dev_config["scale_rewards"])
        if not samples:
            return []
        return pack(
            samples,
            updates=count_updates(groups, self._per_update),
            tokens_max=_engine(model).packed_tokens,
            seed=f"{self._seed}/{step}",
        )

    def _sft_updates(
        self, model: Model, trajectories: list[art.Trajectory], batch_size: int, count: int
    ) -> list[Update]:
        """Return so many updates; each demonstration is learned once in each pass."""
        engine = _engine(model)
        known: dict[Any, Any] = self._tokenizers
        if model.base_model not in known:
            from transformers import AutoTokenizer

            known[model.base_model] = AutoTokenizer.from_pretrained(model.base_model)
        shown = tokenize_demonstrations(trajectories, known[model.base_model], engine.tokens_max)
        samples = list(chain.from_iterable(shown))
        updates: list[Update] = []
        while len(updates) < count:
            updates += pack(
                samples,
                updates=math.ceil(len(shown) / batch_size),
                tokens_max=engine.packed_tokens,
                seed=f"{self._seed}/sft/{len(updates)}",
            )
        return updates[:count]

    async def _monitor_openai_server(self, model: Model, base_url: str, api_key: str) -> None:
        """Wait forever: `need` sees at once that vLLM died, where ART asks every half minute."""
        # ART keeps no reference to the task of this: a local event would be collected with it.
        await self._never.wait()

    async def _check_served(self, model: Model, step: int) -> None:
        """Compare the adapter that vLLM has under the step's name with the step's checkpoint. ART
        can continue serving an old one without a word (its issue 661)."""
        name = self._model_inference_name(model, step)
        folder = folder_of(self._folder(model), step)
        root = (await self._list_served(model)).get(name)
        if root is None or Path(root).resolve() != folder.resolve():
            raise StaleAdapter(
                f"vLLM serves {root or 'nothing'} as {name}, not the checkpoint of step {step}."
            )

    async def _list_served(self, model: Model) -> dict[str, str | None]:
        """Return the files of each model that vLLM answers for, by its name."""
        base_url, key = self._endpoints[model.name]
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            reply = await http.get(f"{base_url}/models", headers={"authorization": f"Bearer {key}"})
        reply.raise_for_status()
        return {card["id"]: card.get("root") for card in reply.json()["data"]}

    def _check_moved(self, model: Model, before: int) -> None:
        """Compare the adapter with the one before a training that had something to learn from."""
        folder = self._folder(model)
        old = folder_of(folder, before) / _ADAPTER
        new = folder_of(folder, before + 1) / _ADAPTER
        if filecmp.cmp(old, new, shallow=False):
            raise StaleAdapter(
                f"Training step {before} of {model.name} left the adapter as it was."
            )

    def _folder(self, model: Model) -> Path:
        return Path(get_model_dir(model=model, art_path=self._path))


def _engine(model: Model) -> EngineConfig:
    return EngineConfig.model_validate((model._internal_config or {}).get("engine", {}))
