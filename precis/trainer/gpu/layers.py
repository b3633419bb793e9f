"""A model's layers in fewer kernels than with PEFT and Transformers.

Half of an update of a small model was spent between its matrix products. The numbers are the same
up to the rounding of 16 bits.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from peft.tuners.lora import LoraLayer


class AdaptedLayers:
    """A model's adapted and normalizing layers, changed to compute as here.

    Args:
        model: with one adapter of plain LoRA, without dropout.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._adapters = []
        for module in model.modules():
            if isinstance(module, LoraLayer):
                self._adapters.append(_Adapter(module))
            elif type(module).__name__.endswith("RMSNorm") and hasattr(module, "variance_epsilon"):
                module.forward = partial(_normalize, module)

    def round(self, dtype: torch.dtype) -> None:
        """Copy the adapter's present weights in the precision of the layers that they adapt. Once
        before each forward pass, since a kernel for each weight would be 500 kernels."""
        scales = []
        downs = []
        ups = []
        for adapter in self._adapters:
            scales.append(adapter.scale)
            downs.append(adapter.down)
            ups.append(adapter.up)
        rounded = _Rounded.apply(dtype, scales, *downs, *ups)
        for at, adapter in enumerate(self._adapters):
            adapter.rounded = rounded[at], rounded[len(downs) + at]


class _Adapter:
    """The low-rank term that is added to a layer's own product.

    Attributes:
        down: [rank, in], the layer's A.
        up: [out, rank], its B.
        scale: of what it adds.
        rounded: both in lower precision, the first times the scale.
    """

    def __init__(self, layer: Any) -> None:
        [name] = layer.active_adapters
        self.down, self.up = layer.lora_A[name].weight, layer.lora_B[name].weight
        self.scale = layer.scaling[name]
        self.rounded: tuple[torch.Tensor, torch.Tensor]
        self._base = layer.base_layer
        layer.forward = self.forward

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        product = self._base(states)
        if product._is_view():  # of 4-bit weights; autograd forbids overwriting it
            product = product.clone()
        return _Addition.apply(product, states, *self.rounded)


class _Rounded(torch.autograd.Function):  # type: ignore[misc]
    """Weights in another precision, the first of them times a scale each."""

    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, scales: Sequence[float], *weights: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.scales = scales
        rounded = [torch.empty_like(weight, dtype=dtype) for weight in weights]
        torch._foreach_copy_(rounded, weights)
        torch._foreach_mul_(rounded[: len(scales)], scales)
        return tuple(rounded)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        whole = [torch.empty_like(gradient, dtype=torch.float32) for gradient in gradients]
        torch._foreach_copy_(whole, gradients)
        torch._foreach_mul_(whole[: len(ctx.scales)], ctx.scales)
        return None, None, *whole


class _Addition(torch.autograd.Function):  # type: ignore[misc]
    """`product += states @ down.T @ up.T`: product [..., out] is overwritten, states [..., in]."""

    @staticmethod
    def forward(
        ctx: Any,
        product: torch.Tensor,
        states: torch.Tensor,
        down: torch.Tensor,
        up: torch.Tensor,
    ) -> torch.Tensor:
        low = states.flatten(0, -2).mm(down.t())
        product.view(-1, product.shape[-1]).addmm_(low, up.t())
        ctx.mark_dirty(product)
        ctx.save_for_backward(states, low, down, up)
        return product

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        states, low, down, up = ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        of_low = rows.mm(up)
        of_states = of_low.mm(down).view_as(states) if ctx.needs_input_grad[1] else None
        return gradient, of_states, of_low.t().mm(states.flatten(0, -2)), rows.t().mm(low)


def _normalize(norm: Any, states: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(
        states, norm.weight.shape, norm.weight, norm.variance_epsilon
    )
