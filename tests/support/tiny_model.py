"""A language model of a few thousand random weights, in the shape of Qwen2 or Llama, and an
adapter of it as PEFT writes one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from precis.models.record import TrainingRecord, write_record
from precis.models.tensors import Tensor
from precis.records.ledger import Ledger, write_ledger
from precis.runs.checkpoints import commit
from precis.store import FolderStore, Store
from tests.support import ledgers

BASE = "owner/tiny"
AS_TRAINED: Mapping[str, Any] = {
    "base_model": BASE,
    "words_max": 120,
    "tokens_max": 2048,
    "documents": "owner/stories",
    "documents_split": "train",
    "train_size": 800,
    "val_size": 90,
    "seed": 1,
    "judge": "gemini-2.5-flash (google)",
    "version": "0.1.0",
    "commit": "0123456789ab",
}
"""The record of a run."""
AN_AGENT: Mapping[str, Any] = {
    **AS_TRAINED,
    "environment": "python",
    "tool_call_parser": "llama3_json",
    "documents": "tic_tac_toe.py",
    "documents_split": "",
    "judge": "",
}
"""The record of a run whose adapter plays a game."""
_HIDDEN, _KV, _FFN, _VOCABULARY, _LAYERS = 32, 16, 48, 40, 2
_SHAPES = {
    "self_attn.q_proj": (_HIDDEN, _HIDDEN),
    "self_attn.k_proj": (_KV, _HIDDEN),
    "self_attn.v_proj": (_KV, _HIDDEN),
    "self_attn.o_proj": (_HIDDEN, _HIDDEN),
    "mlp.gate_proj": (_FFN, _HIDDEN),
    "mlp.up_proj": (_FFN, _HIDDEN),
    "mlp.down_proj": (_HIDDEN, _FFN),
}


def write_base(folder: Path, dtype: Any = ml_dtypes.bfloat16) -> dict[str, Tensor]:
    """Write a model into a new folder, its weights in two files; returns them."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    weights: dict[str, Tensor] = {}
    weights["model.embed_tokens.weight"] = random.normal(0, 0.02, (_VOCABULARY, _HIDDEN))
    for layer in range(_LAYERS):
        for module, shape in _SHAPES.items():
            weights[f"model.layers.{layer}.{module}.weight"] = random.normal(0, 0.02, shape)
        for name in ("q_proj", "k_proj", "v_proj"):
            size = _SHAPES[f"self_attn.{name}"][0]
            weights[f"model.layers.{layer}.self_attn.{name}.bias"] = random.normal(0, 0.02, size)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[f"model.layers.{layer}.{norm}.weight"] = np.ones(_HIDDEN)
    weights["model.norm.weight"] = np.ones(_HIDDEN)
    weights = {name: tensor.astype(dtype) for name, tensor in weights.items()}
    weight_map: dict[str, str] = {}
    for number in range(2):
        file = f"model-0000{number + 1}-of-00002.safetensors"
        chosen = {name: weights[name] for name in list(weights)[number::2]}
        save_file(chosen, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(chosen, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    known = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "torch_dtype": np.dtype(dtype).name,
        "tie_word_embeddings": True,
    }
    (folder / "config.json").write_text(json.dumps(known))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text("The base's own card.")
    (folder / "LICENSE").write_text("A licence.")
    return weights


def write_adapter(
    folder: Path, rank: int = 4, size: float = 0.05, **config: Any
) -> dict[str, Tensor]:
    """Write an adapter of the model's attention and MLP into a new folder; returns its halves.

    Args:
        size: standard deviation of the halves' numbers.
    """
    folder.mkdir(parents=True)
    random = np.random.default_rng(8)
    halves: dict[str, Tensor] = {}
    for layer in range(_LAYERS):
        for module, (rows, columns) in _SHAPES.items():
            key = f"base_model.model.model.layers.{layer}.{module}"
            halves[f"{key}.lora_A.weight"] = random.normal(0, size, (rank, columns))
            halves[f"{key}.lora_B.weight"] = random.normal(0, size, (rows, rank))
    halves = {name: half.astype(np.float32) for name, half in halves.items()}
    save_file(halves, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    known = {
        "peft_type": "LORA",
        "base_model_name_or_path": BASE,
        "r": rank,
        "lora_alpha": 2 * rank,
        "target_modules": [name.rpartition(".")[2] for name in _SHAPES],
        **config,
    }
    (folder / "adapter_config.json").write_text(json.dumps(known))
    (folder / "training_args.bin").write_bytes(b"pickled")
    return halves


def store_with_adapter(
    folder: Path, record: Mapping[str, Any] = AS_TRAINED, **adapter: Any
) -> FolderStore:
    """A store in a folder, with the run `mine` of a LoRA adapter.

    Args:
        record: of its training.
        adapter: as for `write_adapter`.
    """
    store = FolderStore(folder / "store")
    write_adapter(folder / "adapter", **adapter)
    put_run(store, "mine", folder / "adapter", record=record)
    return store


def put_run(
    store: Store, name: str, adapter: Path, steps: int = 2, record: Mapping[str, Any] = AS_TRAINED
) -> None:
    """A run in the store whose every checkpoint is this adapter; its best is step 1."""
    ledger = Ledger(model=name, config="c", corpus="k")
    for step in range(steps + 1):
        commit(store, name, step, adapter, "c")
    for step in range(steps):
        ledger = ledger.advance(ledgers.record(step))
    for step in range(steps + 1):
        ledger = ledger.add_validation(ledgers.validation(step, 0.6 if step == 1 else 0.5))
    write_ledger(store, ledger, None)
    write_record(store, name, TrainingRecord.model_validate(record))
