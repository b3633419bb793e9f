"""A LoRA adapter in PEFT's format: the products that it adds to tensors of its base.

The product is B·A · alpha / r (https://huggingface.co/docs/peft/package_reference/lora).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from precis.errors import ConfigError
from precis.models.tensors import Tensor, names_in, read_tensor

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"

_KEY = re.compile(r"base_model\.model\.(.+)\.lora_(A|B)(?:\.\w+)?\.weight")
_REFUSED = {
    "use_dora": "weight-decomposed (DoRA)",
    "fan_in_fan_out": "of transposed layers (fan_in_fan_out)",
    "modules_to_save": "with whole layers of its own (modules_to_save)",
    "lora_bias": "with biases (lora_bias)",
    "bias": "with biases (bias)",
    "layer_replication": "of repeated layers (layer_replication)",
    "use_rslora": "with another scale (use_rslora)",
    "rank_pattern": "of several ranks (rank_pattern)",
    "alpha_pattern": "of several scales (alpha_pattern)",
}
"""The kinds of adapter that no trainer here makes, and that are not merged."""


class _Lora(BaseModel, strict=True, extra="allow"):
    """An adapter's configuration, which is untrusted, with the fields used here."""

    peft_type: Literal["LORA"] = "LORA"
    base_model_name_or_path: str | None = None
    r: int = Field(ge=1)
    lora_alpha: int | float


@dataclass(frozen=True, eq=False)
class Product:
    """The product that an adapter adds to one tensor.

    Attributes:
        b: shape (out, r).
        a: shape (r, in).
        scale: the factor of B·A.
    """

    b: NDArray[np.float64]
    a: NDArray[np.float64]
    scale: float

    @property
    def shape(self) -> tuple[int, int]:
        return (self.b.shape[0], self.a.shape[1])

    def rows(self, block: slice) -> NDArray[np.float64]:
        """Return some rows of the product; all of a large tensor would take much memory."""
        found: NDArray[np.float64] = self.scale * (self.b[block] @ self.a)
        return found


def claimed_base(folder: Path) -> str:
    """Return the base model claimed by an adapter, which is untrusted."""
    return _config(folder).base_model_name_or_path or ""


def name_base(folder: Path, name: str) -> None:
    """Set an adapter's base to its public name, in place of a path of this machine."""
    config = _config(folder).model_copy(update={"base_model_name_or_path": name})
    content = config.model_dump_json(indent=2, exclude_unset=True)
    (folder / CONFIG_FILE).write_text(f"{content}\n", encoding="utf-8")


def rank_of(folder: Path) -> int:
    """Return the rank of an adapter's products, an option of its server."""
    return _config(folder).r


def read_adapter(folder: Path) -> dict[str, Product]:
    """Read the products of an adapter, by the name of the base's tensor. Raises ConfigError if it
    is not a plain LoRA, or its files don't fit each other."""
    config = _config(folder)
    others = config.model_extra or {}
    for name, words in _REFUSED.items():
        if others.get(name) and others[name] != "none":
            raise ConfigError(
                f"The adapter in {folder} is {words}: it can't be merged here.",
                "Export the adapter itself (--format adapter).",
            )
    path = folder / WEIGHTS_FILE
    halves: dict[str, dict[str, Tensor]] = {}
    for key in names_in(path):
        match = _KEY.fullmatch(key)
        if match is None:
            raise ConfigError(
                f"{path} holds {key}, which is not part of a plain LoRA of linear layers: it can't "
                "be merged here.",
                "Export the adapter itself (--format adapter).",
            )
        module, half = match.groups()
        halves.setdefault(module, {})[half] = read_tensor(path, key)
    return {f"{module}.weight": _product(path, module, ab, config) for module, ab in halves.items()}


def _product(path: Path, module: str, halves: Mapping[str, Tensor], config: _Lora) -> Product:
    if set(halves) != {"A", "B"}:
        raise ConfigError(f"{path}: {module} has only one half of its product: A or B is missing.")
    a = halves["A"].astype(np.float64)
    b = halves["B"].astype(np.float64)
    rank = config.r
    if a.ndim != 2 or b.ndim != 2 or a.shape[0] != rank or b.shape[1] != rank:
        raise ConfigError(
            f"{path}: {module} has A of shape {a.shape} and B of shape {b.shape}, but "
            f"{CONFIG_FILE} says rank {rank}."
        )
    return Product(b, a, config.lora_alpha / rank)


def _config(folder: Path) -> _Lora:
    path = folder / CONFIG_FILE
    try:
        return _Lora.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        said = f"{path} is not the configuration of a LoRA adapter, or can't be read."
        raise ConfigError(said) from error
