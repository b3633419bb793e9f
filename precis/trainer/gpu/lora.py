"""The adapter's share of a layer in vLLM, for an engine that samples from one adapter at a time.

vLLM's own kernels find the adapter of each token, and take three launches beside a layer's product:
1.9 of the 6.4 ms of a token of 40 rollouts (Qwen2.5-3B, rank 8). With one adapter a batch
(`max_loras: 1`, which vLLM's scheduler keeps) the rows of A are below the layer's weights, so
that one product computes W x and A x, and one kernel adds B A x. It is LoRA's arithmetic
unchanged: nothing is merged, and what 16 bits would round away of a merged weight stays.

A batch without an adapter does not exist here: the trainer's server refuses what names none.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch.nn import functional
from vllm.lora import lora_model, model_manager
from vllm.lora.layers import column_parallel_linear, row_parallel_linear
from vllm.model_executor.layers.linear import UnquantizedLinearMethod

_LAYERS: tuple[Any, ...] = (
    column_parallel_linear.MergedQKVParallelLinearWithLoRA,
    column_parallel_linear.MergedColumnParallelLinearWithLoRA,
    row_parallel_linear.RowParallelLinearWithLoRA,
)
_FEW = 64
"""Tokens up to which our kernel is faster than cuBLAS's, which copies the layer's output first."""
_SMALL = 128
"""Rows of A up to which a block's fit into a multiprocessor's shared memory."""


@triton.jit  # type: ignore[untyped-decorator]
def _add_adapter(  # type: ignore[no-untyped-def]
    both,
    b,
    out,
    tokens,
    width,
    stride,
    rank: tl.constexpr,
    tokens_block: tl.constexpr,
    width_block: tl.constexpr,
):
    """Compute both[:, :width] + both[:, width:] @ b.T of a block of tokens and outputs."""
    column = tl.program_id(0) * width_block + tl.arange(0, width_block)
    row = (tl.program_id(1) * tokens_block + tl.arange(0, tokens_block)).to(tl.int64)
    part = tl.arange(0, rank)
    rows, columns = row[:, None] < tokens, column[None, :] < width
    ax = tl.load(both + row[:, None] * stride + width + part[None, :], mask=rows, other=0.0)
    bs = tl.load(b + column[None, :] * rank + part[:, None], mask=columns, other=0.0)
    wx = tl.load(both + row[:, None] * stride + column[None, :], mask=rows & columns, other=0.0)
    total = tl.dot(ax, bs) + wx.to(tl.float32)
    place = out + row[:, None] * width + column[None, :]
    tl.store(place, total.to(out.dtype.element_ty), mask=rows & columns)


def add_adapter(both: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Add an adapter's share to a layer's output.

    Args:
        both: [tokens, width + rank], W x and behind it A x.
        b: [width, rank], with a rank that is a power of two from 16 on.

    Returns:
        W x + B A x, [tokens, width] and contiguous.
    """
    tokens, width, rank = both.shape[0], b.shape[0], b.shape[1]
    if tokens > _FEW or rank > _SMALL:
        return torch.addmm(both[:, :width], both[:, width:], b.t())
    out = torch.empty(tokens, width, dtype=both.dtype, device=both.device)
    at_once = max(16, triton.next_power_of_2(tokens))
    wide = 64 if width <= 4096 else 128
    grid = (triton.cdiv(width, wide), triton.cdiv(tokens, at_once))
    _add_adapter[grid](
        both, b, out, tokens, width, both.stride(0), rank, at_once, wide, num_warps=4
    )
    return out


def has_one_adapter(layer: Any, max_loras: int) -> bool:
    """Return whether a layer's product can be extended: one adapter, one GPU, weights of 16
    bits."""
    is_plain = type(layer.base_layer.quant_method) is UnquantizedLinearMethod
    return (max_loras, layer.tp_size) == (1, 1) and is_plain


def create_weights(layer: Any, lora_config: Any) -> None:
    """Allocate an adapter's weights, A below the layer's own. vLLM writes an adapter into
    `lora_a_stacked` and `lora_b_stacked`, which are views here."""
    base = layer.base_layer
    sizes = tuple(getattr(layer, "output_slices", (layer.output_size,)))
    rank = lora_config.max_lora_rank
    width, read = base.weight.shape
    rows = max(16, triton.next_power_of_2(rank * len(sizes)))
    like = {"dtype": base.weight.dtype, "device": base.weight.device}
    both = torch.zeros(width + rows, read, **like)
    both[:width].copy_(base.weight.data)
    base.weight.data = both[:width]
    b = torch.zeros(width, rows, **like)
    stacked_a, stacked_b = [], []
    written = 0
    for number, size in enumerate(sizes):
        own = slice(number * rank, (number + 1) * rank)
        stacked_a.append(both[width:][own][None, None])
        stacked_b.append(b[written : written + size, own][None, None])
        written += size
    layer.lora_config = lora_config
    layer.lora_a_stacked, layer.lora_b_stacked = tuple(stacked_a), tuple(stacked_b)
    layer.output_slices = sizes
    layer.both, layer.b = both, b
    layer.bias_of_both = None if base.bias is None else functional.pad(base.bias.data, (0, rows))


def apply(layer: Any, x: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return W x + B A x, and the bias where there is one."""
    tokens = x.reshape(-1, x.shape[-1])
    both = functional.linear(tokens, layer.both, None if bias is None else layer.bias_of_both)
    return add_adapter(both, layer.b).view(*x.shape[:-1], -1)


def _extend(kind: Any) -> None:
    """Have a class of vLLM's layers use the functions above where they can."""
    created, applied = kind.create_lora_weights, kind.apply

    def create_lora_weights(
        self: Any, max_loras: int, lora_config: Any, model_config: Any = None
    ) -> None:
        if has_one_adapter(self, max_loras):
            create_weights(self, lora_config)
        else:
            self.both = None
            created(self, max_loras, lora_config, model_config)

    def apply_either(self: Any, x: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
        return applied(self, x, bias) if self.both is None else apply(self, x, bias)

    kind.create_lora_weights, kind.apply = create_lora_weights, apply_either


def extend_layers() -> None:
    """Have vLLM, in this process, compute adapters as above."""
    for kind in _LAYERS:
        _extend(kind)
    # vLLM keeps an adapter in pinned memory, to switch between many: pinning its few hundred
    # tensors takes longer than it spares an adapter that is copied to the GPU once.
    for module in (lora_model, model_manager):
        module.is_pin_memory_available = lambda: False
