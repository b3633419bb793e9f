"""A trained adapter as a folder for others: the merged weights are proven, and nothing is left
where something is wrong."""

import json
import math
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from typer.testing import Result

from precis.environments.summaries.prompt import summary_messages
from precis.errors import ModelError
from precis.models.adapter import read_adapter
from precis.models.merge import merge, verify
from precis.models.tensors import Tensor, Weights, write_shards
from precis.settings.tinker import KEPT_FILE
from precis.store import FolderStore
from tests.support.command import run_precis
from tests.support.tiny_model import put_run, store_with_adapter, write_adapter, write_base

QUERY = "model.layers.0.self_attn.q_proj"


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return store_with_adapter(tmp_path)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write_base(tmp_path / "base")
    return tmp_path / "base"


def export(*arguments: object, store: FolderStore, code: int = 0) -> Result:
    done = run_precis("model", "export", *arguments, store=store)
    assert done.exit_code == code, done.output
    return done


def all_weights(folder: Path) -> dict[str, Tensor]:
    return {name: tensor for file in sorted(folder.glob("*.safetensors"))
            for name, tensor in load_file(file).items()}  # fmt: skip


def by_hand(
    weights: dict[str, Tensor], halves: dict[str, Tensor], scale: float
) -> dict[str, Tensor]:
    """The merged weights, computed one number at a time."""
    merged = dict(weights)
    for key, b in halves.items():
        if ".lora_B." not in key:
            continue
        a = halves[key.replace("lora_B", "lora_A")]
        name = key.removeprefix("base_model.model.").replace(".lora_B", "")
        new = np.empty_like(weights[name])
        for row, column in np.ndindex(*new.shape):
            added = math.fsum(float(b[row, k]) * float(a[k, column]) for k in range(a.shape[0]))
            new[row, column] = np.float32(float(weights[name][row, column]) + scale * added)
        merged[name] = new
    return merged


def test_an_adapter_is_exported_with_the_prompt_that_it_was_trained_with(
    store: FolderStore, tmp_path: Path
) -> None:
    export("mine", "--to", tmp_path / "out", "--step", "best", store=store)
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert files == {"adapter_config.json", "adapter_model.safetensors", "prompt.json"}
    prompt = json.loads((tmp_path / "out" / "prompt.json").read_text())
    assert prompt["messages"] == summary_messages("{document}", 120)
    assert (prompt["words_max"], prompt["temperature"], prompt["max_tokens"]) == (120, 0.0, 304)


