"""The process that holds the GPU: the learner, and vLLM that serves its adapters.

Only this process imports vLLM and the learner; the trainer's own process calls it. Both stay on the
GPU together where they fit, so that nothing is moved between sampling and training; with
`sleep_while_training` vLLM frees its memory during training.
"""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from art import dev
from art.metrics_taxonomy import average_metric_samples
from art.types import TrainConfig

from precis.processes.child import free_port
from precis.runs.local_checkpoints import folder_of, steps_here, write_checkpoint
from precis.settings.trainer import ADAPTED, VLLM_RANKS, EngineConfig
from precis.trainer.gpu.outputs import name_when_asked
from precis.trainer.gpu.packing import Update

if TYPE_CHECKING:
    from precis.trainer.gpu.learner import Learner

Metrics = dict[str, float]
Move = Callable[[], Metrics]
"""One update of the learner."""

_GPU = "cuda:0"
"""The learner's device; with a second GPU, vLLM is on that one."""
_GRAPHS = (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256)
"""Numbers of summaries that are decoded together by a recorded graph; between two of them the next
one is used, and above the last there is none."""
_BATCHED_TOKENS = 8192
"""Tokens of prompts that are read at a time; what vLLM's own server takes on such GPUs."""


@dataclass
class GpuService:
    """One model on the GPU. ART's LocalBackend moves it into its own process and calls it.

    Args:
        name: of the model; vLLM serves its adapters as `name@step`.
        base_model: a name on the Hub or a folder.
        folder: the model's, in ART's layout.
        engine: how the GPU is used.
        seed: of a new adapter.
    """

    name: str
    base_model: str
    folder: Path
    engine: EngineConfig
    seed: int
    _learner: Any = field(default=None, repr=False)
    _llm: Any = field(default=None, repr=False)
    _loras: int = 0

    async def start_openai_server(self, config: dev.OpenAIServerConfig | None) -> tuple[str, int]:
        """Load the model twice, to learn and to sample, and serve the newest adapter; return host
        and port."""
        from art.vllm.server import openai_server_task

        step = max(steps_here(self.folder), default=None)
        checkpoint = None if step is None else folder_of(self.folder, step)
        # First, since it measures what is free on the GPU; and it starts its process in a moment
        # as long as this one has not touched the GPU.
        self._llm = start_engine(self.base_model, self.engine)
        async with self._memory_to_train():
            self._learner = await asyncio.to_thread(self._load_learner, checkpoint)
        if step is None:
            step = 0
            write_checkpoint(folder_of(self.folder, step), self._learner.save, {})
        server = dev.get_openai_server_config(
            model_name=self.name,
            base_model=self.base_model,
            log_file=str(self.folder / "logs" / "vllm.log"),
            lora_path=str(folder_of(self.folder, step)),
            config=config,
        )
        arguments = server["server_args"]
        arguments["tool_call_parser"] = self.engine.tool_call_parser
        # Only now: in the minute that loading takes, somebody else could take it.
        arguments["port"] = free_port()
        await openai_server_task(engine=self._llm, config=server)
        return str(arguments["host"]), int(arguments["port"])

    async def train(
        self,
        step: int,
        updates: list[Update],
        config: TrainConfig,
        dev_config: dev.TrainConfig,
        known: Metrics,
    ) -> AsyncIterator[Metrics]:
        """Make checkpoint `step` + 1 out of a step's samples, and serve it.

        Args:
            config, dev_config: ART's settings of the loss.
            known: metrics of the step that are known already; kept with the checkpoint.

        Yields:
            The metrics of each update, and at the end how long saving and serving took.
        """
        learn = self._learner.update
        moves = [partial(learn, update, config, dev_config) for update in updates]
        async for metrics in self._train(step, moves, known):
            yield metrics

    async def train_sft(
        self, step: int, updates: list[Update], learning_rates: list[float], known: Metrics
    ) -> AsyncIterator[Metrics]:
        """As `train`, by imitation; each update has its learning rate."""
        moves: list[Move] = []
        for update, rate in zip(updates, learning_rates, strict=True):
            moves.append(partial(self._learner.imitate, update, rate))
        async for metrics in self._train(step, moves, known, self._learner.end_imitation):
            yield metrics

    async def _train(
        self,
        step: int,
        moves: Sequence[Move],
        known: Metrics,
        before_saving: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Metrics]:
        seen: list[Metrics] = []
        start = time.perf_counter()
        async with self._memory_to_train():
            for move in moves:
                metrics = await asyncio.to_thread(move)
                seen.append({**known, **metrics})
                yield seen[-1]
            before_saving()
        trained = time.perf_counter()
        folder = folder_of(self.folder, step + 1)
        averaged = average_metric_samples(seen)
        await asyncio.to_thread(write_checkpoint, folder, self._learner.save, averaged)
        saved = time.perf_counter()
        await self.register_lora_for_step(step + 1, str(folder))
        yield {
            "time/step_update_s": trained - start,
            "time/step_save_s": saved - trained,
            "time/step_serve_s": time.perf_counter() - saved,
        }

    async def repeat(self, step: int, metrics: Metrics) -> None:
        """Make checkpoint `step` + 1 a copy of the one before: there was nothing to learn from."""
        folder = folder_of(self.folder, step + 1)
        copy = partial(shutil.copytree, folder_of(self.folder, step), dirs_exist_ok=True)
        await asyncio.to_thread(write_checkpoint, folder, copy, metrics)
        await self.register_lora_for_step(step + 1, str(folder))

    async def register_lora_for_step(self, step: int, folder: str) -> None:
        """Serve a checkpoint under its step's name."""
        from vllm.lora.request import LoRARequest

        self._loras += 1
        request = LoRARequest(
            lora_name=f"{self.name}@{step}", lora_int_id=self._loras + 1, lora_path=folder
        )
        if not await self._llm.add_lora(request):
            raise RuntimeError(f"vLLM did not take the adapter of step {step} in {folder}.")

    @asynccontextmanager
    async def _memory_to_train(self) -> AsyncIterator[None]:
        if not self.engine.sleep_while_training:
            yield
            return
        await self._llm.sleep(level=1)
        if self._learner is not None:
            await asyncio.to_thread(self._learner.move_to, _GPU)
        yield
        await asyncio.to_thread(self._learner.move_to, "cpu")
        await self._llm.wake_up()

    def _load_learner(self, checkpoint: Path | None) -> "Learner":
        from precis.trainer.gpu.learner import Learner

        return Learner(self.base_model, checkpoint, self.engine, self.seed, _GPU)


