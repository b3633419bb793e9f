"""Merged weights, base + scale · B·A, computed on a CPU with numpy, and verified afterwards."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from precis.errors import ConfigError, ModelError
from precis.models.adapter import Product
from precis.models.base import refuse_quantized
from precis.models.tensors import FLOATS, Tensor, Weights, write_shards

_ROWS = 2048
"""Rows processed at once: for the widest layer of a 7B model, some 300 MB."""
_KEPT_MIN = 0.5
"""With less of its product left than this, a merged adapter is useless."""
_MANTISSA_BITS = {"F32": 24, "F16": 11, "BF16": 8}
_SMALLEST = {"F32": 2.0**-149, "F16": 2.0**-24, "BF16": 2.0**-133}


@dataclass(frozen=True)
class Proof:
    """The result of comparing merged weights with their base.

    Attributes:
        merged: the number of tensors that differ from the base by the adapter's product.
        equal: the number of tensors equal to the base's.
        kept: the share of the product that the weights' type could represent, 0 to 1: in 16 bits a
            number keeps 2 or 3 digits, and smaller additions are rounded away. None if the product
            is zero.
    """

    merged: int
    equal: int
    kept: float | None


def merge(
    base: Path, products: Mapping[str, Product], folder: Path, dtype: str | None = None
) -> None:
    """Write the merged weights of base and adapter to an existing folder, in 32 bits with `F32`.
    Raises ConfigError if the base is quantized, or is not the adapter's."""
    refuse_quantized(base, list(products))
    write_shards(_merge_tensors(Weights(base), products, dtype), folder)


def verify(
    base: Path, products: Mapping[str, Product], folder: Path, dtype: str | None = None
) -> Proof:
    """Read the merged weights, and compare every number with the base and the product.

    Each must be its type's nearest number to base + product, or equal to the base's in tensors
    without a product. Raises ModelError with the tensor's name otherwise.
    """
    before = Weights(base)
    after = Weights(folder)
    if set(before.files) != set(after.files):
        odd = min(set(before.files) ^ set(after.files))
        raise ModelError(f"The merged weights in {folder} and the base differ in having {odd}.")
    wanted = held = 0.0
    for name in before.files:
        old = before.read(name)
        new = after.read(name)
        if new.shape != old.shape:
            raise ModelError(f"The merged tensor {name} has another shape than the base's.")
        if name in products:
            kind = dtype or before.type_of(name)
            added = _compare(name, old, new, products[name], kind)
            wanted += added[0]
            held += added[1]
            continue
        expected = old.astype(_kind(old, dtype))
        if new.dtype != expected.dtype or new.tobytes() != expected.tobytes():
            raise ModelError(
                f"The merged tensor {name} is not the base's, and no adapter is on it."
            )
    kept = held / wanted if wanted else None
    if kept is not None and kept < _KEPT_MIN:
        raise ModelError(
            f"Merged in 16 bits, {kept:.0%} of what the adapter adds is left, since it is small "
            "beside the base's weights: that is not the model that was trained.",
            "Merge in 32 bits (--dtype float32), or serve the adapter itself.",
        )
    return Proof(len(products), len(before.files) - len(products), kept)


def _merge_tensors(
    base: Weights, products: Mapping[str, Product], dtype: str | None
) -> Iterator[tuple[str, Tensor]]:
    for name in base.files:
        tensor = base.read(name)
        kind = _kind(tensor, dtype)
        product = products.get(name)
        if product is None:
            yield name, tensor.astype(kind)
            continue
        if tensor.shape != product.shape:
            raise ConfigError(
                f"The base's {name} has shape {tensor.shape}, but the adapter adds "
                f"{product.shape} to it: it is another model than the one that was trained.",
                "Name the right one with --base.",
            )
        merged: Tensor = np.empty(tensor.shape, kind)
        for first in range(0, tensor.shape[0], _ROWS):
            block = slice(first, first + _ROWS)
            exact = tensor[block].astype(np.float64) + product.rows(block)
            merged[block] = exact.astype(np.float32).astype(kind)
        yield name, merged


def _compare(
    name: str, old: Tensor, new: Tensor, product: Product, kind: str
) -> tuple[float, float]:
    """Return Σ product², and Σ product · (merged - base): their quotient is the share kept."""
    if new.dtype != FLOATS[kind]:
        raise ModelError(
            f"The merged tensor {name} is of type {new.dtype}, and not {FLOATS[kind]}."
        )
    wanted = held = 0.0
    for first in range(0, old.shape[0], _ROWS):
        block = slice(first, first + _ROWS)
        base = old[block].astype(np.float64)
        added = product.rows(block)
        merged = new[block].astype(np.float64)
        error = np.abs(merged - (base + added))
        # The largest distance to a type's nearest number, and a little more for double rounding.
        _, exponent = np.frexp(base + added)
        step = np.maximum(np.ldexp(1.0, exponent - _MANTISSA_BITS[kind]), _SMALLEST[kind])
        found: NDArray[np.float64] = 0.5001 * step
        if not (error <= found).all():
            raise ModelError(
                f"The merged tensor {name} is not base + product: a number is off by "
                f"{np.nanmax(error):.3g}.",
                "The weights in this folder are not to be used.",
            )
        wanted += float(np.sum(added * added))
        held += float(np.sum(added * (merged - base)))
    return wanted, held


def _kind(tensor: Tensor, dtype: str | None) -> np.dtype[np.generic]:
    """Return the type to write a tensor in: integers and masks keep theirs."""
    is_float = tensor.dtype in FLOATS.values()
    return FLOATS[dtype] if dtype and is_float else tensor.dtype