def test_where_a_service_keeps_the_weights_is_nobody_elses_business(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    write_adapter(tmp_path / "adapter")
    (tmp_path / "adapter" / KEPT_FILE).write_text('{"state": "tinker://run/weights/0002"}')
    put_run(store, "mine", tmp_path / "adapter")
    export("mine", "--to", tmp_path / "out", store=store)
    assert not (tmp_path / "out" / KEPT_FILE).exists()


@pytest.mark.parametrize("file_format", ["adapter", "merged"])
def test_what_a_checkpoint_holds_besides_is_given_to_nobody(
    file_format: str, base: Path, tmp_path: Path
) -> None:
    """Programs and pickles, which whoever may write the store may have put there."""
    store = FolderStore(tmp_path / "store")
    adapter = tmp_path / "adapter"
    write_adapter(adapter)
    (adapter / "nested").mkdir()
    for name in (
        "modeling_evil.py",
        "optimizer.pkl",
        "nested/adapter_model.bin",
        "README.md",
        "optimizer.pt",
        "metrics.json",
        ".gitattributes",
        "nested/tokenizer.json",
    ):
        (adapter / name).write_text("import os")
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        (adapter / name).write_text("{}")
    put_run(store, "mine", adapter)
    asked = ("mine", "--format", file_format, "--base", base, "--to", tmp_path / "out")
    export(*asked, store=store)
    found = {str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*")}
    weights = {
        "adapter": {"adapter_config.json", "adapter_model.safetensors"},
        "merged": {
            "model.safetensors",
            "config.json",
            "tokenizer.json",
            "LICENSE",
            "verification.json",
        },
    }[file_format]
    assert found == weights | {"tokenizer_config.json", "chat_template.jinja", "prompt.json"}


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
@pytest.mark.parametrize("use_rslora", [False, True])
def test_merged_weights_are_base_plus_product_to_the_last_bit(
    tmp_path: Path, dtype: Any, use_rslora: bool
) -> None:
    weights = write_base(tmp_path / "base", dtype)
    halves = write_adapter(tmp_path / "adapter", rank=4, use_rslora=use_rslora)
    products = read_adapter(tmp_path / "adapter")
    (tmp_path / "merged").mkdir()
    merge(tmp_path / "base", products, tmp_path / "merged")
    expected = by_hand(weights, halves, 8 / (2 if use_rslora else 4))
    found = all_weights(tmp_path / "merged")
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].tobytes() == tensor.tobytes(), name
    proof = verify(tmp_path / "base", products, tmp_path / "merged")
    assert (proof.merged, proof.equal) == (14, len(weights) - 14)
    assert proof.kept == pytest.approx(1.0, abs=0.02)


def test_ranks_and_scales_may_differ_by_layer(tmp_path: Path) -> None:
    write_adapter(
        tmp_path / "adapter",
        rank=4,
        rank_pattern={"q_proj": 2},
        alpha_pattern={"q_proj": 12, "down_proj": 1},
    )
    products = read_adapter(tmp_path / "adapter")
    scales = {name.split(".")[-2]: product.scale for name, product in products.items()}
    assert (scales["q_proj"], scales["down_proj"], scales["up_proj"]) == (6.0, 0.25, 2.0)


def _spoil(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _one_bit(name: str) -> Callable[[dict[str, Tensor]], None]:
    def change(tensors: dict[str, Tensor]) -> None:
        tensors[name].view(np.uint16).flat[5] ^= 1

    return change


def _without(tensors: dict[str, Tensor]) -> None:
    del tensors["model.norm.weight"]


def _in_other_type(tensors: dict[str, Tensor]) -> None:
    tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.float32)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_one_bit(f"{QUERY}.weight"), "q_proj.weight is not base \\+ product"),
        (_one_bit(f"{QUERY}.bias"), "q_proj.bias is not the base's"),
        (_one_bit("model.embed_tokens.weight"), "embed_tokens.weight is not the base's"),
        (_without, "differ in having model.norm.weight"),
        (_in_other_type, "norm.weight is not the base's"),
    ],
)
def test_one_wrong_bit_is_found(
    tmp_path: Path, change: Callable[[dict[str, Tensor]], None], said: str
) -> None:
    write_base(tmp_path / "base")
    write_adapter(tmp_path / "adapter")
    products = read_adapter(tmp_path / "adapter")
    (tmp_path / "merged").mkdir()
    merge(tmp_path / "base", products, tmp_path / "merged")
    verify(tmp_path / "base", products, tmp_path / "merged")
    _spoil(tmp_path / "merged", change)
    with pytest.raises(ModelError, match=said):
        verify(tmp_path / "base", products, tmp_path / "merged")


def test_an_update_too_small_for_16_bits_is_refused_and_merged_in_32(
    tmp_path: Path, base: Path
) -> None:
    write_adapter(tmp_path / "faint", size=1e-4)
    store = FolderStore(tmp_path / "store")
    put_run(store, "faint", tmp_path / "faint")
    asked = ("faint", "--format", "merged", "--base", base, "--to")
    refused = export(*asked, tmp_path / "out", store=store, code=1)
    assert "0% of what the adapter adds is left" in refused.stderr
    assert not (tmp_path / "out").exists()
    export(*asked, tmp_path / "out", "--dtype", "float32", store=store)
    assert json.loads((tmp_path / "out" / "verification.json").read_text())["kept"] > 0.99
    assert json.loads((tmp_path / "out" / "config.json").read_text())["torch_dtype"] == "float32"
    assert {one.dtype for one in all_weights(tmp_path / "out").values()} == {np.dtype(np.float32)}


