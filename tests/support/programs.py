"""Stand-ins for programs that a test puts on PATH."""

import sys
from pathlib import Path

from tests.support import vllm_program

ASKING = """
import json, os, sys, time, urllib.request

def ask():
    address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": "Go."}]}
    headers["Content-Type"] = "application/json"
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]

scenario = json.load(open(os.environ["PRECIS_SCENARIO"]))
said = ask()
"""
"""A Python program's beginning, which asks the policy once, as an environment's command does."""


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
    put_program(folder, "nvidia-smi", "echo 'GPU 0: NVIDIA H200 (UUID: GPU-a)'")
