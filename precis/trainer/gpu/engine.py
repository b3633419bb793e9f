"""vLLM as it serves the policy: in its own process, with the adapter of each step."""

import os
from typing import Any

from vllm import AsyncEngineArgs
from vllm.model_executor.models import registry
from vllm.v1.engine.async_llm import AsyncLLM

from precis.settings.trainer import ADAPTED, VLLM_RANKS, EngineConfig
from precis.trainer.gpu.outputs import name_when_asked

_GRAPHS = (1, 2, 4, 8, 16, 24, 32, 40, 48, 64, 96, 128, 192, 256)
"""Numbers of summaries that are decoded together by a recorded graph; between two of them the next
one is used, and above the last there is none."""
_BATCHED_TOKENS = 8192
"""Tokens of prompts that are read at a time; what vLLM's own server takes on such GPUs."""


def start_engine(base_model: str, engine: EngineConfig) -> AsyncLLM:
    """Load the model into vLLM, in a process that is forked from this one; takes a quarter of a
    minute, and blocks.

    Only decoding is recorded as graphs, and nothing is compiled: compiling takes longer than it
    gains in a run of some hundred steps.
    """
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
    seen = given.split(",") if given else list(map(str, range(engine.sampling_gpu + 1)))
    name_when_asked()
    # By itself vLLM looks at a model's class in a process of its own, to leave the GPU alone: 20 s
    # at the first start on a machine. Importing the class does not touch the GPU.
    registry._run_in_subprocess = lambda look: look()
    # For the process that starts here, and for no later one of this process.
    before = dict(os.environ)
    os.environ["CUDA_VISIBLE_DEVICES"] = seen[engine.sampling_gpu]
    # Its older runner prepares each token on the CPU, and launches a kernel for the seed of each
    # rollout. The new one has not been tried with sleep (`0` turns it off).
    runner = "0" if engine.sleep_while_training else "1"
    os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", runner)
    try:
        return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
    finally:
        os.environ.clear()
        os.environ.update(before)
