"""A session with the service, and what was opened in it: models to train, weights to sample from.

Once anything of it is lost, all of it is left alone, and a new session continues from what the
service has saved: then nothing that was half done can count.
"""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import TypeVar

import tinker

from precis.errors import TrainerLost
from precis.settings.tinker import TinkerTrainer
from precis.trainer.tinker.checkpoints import Kept
from precis.trainer.tinker.service import TinkerService, close_client, run_apart

T = TypeVar("T")

_OPEN_S = 1800.0
"""A service that is full has new models wait."""


class TinkerSession:
    """An open session of the service's own client, for a model with these settings."""

    def __init__(
        self, service: TinkerService, client: tinker.ServiceClient, settings: TinkerTrainer
    ) -> None:
        self.service = service
        self.client = client
        self._settings = settings
        self._loading = asyncio.Lock()
        self._opening = asyncio.Lock()
        self._left = asyncio.get_running_loop().create_future()
        self._models: dict[Path, tinker.TrainingClient] = {}
        self._samplers: dict[Path, tinker.SamplingClient] = {}

    async def close(self) -> None:
        """Leave the service, which then drops what it holds for the session."""
        if not self._left.done():
            self._left.set_result(None)
        await close_client(self.client)

    async def ask(
        self, what: str, asked: Awaitable[T], deadline_s: float, *, is_saved: bool = False
    ) -> T:
        """Wait for an answer as `TinkerService.ask` does, at the longest until the session is left:
        the client would try for minutes to get one all the same."""
        answer = self.service.ask(what, asked, deadline_s, is_saved=is_saved)
        asking = asyncio.ensure_future(answer)
        try:
            await asyncio.wait({asking, self._left}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
        raise TrainerLost(f"{self.service.name} could not {what}: the session has ended.")

    async def begin_model(self, seed: int) -> tinker.TrainingClient:
        """Return an untrained adapter of the base model, whose weights follow from the seed."""
        begun = self.client.create_lora_training_client_async(
            self._settings.base_model,
            rank=self._settings.lora_rank,
            seed=seed,
            train_unembed=False,  # vLLM serves no adapter of what tokens are made with
        )
        return await self.ask(f"train {self._settings.base_model}", begun, _OPEN_S)

    async def load_model(self, checkpoint: Path, kept: Kept) -> tinker.TrainingClient:
        """Return the model as it was at a checkpoint: the one that made it, or loaded from
        there."""
        async with self._loading:
            if checkpoint not in self._models:
                if kept.fresh_optimizer:
                    loaded = self.client.create_training_client_from_state_async(kept.state)
                else:
                    loaded = self.client.create_training_client_from_state_with_optimizer_async(
                        kept.state
                    )
                self._models[checkpoint] = await self.ask(
                    f"continue from {kept.state}", loaded, _OPEN_S, is_saved=True
                )
            return self._models[checkpoint]

    def note_move(self, model: tinker.TrainingClient, to: Path) -> None:
        """Note that a model was trained further: it is at this checkpoint now, and at no other."""
        self._models = {at: one for at, one in self._models.items() if one is not model}
        self._models[to] = model
        for at in list(self._samplers):
            # SkyRL samples from what a model has become, whatever its sampler was opened for.
            if self._settings.service == "skyrl" or not at.is_dir():
                del self._samplers[at]

    def note_copy(self, checkpoint: Path, to: Path) -> None:
        """Note that a checkpoint was copied: its model continues from the copy."""
        if checkpoint in self._models:
            self._models[to] = self._models.pop(checkpoint)

    async def open_sampler(self, checkpoint: Path, kept: Kept) -> tinker.SamplingClient:
        """Open a sampling client for the weights of a checkpoint."""
        async with self._opening:
            if checkpoint not in self._samplers:
                opened: Awaitable[tinker.SamplingClient]
                if self._settings.service == "skyrl":
                    # Its server samples from the weights that a model has now, whatever was saved.
                    model = await self.load_model(checkpoint, kept)
                    opened = run_apart(model.save_weights_and_get_sampling_client)
                else:
                    opened = self.client.create_sampling_client_async(model_path=kept.sampler)
                self._samplers[checkpoint] = await self.ask(
                    f"sample from {kept.state}", opened, _OPEN_S
                )
            return self._samplers[checkpoint]
