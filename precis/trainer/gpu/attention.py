"""Attention over a packed sequence: answers see their prompt and themselves, not each other.

Each prompt, and each answer, is a part. The queries of a part meet the keys that it sees alone, by
flash attention; with a mask over the whole sequence four times as many pairs were computed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.attention.bias import causal_lower_right
from transformers import AttentionInterface

from precis.trainer.gpu.packing import PackedSequence

ATTENTION = "precis"
"""Its name in Transformers. The model is then called with `parts`."""


@dataclass(frozen=True)
class Parts:
    """The prompts and answers of a packed sequence.

    Attributes:
        lengths: tokens of each part.
        seen: places in the sequence of the keys of each part, one part after the other: those of
            its prompt, then its own. A query sees the keys up to its own.
        seen_lengths: keys of each part.
        ends: of the parts in the sequence, with a 0 before them.
        seen_ends: of the parts in `seen`, the same.
        uses: places in `seen` of each token's key, one token after the other.
        use_starts: of each token in `uses`.
    """

    lengths: list[int]
    seen: torch.Tensor
    seen_lengths: list[int]
    ends: torch.Tensor
    seen_ends: torch.Tensor
    uses: torch.Tensor
    use_starts: torch.Tensor


def parts_of(sequence: PackedSequence, device: torch.device) -> Parts:
    """Return the parts of a packed sequence; each is in one piece."""
    starts = np.flatnonzero(np.diff(sequence.groups, prepend=sequence.groups[0] - 1))
    prompts: dict[int, npt.NDArray[np.intp]] = {}
    lengths = []
    seen = []
    seen_lengths = []
    for own in np.split(np.arange(len(sequence.tokens)), starts[1:]):
        group, parent = int(sequence.groups[own[0]]), int(sequence.parents[own[0]])
        if group == parent:
            prompts[group] = own
        keys = own if group == parent else np.concatenate([prompts[parent], own])
        lengths.append(len(own))
        seen.append(keys)
        seen_lengths.append(len(keys))
    places = np.concatenate(seen)
    counts = np.bincount(places)
    return Parts(
        lengths,
        torch.from_numpy(places).to(device),
        seen_lengths,
        torch.tensor(np.cumsum([0, *lengths]), dtype=torch.int32, device=device),
        torch.tensor(np.cumsum([0, *seen_lengths]), dtype=torch.int32, device=device),
        torch.from_numpy(np.argsort(places, kind="stable")).to(device),
        torch.from_numpy(np.cumsum(counts) - counts).to(device),
    )


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    parts: Parts,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one sequence, as Transformers calls it; part by part where there is no GPU.

    Args:
        query: [1, heads, tokens, width]; key and value with as many heads, or with fewer.

    Returns:
        [1, tokens, heads, width], and no weights.
    """
    if query.is_cuda:
        queries = query[0].transpose(0, 1)
        keys = key[0].transpose(0, 1)
        values = value[0].transpose(0, 1)
        return _Flash.apply(queries, keys, values, parts, scaling)[None], None
    outputs = []
    for part_query, part_key, part_value in zip(
        query[0].split(parts.lengths, dim=1),
        key[0][:, parts.seen].split(parts.seen_lengths, dim=1),
        value[0][:, parts.seen].split(parts.seen_lengths, dim=1),
        strict=True,
    ):
        output = torch.nn.functional.scaled_dot_product_attention(
            part_query,
            part_key,
            part_value,
            causal_lower_right(part_query.shape[1], part_key.shape[1]),
            scale=scaling,
            enable_gqa=True,
        )
        outputs.append(output)
    return torch.cat(outputs, dim=1).transpose(0, 1)[None], None


class _Flash(torch.autograd.Function):  # type: ignore[misc]
    """PyTorch's flash attention, and a backward pass that gives the same bits each time.

    query: [tokens, heads, width]; key and value: [tokens, fewer heads, width].
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        parts: Parts,
        scale: float,
    ) -> torch.Tensor:
        keys, values = key.index_select(0, parts.seen), value.index_select(0, parts.seen)
        output, normalizer, random_state, unused, _ = torch.ops.aten._flash_attention_forward(
            query, keys, values, *_flash_options(parts), return_debug_mask=False, scale=scale
        )
        ctx.save_for_backward(query, keys, values, output, normalizer, random_state, unused)
        ctx.parts, ctx.scale = parts, scale
        return output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, keys, values, output, normalizer, random_state, unused = ctx.saved_tensors
        parts: Parts = ctx.parts
        before = torch._C._get_deterministic_algorithms()
        torch._C._set_deterministic_algorithms(True)
        try:
            of_query, of_keys, of_values = torch.ops.aten._flash_attention_backward(
                gradient,
                query,
                keys,
                values,
                output,
                normalizer,
                *_flash_options(parts),
                random_state,
                unused,
                scale=ctx.scale,
            )
        finally:
            torch._C._set_deterministic_algorithms(before)
        return of_query, _sum_uses(of_keys, parts), _sum_uses(of_values, parts), None, None


def _flash_options(parts: Parts) -> tuple[Any, ...]:
    """Return the ends of queries and keys, their longest, no dropout, and that no key is later."""
    longest, longest_seen = max(parts.lengths), max(parts.seen_lengths)
    return parts.ends, parts.seen_ends, longest, longest_seen, 0.0, True


def _sum_uses(gradient: torch.Tensor, parts: Parts) -> torch.Tensor:
    """Add up the gradients of each token's key, in one kernel, 32 bits and one order."""
    rows = gradient.flatten(1)
    return torch.nn.functional.embedding_bag(parts.uses, rows, parts.use_starts, mode="sum").view(
        -1, *gradient.shape[1:]
    )


AttentionInterface.register(ATTENTION, _attend)