def start_engine(base_model: str, engine: EngineConfig) -> Any:
    """Load the model into vLLM, in a process that is forked from this one; takes a quarter of a
    minute, and blocks.

    Only decoding is recorded as graphs, and nothing is compiled: compiling takes longer than it
    gains in a run of some hundred steps.
    """
    from vllm import AsyncEngineArgs
    from vllm.model_executor.models import registry
    from vllm.v1.engine.async_llm import AsyncLLM

    arguments: dict[str, Any] = {
        "model": base_model,
        "max_model_len": engine.tokens_max,
        "gpu_memory_utilization": engine.gpu_memory_share,
        "enable_sleep_mode": engine.sleep_while_training,
        "enable_lora": True,
        # By default an engine like this takes 128 at a time, and 2,048 tokens of their prompts: a
        # pass that no graph has recorded for every 2,048.
        "max_num_seqs": _GRAPHS[-1],
        "max_num_batched_tokens": _BATCHED_TOKENS,
        "max_loras": 1,  # a batch is of one adapter, as `lora` needs it
        "max_cpu_loras": 2,  # the next one is loaded while the last one may still be sampled from
        "worker_extension_cls": "precis.trainer.gpu.extension.Extension",
        "lora_target_modules": list(ADAPTED[engine.adapted_layers]),
        "max_lora_rank": next(rank for rank in VLLM_RANKS if rank >= engine.lora_rank),
        "generation_config": "vllm",
        "disable_log_stats": False,
        "compilation_config": {
            "mode": 0,
            "cudagraph_mode": "FULL_DECODE_ONLY",
            "cudagraph_capture_sizes": list(_GRAPHS),
            "cudagraph_specialize_lora": False,  # the model without an adapter is never asked
        },
    }
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    seen = given.split(",") if given else list(map(str, range(engine.gpus)))
    name_when_asked()
    # By itself vLLM looks at a model's class in a process of its own, to leave the GPU alone: 20 s
    # at the first start on a machine. Importing the class does not touch the GPU.
    registry._run_in_subprocess = lambda look: look()
    # For the process that starts here, and for no later one of this process.
    before = dict(os.environ)
    os.environ["CUDA_VISIBLE_DEVICES"] = seen[engine.gpus - 1]  # training is on the first
    # Its older runner prepares each token on the CPU, and launches a kernel for the seed of each
    # rollout. The new one has not been tried with sleep (`0` turns it off).
    runner = "0" if engine.sleep_while_training else "1"
    os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", runner)
    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
    finally:
        os.environ.clear()
        os.environ.update(before)
