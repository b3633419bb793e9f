"""Layers in few kernels compute what PEFT's and Transformers' do; on a GPU or the CPU."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see tests/gpu/README.md")
peft = pytest.importorskip("peft", reason="the GPU machine's packages are not installed")

from transformers import (  # noqa: E402
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from precis.trainer.gpu.layers import AdaptedLayers  # noqa: E402

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
SIZES = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


@pytest.fixture(params=["llama", "qwen3"])
def model(request: pytest.FixtureRequest) -> Any:
    """A tiny model with an adapter whose weights are all random."""
    torch.manual_seed(0)
    base: Any = (
        LlamaForCausalLM(LlamaConfig(**SIZES))
        if request.param == "llama"
        else Qwen3ForCausalLM(Qwen3Config(**SIZES))
    )
    for weight in base.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    adapted = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=12, target_modules=names))
    for weight in adapted.parameters():
        if weight.requires_grad:
            torch.nn.init.normal_(weight, std=0.3)
    return adapted.to(DEVICE)


def test_few_kernels_compute_the_same_logits_and_gradients(model: Any) -> None:
    expected, gradients = logits_and_gradients(model)
    AdaptedLayers(model).round(torch.float32)
    logits, ours = logits_and_gradients(model)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)
    assert len(ours) == 2 * 2 * 7  # A and B of each layer's seven
    for name, gradient in gradients.items():
        assert gradient.abs().max() > 0
        torch.testing.assert_close(ours[name], gradient, rtol=1e-3, atol=1e-4, msg=name)


def logits_and_gradients(model: Any) -> tuple[Any, dict[str, Any]]:
    tokens = torch.arange(24, device=DEVICE).view(2, 12)
    model.zero_grad()
    output = model(input_ids=tokens, labels=tokens)
    output.loss.backward()
    gradients = {}
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            gradients[name] = weight.grad.clone()
    return output.logits.detach(), gradients
