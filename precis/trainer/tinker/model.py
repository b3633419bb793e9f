"""One model at the service: its session, its training, and what is kept of each step.

A step is trained once: forward and backward and one move of the optimizer for each update, and then
the service saves what came of it. Until a checkpoint here says so, the step did not happen:
whatever fails in between, the session is left alone, and the step is trained anew by a model that
is loaded from the checkpoint before.
"""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import tinker
from art.metrics_taxonomy import average_metric_samples
from art.types import LocalTrainResult

from precis.errors import TrainerLost
from precis.processes.kill_points import reached
from precis.records.ledger import SERVICE_USD
from precis.runs.local_checkpoints import folder_of, steps_here, write_checkpoint
from precis.settings.tinker import KEPT_FILE, TinkerTrainer
from precis.store.durable import make_folder
from precis.trainer.tinker.checkpoints import Kept, copy_weights, read_kept
from precis.trainer.tinker.data import Update, logprob_gap
from precis.trainer.tinker.service import TinkerService, close_client, run_apart

Metrics = dict[str, float]
T = TypeVar("T")

_OPEN_S = 1800.0
"""A service that is full has new models wait."""
_UPDATE_S = 1800.0
"""Deadline of one update; a service that is full has it wait."""
_SAVE_S = 1200.0
_DAY_S = 24 * 3600


class TinkerSession:
    """An open session of the service's own client, with its models and samplers.

    Once anything of it is lost, all of it is left alone, and a new session continues from what the
    service has saved: then nothing that was half done can count.
    """

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


@dataclass(eq=False)
class TinkerModel:
    """A model whose weights the service has; its checkpoints here are in ART's layout.

    `count` is how many tokens the service was asked to read, to sample and to train on (`read`,
    `sampled`, `trained`) since the last training.
    """

    folder: Path
    settings: TinkerTrainer
    service: TinkerService
    tokenizer: Any
    seed: int
    count: Counter[str] = field(default_factory=Counter)
    _session: TinkerSession | None = None
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def connect(self) -> TinkerSession:
        """Return the session that is open, or a new one."""
        async with self._connecting:
            if self._session is None:
                client = await self.service.connect()
                self._session = TinkerSession(self.service, client, self.settings)
            return self._session

    async def leave(self, session: TinkerSession | None = None) -> None:
        """Give up a session in which something is lost; without one, whichever is open."""
        left = self._session
        if left is not None and session in (None, left):
            self._session = None
            await left.close()

    @property
    def step(self) -> int:
        """The newest step with a checkpoint here."""
        return max(steps_here(self.folder), default=0)

    def folder_of(self, step: int) -> Path:
        return folder_of(self.folder, step)

    async def begin(self) -> None:
        """Have the service make an untrained adapter, and keep it as step 0."""
        session = await self.connect()
        untrained = await session.begin_model(self.seed)
        await self._keep(session, untrained, 0, {})

    async def learn(
        self,
        updates: Sequence[Update],
        rates: Sequence[float],
        known: Metrics,
        *,
        imitates: bool = False,
    ) -> LocalTrainResult:
        """Take a step, by imitation or by reinforcement.

        Args:
            rates: Adam's step size in each update.
            known: metrics of the step that are known already; its result has them too.
        """
        loss: tinker.types.LossFnType = "cross_entropy" if imitates else "importance_sampling"
        step = self.step
        session = await self.connect()
        seen: list[Metrics] = []
        try:
            model = await session.load_model(self.folder_of(step), read_kept(self.folder_of(step)))
            for update, rate in zip(updates, rates, strict=True):
                # Both are on their way at once: the service takes them in one turn of its clock.
                forward = model.forward_backward(update.data, loss)
                move = model.optim_step(tinker.AdamParams(learning_rate=rate))
                output, _ = await session.ask("train", asyncio.gather(forward, move), _UPDATE_S)
                self.count["trained"] += sum(datum.model_input.length for datum in update.data)
                metrics = {"loss/learning_rate": rate}
                if "loss:sum" in output.metrics:
                    metrics["loss/train"] = output.metrics["loss:sum"]
                if not seen and not imitates:
                    # The weights are still those that have sampled.
                    metrics["offpolicy/logprob_gap"] = logprob_gap(update, output)
                seen.append(metrics)
            booked = self.count.copy()
            metrics = {**known, **average_metric_samples(seen), **self._usage(booked)}
            reached("before weights saved", step)
            await self._keep(session, model, step + 1, metrics, fresh_optimizer=imitates)
        except BaseException:
            # What the model has learned of the step so far must not count.
            await self.leave(session)
            raise
        self.count.subtract(booked)
        reached("weights saved", step)
        return self._result(step + 1, metrics)

    async def repeat(self, metrics: Metrics) -> LocalTrainResult:
        """Take a step in which there was nothing to learn from."""
        step = self.step
        booked = self.count.copy()
        metrics = {**metrics, **self._usage(booked)}
        copy = partial(shutil.copytree, self.folder_of(step), dirs_exist_ok=True)
        await asyncio.to_thread(write_checkpoint, self.folder_of(step + 1), copy, metrics)
        if self._session is not None:
            self._session.note_copy(self.folder_of(step), self.folder_of(step + 1))
        self.count.subtract(booked)
        return self._result(step + 1, metrics)

    async def _keep(
        self,
        session: TinkerSession,
        model: tinker.TrainingClient,
        step: int,
        metrics: Metrics,
        *,
        fresh_optimizer: bool = False,
    ) -> None:
        """Have the service save a model, and note it in a checkpoint."""
        name = f"{step:04d}"
        days = self.settings.keep_days
        seconds = None if days is None else int(days * _DAY_S)
        saved = await session.ask("save", model.save_state(name, seconds), _SAVE_S)
        sampler = ""
        if self.settings.copy_weights or self.settings.service != "skyrl":
            for_sampler = model.save_weights_for_sampler(name, seconds)
            sampler = (await session.ask("save", for_sampler, _SAVE_S)).path
        kept = Kept(state=saved.path, sampler=sampler, fresh_optimizer=fresh_optimizer)
        incoming = self.folder_of(step).with_name(f".{name}.incoming")
        await asyncio.to_thread(shutil.rmtree, incoming, ignore_errors=True)
        make_folder(incoming)
        if self.settings.copy_weights:
            await copy_weights(session.service, session.client, sampler, incoming)
        (incoming / KEPT_FILE).write_text(kept.model_dump_json(indent=1), encoding="utf-8")
        move = partial(os.replace, incoming)  # over the new folder, which is empty
        await asyncio.to_thread(write_checkpoint, self.folder_of(step), move, metrics)
        if fresh_optimizer:
            # The optimizer that this model has is not the one to continue with.
            await self.leave(session)
        else:
            session.note_move(model, self.folder_of(step))

    def _result(self, step: int, metrics: Metrics) -> LocalTrainResult:
        folder = str(self.folder_of(step))
        return LocalTrainResult(step=step, metrics=metrics, checkpoint_path=folder)

    def _usage(self, count: Counter[str]) -> Metrics:
        """Return the service's usage since the last training, and its cost."""
        metrics = {
            "data/step_read_tokens": float(count["read"]),
            "data/step_sampled_tokens": float(count["sampled"]),
            "data/step_forward_tokens": float(count["trained"]),
        }
        usd = self.settings.charge(count["read"], count["sampled"], count["trained"])
        if usd is not None:
            metrics[SERVICE_USD] = usd
        return metrics
