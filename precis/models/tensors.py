"""Weights in safetensors files, read and written tensor by tensor.

bfloat16 is ml_dtypes' type for numpy, whose casts round to the nearest number.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes  # registers bfloat16 with numpy
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from precis.errors import ConfigError

Tensor = NDArray[Any]

INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"
FLOATS = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
"""The types that can be merged, by safetensors' names."""

_SHARD_BYTES = 1_000_000_000


@dataclass(frozen=True)
class Weights:
    """The weights of a model in a folder, in one file or several with an index."""

    folder: Path

    @cached_property
    def files(self) -> dict[str, Path]:
        """The file of each tensor. Raises ConfigError if there are none, or a file is missing or
        damaged."""
        index = self.folder / INDEX_FILE
        if index.exists():
            try:
                names: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
                return {tensor: self.folder / file for tensor, file in names.items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigError(
                    f"{index} can't be read as an index of weights.", "Fetch the model again."
                ) from error
        single = self.folder / SINGLE_FILE
        if not single.exists():
            raise ConfigError(
                f"{self.folder} holds no {SINGLE_FILE} and no {INDEX_FILE}.",
                "Give a folder with a model's weights in safetensors.",
            )
        return dict.fromkeys(names_in(single), single)

    def type_of(self, name: str) -> str:
        """Return a tensor's type, by safetensors' name."""
        with _open(self.files[name]) as file:
            return str(file.get_slice(name).get_dtype())

    def read(self, name: str) -> Tensor:
        """Return a tensor as it is in its file."""
        return read_tensor(self.files[name], name)


def names_in(path: Path) -> list[str]:
    with _open(path) as file:
        return list(file.keys())


def read_tensor(path: Path, name: str) -> Tensor:
    """Return one tensor of a file. Raises ConfigError if it is missing, or has a type unknown to
    numpy."""
    with _open(path) as file:
        try:
            found: Tensor = file.get_tensor(name)
        except (SafetensorError, TypeError) as error:
            raise ConfigError(
                f"{path}: the tensor {name} can't be read ({error}).", "Fetch the model again."
            ) from error
    return found


def write_shards(
    tensors: Iterable[tuple[str, Tensor]], folder: Path, shard_bytes: int = _SHARD_BYTES
) -> None:
    """Write tensors to `model-00001-of-….safetensors` files with their index, in their order.

    At most one shard is in memory. A single file is named `model.safetensors`.
    """
    written: list[list[str]] = []
    total = 0
    for shard in _shards(tensors, shard_bytes):
        save_file(shard, _part(folder, len(written) + 1), metadata={"format": "pt"})
        written.append(list(shard))
        total += sum(tensor.nbytes for tensor in shard.values())
    if len(written) == 1:
        _part(folder, 1).rename(folder / SINGLE_FILE)
        return
    weight_map: dict[str, str] = {}
    for number, names in enumerate(written, start=1):
        file = f"model-{number:05d}-of-{len(written):05d}.safetensors"
        _part(folder, number).rename(folder / file)
        weight_map |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / INDEX_FILE).write_text(json.dumps(index, indent=1) + "\n")


def _shards(tensors: Iterable[tuple[str, Tensor]], shard_bytes: int) -> Iterator[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors:
        if shard and size + tensor.nbytes > shard_bytes:
            yield shard
            shard = {}
            size = 0
        shard[name] = tensor
        size += tensor.nbytes
    if shard:
        yield shard


def _part(folder: Path, number: int) -> Path:
    """Return a shard's temporary name, until their number is known."""
    return folder / f".model-{number:05d}.writing"


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"{path} can't be read as safetensors ({error}).", "Fetch the model again."
        ) from error
