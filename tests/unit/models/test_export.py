"""A trained adapter as a folder for others: the merged weights are proven, and nothing is left
where something is wrong."""

import json
import math
import os
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
from precis.errors import ConfigError, ModelError
from precis.models.adapter import read_adapter
from precis.models.export import export_model
from precis.models.merge import merge, verify
from precis.models.reference import NamedCheckpoint, Reference, find_model
from precis.models.tensors import Tensor, Weights, write_shards
from precis.settings.tinker import KEPT_FILE
from precis.store import FolderStore
from tests.support.command import run_precis
from tests.support.tiny_model import put_run, store_with_adapter, write_adapter, write_base

INDEX = "model.safetensors.index.json"
QUERY = "model.layers.0.self_attn.q_proj"


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return store_with_adapter(tmp_path)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    write_base(tmp_path / "base")
    return tmp_path / "base"


def export(*arguments: object, store: FolderStore, code: int = 0) -> Result:
    return run_precis("model", "export", *arguments, store=store, code=code)


def merged(store: FolderStore, base: Path, out: Path, *options: object, code: int = 0) -> Result:
    asked = ("mine", "--format", "merged", "--base", base, "--to", out, *options)
    return export(*asked, store=store, code=code)


def json_in(path: Path) -> Any:
    return json.loads(path.read_text())


def all_weights(folder: Path) -> dict[str, Tensor]:
    weights = Weights(folder)
    return {name: weights.read(name) for name in weights.files}


def merge_into(folder: Path, dtype: Any = ml_dtypes.bfloat16) -> tuple[Any, ...]:
    """Merge a base and an adapter; gives their weights, and the products."""
    weights = write_base(folder / "base", dtype)
    halves = write_adapter(folder / "adapter")
    products = read_adapter(folder / "adapter")
    (folder / "merged").mkdir()
    merge(folder / "base", products, folder / "merged")
    return weights, halves, products


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


@pytest.mark.parametrize("file_format", ["adapter", "merged"])
def test_a_checkpoint_gives_only_its_own_away(file_format: str, base: Path, tmp_path: Path) -> None:
    """Programs and pickles, which whoever may write the store may have put there."""
    store = FolderStore(tmp_path / "store")
    adapter = tmp_path / "adapter"
    write_adapter(adapter)
    (adapter / "nested").mkdir()
    strange = ["modeling_evil.py", "optimizer.pkl", "README.md", "metrics.json", ".gitattributes"]
    strange += ["optimizer.pt", "nested/adapter_model.bin", "nested/tokenizer.json", KEPT_FILE]
    for name in strange:
        (adapter / name).write_text("import os")
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        (adapter / name).write_text("{}")
    put_run(store, "mine", adapter)
    out = tmp_path / "out"
    out.mkdir()  # an empty one may be there
    asked = ("mine", "--step", "best", "--format", file_format, "--base", base, "--to", out)
    export(*asked, store=store)
    found = {str(file.relative_to(out)) for file in out.rglob("*")}
    weights = {
        "adapter": "adapter_config.json adapter_model.safetensors",
        "merged": "model.safetensors config.json tokenizer.json LICENSE verification.json",
    }[file_format].split()
    kept = {"tokenizer_config.json", "chat_template.jinja", "prompt.json"}
    assert found == {*weights, *kept}
    prompt = json_in(out / "prompt.json")
    assert prompt["messages"] == summary_messages("{document}", 120)
    assert (prompt["words_max"], prompt["temperature"], prompt["max_tokens"]) == (120, 0.0, 304)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_merged_weights_are_base_plus_product_to_the_last_bit(tmp_path: Path, dtype: Any) -> None:
    weights, halves, products = merge_into(tmp_path, dtype)
    expected = by_hand(weights, halves, 8 / 4)
    found = all_weights(tmp_path / "merged")
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].tobytes() == tensor.tobytes(), name
    proof = verify(tmp_path / "base", products, tmp_path / "merged")
    assert (proof.merged, proof.equal) == (14, len(weights) - 14)
    assert proof.kept == pytest.approx(1.0, abs=0.02)


def flipped(tensor: Tensor) -> Tensor:
    tensor.view(np.uint16).flat[5] ^= 1
    return tensor


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (f"{QUERY}.weight", flipped, "q_proj.weight is not base \\+ product"),
        (f"{QUERY}.bias", flipped, "q_proj.bias is not the base's"),
        ("model.embed_tokens.weight", flipped, "embed_tokens.weight is not the base's"),
        ("model.norm.weight", None, "differ in having model.norm.weight"),
        ("model.norm.weight", lambda norm: norm.astype(np.float32), "norm.weight is not the base"),
    ],
)
def test_one_wrong_bit_is_found(
    tmp_path: Path, name: str, change: Callable[[Tensor], Tensor] | None, said: str
) -> None:
    _, _, products = merge_into(tmp_path)
    tensors = all_weights(tmp_path / "merged")
    spoiled = tensors.pop(name)
    if change is not None:
        tensors[name] = change(spoiled)
    save_file(tensors, tmp_path / "merged" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=said):
        verify(tmp_path / "base", products, tmp_path / "merged")


