"""Stand-ins for programs that a test puts on PATH."""

import sys
from pathlib import Path

from tests.support import vllm_program


def put_program(folder: Path, name: str, script: str) -> Path:
    """Write an executable shell script into a folder, which is made if it is not there."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def put_vllm(folder: Path, pids: Path) -> None:
    """Put the stand-in for vLLM there, which names its processes in a file."""
    put_program(folder, "vllm", f'exec {sys.executable} {vllm_program.__file__} {pids} "$@"')


def put_gpu(folder: Path) -> None:
    """Put a stand-in for NVIDIA's command there, which finds one GPU."""
    put_program(folder, "nvidia-smi", "echo '0, GPU-aaaa, NVIDIA H200, 143771 MiB'")