def test_a_base_that_newer_transformers_wrote_says_32_bits_too(
    store: FolderStore, base: Path, tmp_path: Path
) -> None:
    """They read `dtype` before `torch_dtype`."""
    config = json.loads((base / "config.json").read_text())
    config["dtype"] = config.pop("torch_dtype")
    (base / "config.json").write_text(json.dumps(config))
    asked = ("mine", "--format", "merged", "--base", base, "--to", tmp_path / "out")
    export(*asked, "--dtype", "float32", store=store)
    known = json.loads((tmp_path / "out" / "config.json").read_text())
    assert known["dtype"] == known["torch_dtype"] == "float32"


@pytest.mark.parametrize("index", ["{", "{}", '{"weight_map": []}', "[]"])
def test_a_damaged_index_is_a_sentence(
    store: FolderStore, base: Path, tmp_path: Path, index: str
) -> None:
    (base / "model.safetensors.index.json").write_text(index)
    asked = ("mine", "--format", "merged", "--base", base, "--to", tmp_path / "out")
    told = export(*asked, store=store, code=1)
    assert "can't be read as an index of weights" in told.stderr


def test_a_small_update_says_how_much_of_it_is_left(tmp_path: Path, base: Path) -> None:
    write_adapter(tmp_path / "small", size=3e-3)
    store = FolderStore(tmp_path / "store")
    put_run(store, "small", tmp_path / "small")
    asked = ("small", "--format", "merged", "--base", base, "--to", tmp_path / "out")
    done = export(*asked, store=store)
    kept = json.loads((tmp_path / "out" / "verification.json").read_text())["kept"]
    assert 0.5 < kept < 0.9
    assert f"Only {kept:.0%} of what the adapter adds is left" in done.stderr


def test_an_untrained_adapter_adds_nothing_and_says_so(tmp_path: Path, base: Path) -> None:
    write_adapter(tmp_path / "zero", size=0.0)
    store = FolderStore(tmp_path / "store")
    put_run(store, "zero", tmp_path / "zero")
    done = export("zero", "--format", "merged", "--base", base, "--to", tmp_path / "o", store=store)
    assert "The adapter adds nothing yet" in done.stderr


def test_shards_hold_what_was_given_in_its_order(tmp_path: Path) -> None:
    tensors = {str(number): np.full((10, 10), number, np.float32) for number in range(7)}
    write_shards(tensors.items(), tmp_path, shard_bytes=1000)
    assert len(list(tmp_path.glob("model-*-of-00004.safetensors"))) == 4
    written = Weights(tmp_path)
    assert list(written.files) == list(tensors)
    assert all((written.read(name) == tensor).all() for name, tensor in tensors.items())
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 2800


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"use_dora": True}, "DoRA"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"bias": "all"}, "biases"),
        ({"peft_type": "IA3"}, "not the configuration of a LoRA"),
        ({"r": 5}, "says rank 5"),
    ],
)
def test_an_adapter_that_is_no_plain_product_is_refused(
    tmp_path: Path, base: Path, config: dict[str, Any], said: str
) -> None:
    write_adapter(tmp_path / "odd", **config)
    store = FolderStore(tmp_path / "store")
    put_run(store, "odd", tmp_path / "odd")
    asked = ("odd", "--format", "merged", "--base", base, "--to", tmp_path / "o")
    done = export(*asked, store=store, code=1)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["base", "odd", "store"]


def test_a_quantized_base_is_refused(store: FolderStore, tmp_path: Path) -> None:
    write_base(tmp_path / "four", quantization_config={"load_in_4bit": True})
    asked = ("mine", "--format", "merged", "--base", tmp_path / "four", "--to", tmp_path / "o")
    assert "is quantized (4 or 8 bits)" in export(*asked, store=store, code=1).stderr
    packed = write_base(tmp_path / "packed", files=1)
    packed[f"{QUERY}.weight"] = packed[f"{QUERY}.weight"].view(np.uint8)
    save_file(packed, tmp_path / "packed" / "model.safetensors")
    asked = ("mine", "--format", "merged", "--base", tmp_path / "packed", "--to", tmp_path / "o")
    assert "is quantized (4 or 8 bits)" in export(*asked, store=store, code=1).stderr


