"""The cause of a failure, found in what vLLM, ART and torch print."""

import asyncio
import os
from pathlib import Path

import pytest

from precis.errors import StepConflict
from precis.processes.causes import cause_of
from precis.trainer.jobs import Job

_ENGINE = "(EngineCore pid=4242) ERROR 11-21 21:04:11 [core.py:1108] "
_POINTER = (
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)
_MEMORY = (
    "ValueError: Free memory on device cuda:0 (13.62/79.18 GiB) on startup is less than desired "
    "GPU memory utilization (0.8, 63.34 GiB). Decrease GPU memory utilization or reduce GPU memory "
    "used by other processes."
)
_TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total "
    "capacity of 79.18 GiB of which 1.21 GiB is free. Process 4242 has 65.20 GiB memory in use."
)


def engine_log(cause: str) -> str:
    """The log of an engine that did not start, as vLLM 0.20 writes it."""
    return "\n".join(
        [
            "INFO 11-21 21:03:02 [model.py:531] Resolved architecture: LlamaForCausalLM",
            f"{_ENGINE}EngineCore failed to start.",
            f"{_ENGINE}Traceback (most recent call last):",
            f'{_ENGINE}  File "vllm/v1/worker/gpu_worker.py", line 301, in init_device',
            f"{_ENGINE}    raise ValueError(",
            f"{_ENGINE}{cause}",
            "(EngineCore pid=4242) Process EngineCore:",
            "(EngineCore pid=4242) Traceback (most recent call last):",
            '(EngineCore pid=4242)   File "multiprocessing/process.py", line 314, in _bootstrap',
            f"(EngineCore pid=4242) {cause}",
            "Traceback (most recent call last):",
            '  File "vllm/v1/engine/utils.py", line 1027, in wait_for_engine_startup',
            "    raise RuntimeError(",
            _POINTER,
            "resource_tracker: There appear to be 1 leaked shared_memory objects to clean up",
        ]
    )


_SHORT = (
    "ValueError: To serve at least one request with the models's max seq len (32768), (3.50 GiB "
    "KV cache is needed, which is larger than the available KV cache memory (1.24 GiB). Based on "
    "the available memory, the estimated maximum model length is 11600."
)
_FULL = "OSError: [Errno 28] No space left on device"
_NO_CACHE = "ValueError: No available memory for the cache blocks. Try increasing it."


@pytest.mark.parametrize(
    ("error", "log", "free", "setting"),
    [
        (_POINTER, engine_log(_MEMORY), "13.62/79.18 GiB", "lower trainer.engine.gpu_memory_share"),
        (_TORCH, "", "1.21 GiB is free", "Lower trainer.engine.packed_tokens for training"),
        (_POINTER, engine_log(_SHORT), "(1.24 GiB)", "lower trainer.engine.tokens_max"),
        (_POINTER, engine_log(_NO_CACHE), "", "Raise trainer.engine.gpu_memory_share"),
        (_FULL, "", f"{_FULL}. ", "Free some space on the trainer's disk and start it again."),
    ],
)
def test_lacking_memory_says_what_to_change(error: str, log: str, free: str, setting: str) -> None:
    cause = cause_of(error, log)
    assert free in cause and setting in cause


def test_the_cause_is_the_error_or_what_was_printed_where_it_only_points_at_that() -> None:
    refused = "ValueError: There is no module or parameter named 'lora_b' in LlamaForCausalLM"
    assert cause_of(_POINTER, engine_log(refused)) == refused
    assert cause_of("", engine_log(refused)) == refused
    error = "ValueError: 151935 is not in list"
    assert cause_of(error, engine_log(_MEMORY)) == error
    died = "RuntimeError: Child process 'precis-gpu' exited with code 1"
    assert "Tried to allocate 2.32 GiB" in cause_of(died, f"Traceback …\n  File ...\n{_TORCH}\n")
    assert cause_of(died, "nothing of use") == died
    missing = "ModuleNotFoundError: No module named 'vllm'"
    assert cause_of("", f"Traceback …\n{missing}\n\n") == missing
    assert cause_of("", "") == "It printed nothing."


async def test_a_failed_job_says_the_cause_from_its_part_of_the_log(tmp_path: Path) -> None:
    with (tmp_path / "trainer.log").open("a+b") as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            os.write(2, b"ValueError: of an earlier job\n")
            last = (await outcomes(RuntimeError(_POINTER.partition(": ")[2])))[-1]
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
    assert (
        "The trainer's backend failed: ValueError: Free memory on device cuda:0 (13.62/79.18 GiB)"
        in last
    )
    assert "StepConflict" in (await outcomes(StepConflict("Trained already.")))[-1]


async def outcomes(error: Exception) -> list[str]:
    """What is sent of a job whose backend prints like vLLM, and raises."""

    async def work() -> dict[str, object]:
        await asyncio.sleep(0)
        os.write(2, engine_log(_MEMORY).encode() + b"\n")
        raise error

    job = Job(asyncio.ensure_future(work()))
    return [line.decode() async for line in job.events()]