def test_an_update_too_small_for_16_bits_is_merged_in_32(tmp_path: Path, base: Path) -> None:
    store = store_with_adapter(tmp_path / "faint", size=1e-4)
    config = json_in(base / "config.json")
    config["dtype"] = config.pop("torch_dtype")  # as newer transformers write it
    (base / "config.json").write_text(json.dumps(config))
    out = tmp_path / "out"
    refused = merged(store, base, out, code=1)
    assert "0% of what the adapter adds is left" in refused.stderr
    assert not out.exists()
    merged(store, base, out, "--dtype", "float32")
    assert json_in(out / "verification.json")["kept"] > 0.99
    assert {json_in(out / "config.json")[key] for key in ("dtype", "torch_dtype")} == {"float32"}
    assert {one.dtype for one in all_weights(out).values()} == {np.dtype(np.float32)}


def test_a_small_update_says_how_much_of_it_is_left(tmp_path: Path, base: Path) -> None:
    done = merged(store_with_adapter(tmp_path / "small", size=3e-3), base, tmp_path / "out")
    kept = json_in(tmp_path / "out" / "verification.json")["kept"]
    assert 0.5 < kept < 0.9
    assert f"Only {kept:.0%} of what the adapter adds is left" in done.stderr
    done = merged(store_with_adapter(tmp_path / "zero", size=0.0), base, tmp_path / "zeros")
    assert "The adapter adds nothing yet" in done.stderr


def test_shards_hold_what_was_given_in_its_order(tmp_path: Path) -> None:
    tensors = {str(number): np.full((10, 10), number, np.float32) for number in range(7)}
    write_shards(tensors.items(), tmp_path, shard_bytes=1000)
    assert len(list(tmp_path.glob("model-*-of-00004.safetensors"))) == 4
    written = all_weights(tmp_path)
    assert list(written) == list(tensors)
    assert all((written[name] == tensor).all() for name, tensor in tensors.items())
    assert json_in(tmp_path / INDEX)["metadata"]["total_size"] == 2800


def change_weight(change: Callable[[Tensor], Tensor]) -> Callable[[Path], None]:
    def spoil(base: Path) -> None:
        file = base / "model-00001-of-00002.safetensors"
        weights = load_file(file)
        name = next(name for name in weights if name.endswith("proj.weight"))
        save_file({**weights, name: change(weights[name])}, file)

    return spoil


def write(name: str, text: str) -> Callable[[Path], object]:
    return lambda base: (base / name).write_text(text)


INTACT = Path.exists
NO_INDEX = "can't be read as an index of weights"
QUANTIZED = "is quantized (4 or 8 bits)"


@pytest.mark.parametrize(
    ("adapter", "spoil", "said"),
    [
        ({"use_dora": True}, INTACT, "DoRA"),
        ({"modules_to_save": ["lm_head"]}, INTACT, "modules_to_save"),
        ({"bias": "all"}, INTACT, "biases"),
        ({"rank_pattern": {"q_proj": 2}}, INTACT, "of several ranks"),
        ({"peft_type": "IA3"}, INTACT, "not the configuration of a LoRA"),
        ({"r": 5}, INTACT, "says rank 5"),
        ({}, write("config.json", '{"quantization_config": {"load_in_4bit": true}}'), QUANTIZED),
        ({}, change_weight(lambda weight: weight.view(np.uint8)), QUANTIZED),
        ({}, change_weight(lambda weight: weight[:-1].copy()), "it is another model"),
        ({}, write(INDEX, '{"weight_map": {}}'), "has no tensor model.layers.0."),
        ({}, write(INDEX, "{"), NO_INDEX),
        ({}, write(INDEX, "{}"), NO_INDEX),
        ({}, write(INDEX, '{"weight_map": []}'), NO_INDEX),
        ({}, write(INDEX, "[]"), NO_INDEX),
        ({}, write("config.json", "[]"), "is not a model's folder. Name another"),
    ],
)
def test_what_is_no_plain_product_or_is_no_base_for_it_is_refused(
    tmp_path: Path, base: Path, adapter: dict[str, Any], spoil: Callable[[Path], object], said: str
) -> None:
    spoil(base)
    done = merged(store_with_adapter(tmp_path / "odd", **adapter), base, tmp_path / "out", code=1)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["base", "odd"]