def test_a_base_of_another_model_is_refused(store: FolderStore, base: Path, tmp_path: Path) -> None:
    weights = load_file(base / "model-00001-of-00002.safetensors")
    name = next(name for name in weights if name.endswith("proj.weight"))
    asked = ("mine", "--format", "merged", "--base", base, "--to", tmp_path / "o")
    weights[name] = weights[name][:-1].copy()
    save_file(weights, base / "model-00001-of-00002.safetensors")
    assert "it is another model" in export(*asked, store=store, code=1).stderr
    index = json.loads((base / "model.safetensors.index.json").read_text())
    del index["weight_map"][name]
    (base / "model.safetensors.index.json").write_text(json.dumps(index))
    assert f"has no tensor {name}" in export(*asked, store=store, code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mine", "--format", "merged"), "The base model owner/tiny is neither a folder nor"),
        (("mine", "--format", "gguf"), "convert_hf_to_gguf.py is not on PATH"),
        (("mine", "--format", "gguf", "--converter", "none.py"), "is not at none.py"),
        (("mine@1", "--step", "2"), "names a step already"),
        (("mine", "--step", "9"), "Steps that are there: 0, 1, 2."),
        (("mine", "--step", "x"), "names no model"),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    store: FolderStore, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = export(*arguments, "--to", tmp_path / "out", store=store, code=1)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["adapter", "store"]


def test_a_folder_that_holds_something_is_not_written_to(
    store: FolderStore, tmp_path: Path
) -> None:
    done = export("mine", "--to", tmp_path / "adapter", store=store, code=1)
    assert "is not empty" in done.stderr
    (tmp_path / "empty").mkdir()
    export("mine", "--to", tmp_path / "empty", store=store)


CONVERTER = f"""#!{sys.executable}
import sys
from pathlib import Path

merged, _, out, _, kind, _, name = sys.argv[1:]
if not (Path(merged) / "model.safetensors").exists() or (kind, name) != ("auto", "mine@1"):
    sys.exit("nothing to convert")
if (Path(merged) / "LICENSE").read_text() != "A licence.":
    sys.exit("Model architecture is not supported")
Path(out).write_bytes(b"GGUF")
"""


def test_gguf_is_made_by_the_converter_with_a_file_for_ollama(
    store: FolderStore, base: Path, tmp_path: Path
) -> None:
    converter = tmp_path / "convert_hf_to_gguf.py"
    converter.write_text(CONVERTER)
    converter.chmod(converter.stat().st_mode | stat.S_IXUSR)
    asked = ("mine@1", "--format", "gguf", "--base", base, "--converter", converter, "--to")
    export(*asked, tmp_path / "out", store=store)
    assert (tmp_path / "out" / "mine-1.gguf").read_bytes() == b"GGUF"
    modelfile = (tmp_path / "out" / "Modelfile").read_text()
    assert modelfile.startswith("FROM ./mine-1.gguf\n")
    assert "num_ctx 2048" in modelfile
    assert summary_messages("", 120)[0]["content"] in modelfile
    (base / "LICENSE").write_text("Another.")
    failed = export(*asked, tmp_path / "again", store=store, code=1)
    assert "Model architecture is not supported" in failed.stderr
    assert not (tmp_path / "again").exists()
    converter.write_text("#!/nowhere/python3")
    lost = export(*asked, tmp_path / "again", store=store, code=1)
    assert f"{converter} can't be run: No such file or directory." in lost.stderr


def test_a_base_is_found_in_the_hubs_cache(
    store: FolderStore, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = tmp_path / "cache" / "models--owner--tiny"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    shutil.copytree(base, cached / "snapshots" / ("0" * 40))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    done = export("mine", "--format", "merged", "--to", tmp_path / "out", store=store)
    assert "Verified: 14 tensors are base + adapter" in done.stdout
    assert json.loads((tmp_path / "out" / "verification.json").read_text())["base"] == "owner/tiny"
