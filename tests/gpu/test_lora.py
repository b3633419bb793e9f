"""One product with the weights and A, and one kernel with B, are LoRA. Needs a GPU and vLLM."""

from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("vllm")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

from vllm.lora.layers.column_parallel_linear import (  # noqa: E402
    MergedQKVParallelLinearWithLoRA,
)
from vllm.lora.layers.row_parallel_linear import RowParallelLinearWithLoRA  # noqa: E402
from vllm.model_executor.layers.linear import UnquantizedLinearMethod  # noqa: E402

from precis.trainer.gpu.lora import (  # noqa: E402
    add_adapter,
    apply,
    create_weights,
    has_one_adapter,
)

READ = 576
_OF_16_BITS = 0.01
"""Relative error of products in bfloat16."""


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def error(found: Any, wanted: Any) -> float:
    return float((found.double() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("tokens", [1, 7, 16, 33, 40, 64, 65, 300])
@pytest.mark.parametrize(("width", "rank"), [(576, 16), (2560, 32), (22016, 16), (960, 64)])
def test_an_adapters_share_is_added(tokens: int, width: int, rank: int) -> None:
    both, b = drawn(tokens, width + rank), drawn(width, rank)
    wanted = both[:, :width].double() + both[:, width:].double() @ b.double().t()

    found = add_adapter(both, b)

    assert found.shape == (tokens, width)
    assert found.is_contiguous()
    assert error(found, wanted) < _OF_16_BITS


@pytest.mark.parametrize("rank", [4, 8])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("tokens", [5, 200])
def test_a_layer_of_parts_answers_as_its_adapter(rank: int, has_bias: bool, tokens: int) -> None:
    sizes = (576, 192, 192)
    weight, bias = drawn(sum(sizes), READ), drawn(sum(sizes)) if has_bias else None
    layer = layer_of(weight, bias, sizes)
    create_weights(layer, SimpleNamespace(max_lora_rank=8))
    a, b = [drawn(rank, READ) for _ in sizes], [drawn(size, rank) for size in sizes]
    x = drawn(tokens, READ)

    MergedQKVParallelLinearWithLoRA.set_lora(layer, 0, a, b)
    first = apply(layer, x, bias)
    MergedQKVParallelLinearWithLoRA.set_lora(layer, 0, [a[0], None, None], [b[0], None, None])
    second = apply(layer, x, bias)

    base = x.double() @ weight.double().t() + (0 if bias is None else bias.double())
    shares = [
        x.double() @ one.double().t() @ two.double().t() for one, two in zip(a, b, strict=True)
    ]
    assert error(first, base + torch.cat(shares, dim=1)) < _OF_16_BITS
    silent = [shares[0], *map(torch.zeros_like, shares[1:])]
    assert error(second, base + torch.cat(silent, dim=1)) < _OF_16_BITS
    assert layer.base_layer.weight.data.equal(weight)


def test_a_layer_of_one_part_answers_as_its_adapter() -> None:
    weight, x = drawn(2048, READ), drawn(40, READ)
    layer = layer_of(weight, None, None)
    create_weights(layer, SimpleNamespace(max_lora_rank=16))
    a, b = drawn(16, READ), drawn(2048, 16)

    RowParallelLinearWithLoRA.set_lora(layer, 0, a, b)

    base = x.double() @ weight.double().t()
    share = x.double() @ a.double().t() @ b.double().t()
    assert error(apply(layer, x, None), base + share) < _OF_16_BITS


def test_several_adapters_and_quantized_weights_are_left_to_vllm() -> None:
    layer = layer_of(drawn(16, READ), None, None)

    assert has_one_adapter(layer, 1)
    assert not has_one_adapter(layer, 2)
    layer.base_layer.quant_method = object()
    assert not has_one_adapter(layer, 1)


def layer_of(weight: Any, bias: Any, sizes: tuple[int, ...] | None) -> Any:
    """What vLLM's layer has before its adapter's weights are created."""
    base = SimpleNamespace(
        weight=torch.nn.Parameter(weight.clone(), requires_grad=False),
        bias=bias,
        quant_method=UnquantizedLinearMethod(),
    )
    layer = SimpleNamespace(base_layer=base, tp_size=1, output_size=weight.shape[0])
    if sizes is not None:
        layer.output_slices = sizes
    layer.n_slices = 1 if sizes is None else len(sizes)

    def reset_lora(index: int) -> None:
        for part in (*layer.lora_a_stacked, *layer.lora_b_stacked):
            part[index] = 0

    layer.reset_lora = reset_lora
    return layer
