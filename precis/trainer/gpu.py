"""ART's LocalBackend (vLLM and Unsloth on one GPU), as a trainer of ours has to be.

What it adds: vLLM listens on the loopback behind a key, training tells of its progress, a hung
training ends the process, and what is served under a step's name is that step's checkpoint.
"""

import os
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from hashlib import file_digest
from pathlib import Path
from typing import Any, cast

import art
import httpx
from art import dev
from art.local import LocalBackend
from art.types import LocalTrainResult, TrainConfig
from art.utils.output_dirs import get_model_dir, get_step_checkpoint_dir

from precis.errors import StaleAdapter, TrainerError
from precis.trainer.watchdog import STALL_S, end_process, watched

_ADAPTER = "adapter_model.safetensors"

Model = art.TrainableModel[Any, Any]
Progress = Callable[[dict[str, float]], None]


class GpuBackend(LocalBackend):
    """LocalBackend with a closed endpoint, progress, a watchdog and a check of what it serves.

    Args:
        path: folder for all models.
    """

    def __init__(self, path: Path) -> None:
        os.environ.setdefault("ART_SERVER_TIMEOUT", "600")  # its 30 s are too few for a cold start
        super().__init__(path=str(path))
        self._progress: Progress = lambda _: None
        self._endpoints: dict[str, tuple[str, str]] = {}

    async def _prepare_backend_for_training(
        self, model: Model, config: dev.OpenAIServerConfig | None = None
    ) -> tuple[str, str]:
        """Start vLLM, unless it runs; by itself it would listen everywhere, with a known key."""
        if model.name not in self._services or model.name not in self._endpoints:
            key = secrets.token_urlsafe(32)
            closed = {"host": "127.0.0.1", "port": _free_port(), "api_key": key}
            server = cast(dev.OpenAIServerConfig, {"server_args": closed})
            self._endpoints[model.name] = await super()._prepare_backend_for_training(model, server)
        await self._serve_all(model)
        return self._endpoints[model.name]

    async def train(
        self,
        model: Model,
        trajectory_groups: Iterable[art.TrajectoryGroup],
        on_progress: Progress = lambda _: None,
        **options: Any,
    ) -> LocalTrainResult:
        """Train one step.

        Args:
            on_progress: told the metrics of each gradient step.
            options: of `art.LocalBackend.train`.

        Raises:
            StaleAdapter: what is served afterwards is not what was trained.
        """
        before = await self._get_step(model)
        self._progress = on_progress
        result = await super().train(model, trajectory_groups, **options)
        await self._check_served(model, result.step)
        if result.step != before + 1:
            raise TrainerError(
                f"Training step {before} of {model.name} ended at step {result.step}; its log is "
                f"{self._folder(model) / 'logs'}."
            )
        if result.metrics.get("data/step_num_groups_trainable") and not self._moved(model, before):
            raise StaleAdapter(
                f"Training step {before} of {model.name} left the adapter as it was, although "
                "there were groups to learn from."
            )
        return result

    async def _train_model(
        self,
        model: Model,
        trajectory_groups: list[art.TrajectoryGroup],
        config: TrainConfig,
        dev_config: dev.TrainConfig,
        verbose: bool = False,
    ) -> AsyncIterator[dict[str, float]]:
        gradient_steps = super()._train_model(model, trajectory_groups, config, dev_config, verbose)
        async for metrics in watched(gradient_steps, STALL_S, end_process):
            self._progress(metrics)
            yield metrics

    async def forget(self, model: Model) -> None:
        """Drop what is in memory of a model whose files were replaced; `register` starts anew."""
        self._endpoints.pop(model.name, None)
        if (service := self._services.pop(model.name, None)) is not None:
            from mp_actors import close_proxy

            close_proxy(service)

    async def _serve_all(self, model: Model) -> None:
        """Serve every checkpoint that is here; vLLM starts with the newest alone."""
        service: Any = await self._get_service(model)
        served = await self._served(model)
        for folder in sorted((self._folder(model) / "checkpoints").glob("[0-9]*")):
            if self._model_inference_name(model, int(folder.name)) not in served:
                await service.register_lora_for_step(int(folder.name), str(folder))
        await self._check_served(model, await self._get_step(model))

    async def _check_served(self, model: Model, step: int) -> None:
        """Compare the adapter that vLLM has under the step's name with the step's checkpoint.

        ART can go on serving an old one without a word (its issue 661).
        """
        name = self._model_inference_name(model, step)
        folder = get_step_checkpoint_dir(str(self._folder(model)), step)
        root = (await self._served(model)).get(name)
        if root is None or Path(root).resolve() != Path(folder).resolve():
            raise StaleAdapter(
                f"vLLM serves {root or 'nothing'} as {name}, not the checkpoint of step {step}."
            )

    async def _served(self, model: Model) -> dict[str, str | None]:
        """The files of each model that vLLM answers for, by its name."""
        base_url, key = self._endpoints[model.name]
        async with httpx.AsyncClient(timeout=60) as http:
            reply = await http.get(f"{base_url}/models", headers={"authorization": f"Bearer {key}"})
        reply.raise_for_status()
        return {card["id"]: card.get("root") for card in reply.json()["data"]}

    def _moved(self, model: Model, before: int) -> bool:
        """Whether training changed the adapter."""
        folders = (
            Path(get_step_checkpoint_dir(str(self._folder(model)), step))
            for step in (before, before + 1)
        )
        old, new = (_digest(folder / _ADAPTER) for folder in folders)
        return old != new

    def _folder(self, model: Model) -> Path:
        return Path(get_model_dir(model=model, art_path=self._path))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