TOO_LONG = "x" * 300
"""A path that can't be looked at, as one below a folder that is another user's can't be."""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mine", "--format", "merged"), "The base model owner/tiny is neither a folder nor"),
        (("mine", "--format", "gguf"), "convert_hf_to_gguf.py is not on PATH"),
        (("mine", "--format", "gguf", "--converter", "none.py"), "is not at none.py"),
        (("mine@1", "--step", "2"), "names a step already"),
        (("mine", "--step", "9"), "Steps that are there: 0, 1, 2."),
        (("mine", "--step", "x"), "names no model"),
        (("mine", "--base", "~no-such-user/base"), "is neither a folder nor a name on the Hub"),
        (("mine", "--base", f"../{TOO_LONG}"), "is neither a folder nor a name on the Hub"),
        (("mine", "--format", "gguf", "--converter", TOO_LONG), "convert_hf_to_gguf.py is not at"),
        (("mine", "--to", "/"), "/ is there already, and is not empty."),
        (("mine", "--to", TOO_LONG), "File name too long. Choose another folder."),
        (("mine", "--to", "~no-such-user/out"), "lies in the home of a user who is not there."),
    ],
)
def test_a_mistake_gets_one_sentence_and_leaves_nothing(
    store: FolderStore, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = export("--to", tmp_path / "out", *arguments, store=store, code=1)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["adapter", "store"]


def test_of_two_exports_into_one_folder_one_writes_it_and_the_other_says_so(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = find_model(store, Reference("mine"))
    fetch = NamedCheckpoint.fetch
    out = tmp_path / "out"
    for killed in (99999999, os.getpid()):  # in a container each has the same number
        (tmp_path / f".out.{killed}.incoming").mkdir()

    def export_in_another_process() -> None:
        with monkeypatch.context() as there:
            there.setattr(NamedCheckpoint, "fetch", fetch)
            there.setattr(os, "getpid", lambda: 1)
            export_model(model, out, "adapter")

    def fetch_meanwhile(model: NamedCheckpoint, folder: Path) -> Path:
        fetched = fetch(model, folder)
        export_in_another_process()
        return fetched

    monkeypatch.setattr(NamedCheckpoint, "fetch", fetch_meanwhile)
    with pytest.raises(ConfigError, match="out is there already, and is not empty"):
        export_model(model, out, "adapter")
    assert read_adapter(out)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["adapter", "out", "store"]


CONVERTER = f"""#!{sys.executable}
import sys
from pathlib import Path

merged, _, out, _, kind, _, name = sys.argv[1:]
if not (Path(merged) / "model.safetensors").exists() or name != "mine@1":
    sys.exit("nothing to convert")
Path(out).write_text("GGUF " + kind)
"""


def test_gguf_is_made_with_a_modelfile(store: FolderStore, base: Path, tmp_path: Path) -> None:
    converter = tmp_path / "convert_hf_to_gguf.py"
    converter.write_text(CONVERTER)
    converter.chmod(converter.stat().st_mode | stat.S_IXUSR)
    asked = ("mine@1", "--format", "gguf", "--base", base, "--converter", converter, "--to")
    export(*asked, tmp_path / "out", store=store)
    assert (tmp_path / "out" / "mine-1.gguf").read_text() == "GGUF bf16"
    export(*asked, tmp_path / "whole", "--dtype", "float32", store=store)
    assert (tmp_path / "whole" / "mine-1.gguf").read_text() == "GGUF f32"
    modelfile = (tmp_path / "out" / "Modelfile").read_text()
    assert modelfile.startswith("FROM ./mine-1.gguf\n")
    assert "temperature 0\nPARAMETER repeat_penalty 1\nPARAMETER num_ctx 2048\n" in modelfile
    assert summary_messages("", 120)[0]["content"] in modelfile
    failures = [
        (f"{sys.executable}\nraise SystemExit('It is not supported')", "It is not supported"),
        (f"{sys.executable}\nimport no_such", "(ModuleNotFoundError: No module named 'no_such')"),
        (f"{sys.executable}\nimport no_such", "install llama.cpp's requirements"),
        (f"{sys.executable}\nimport os\nos.write(2, b'\\xff is odd')", "� is odd"),
        ("/nowhere/python3", f"{converter} can't be run: No such file or directory."),
    ]
    for program, said in failures:
        converter.write_text(f"#!{program}")
        assert said in export(*asked, tmp_path / "again", store=store, code=1).stderr
        assert not (tmp_path / "again").exists()


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
    assert json_in(tmp_path / "out" / "verification.json")["base"] == "owner/tiny"
