"""A language model with a LoRA adapter and its optimizer, on the GPU.

Transformers and PEFT compute; the loss is ART's (`art.loss.loss_fn`: importance weights against the
policy that sampled, clipped). Log probabilities are computed in 32 bits, and only for sampled
tokens.
"""

import logging
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from art import dev
from art.loss import loss_fn
from art.types import TrainConfig
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

from precis.errors import ConfigError, TrainerError
from precis.settings.trainer import ADAPTED, EngineConfig
from precis.trainer.gpu.attention import ATTENTION, parts_of
from precis.trainer.gpu.layers import AdaptedLayers
from precis.trainer.gpu.optimizer import load_optimizer, make_optimizer, save_optimizer
from precis.trainer.gpu.packing import PackedSequence, Update
from precis.trainer.gpu.resting import RestingWeights

_GRADIENT_NORM_MAX = 0.1
"""ART's own: rewards are noisy, and one update must not move far."""
_IMITATED_NORM_MAX = 1.0
"""ART's own for imitation, which has no noise of rewards."""
_LOGITS_AT_ONCE = 1024
"""Tokens whose logits (one for each entry of the vocabulary) are in memory at a time."""
_OTHER_PARTS = (
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "logit_scale",
    "logits_scaling",
)
"""The settings by which Gemma 2, Cohere's models and Granite cap or scale their logits."""
_ATTENTION_LAYERS = frozenset(("full_attention", "sliding_attention", "attention"))
"""The kinds of layers with attention over all tokens, or over a window."""
_OTHERS_SHARE = 0.04
"""The share of the GPU's memory that CUDA itself takes in each process."""

_log = logging.getLogger(__name__)


class Learner:
    """The adapter that is trained, and its optimizer.

    Args:
        base_model: a name on the Hub or a folder.
        checkpoint: of the adapter to continue from; None begins a new one.
        seed: of the new one.
        device: where to load it.

    Raises:
        ConfigError: the learner does not compute this base model's layers or logits.
    """

    def __init__(
        self,
        base_model: str,
        checkpoint: Path | None,
        engine: EngineConfig,
        seed: int,
        device: str = "cuda:0",
    ) -> None:
        base = AutoModelForCausalLM.from_pretrained(
            base_model,
            dtype=torch.bfloat16,
            attn_implementation=ATTENTION,
            device_map={"": device},
            quantization_config=BitsAndBytesConfig(
                load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16
            )
            if engine.load_in_4bit
            else None,
        )
        refuse_other_layers(base, base_model, engine.tokens_max)
        self._recomputes = False
        if device.startswith("cuda"):
            # The share of the GPU's memory that is not vLLM's. Without this limit the learner could
            # keep memory that vLLM needs at its next summary, and an engine without memory ends.
            is_shared = engine.gpus == 1 and not engine.sleep_while_training
            left = 1 - _OTHERS_SHARE - (engine.gpu_memory_share if is_shared else 0)
            # Where vLLM takes nearly all: too little, said as such.
            share = max(left, _OTHERS_SHARE)
            torch.cuda.set_per_process_memory_fraction(share, device)
        if checkpoint is None:
            torch.manual_seed(seed)
            adapter = LoraConfig(
                r=engine.lora_rank,
                lora_alpha=engine.lora_alpha,
                target_modules=list(ADAPTED[engine.adapted_layers]),
                task_type="CAUSAL_LM",
            )
            self._model = get_peft_model(base, adapter)
        else:
            self._model = PeftModel.from_pretrained(base, str(checkpoint), is_trainable=True)
        self._model.train()
        self._layers = AdaptedLayers(self._model)
        self._weights = [weight for weight in self._model.parameters() if weight.requires_grad]
        self._optimizer = make_optimizer(self._weights)
        self._reference: list[torch.Tensor] | None = None
        if checkpoint is not None:
            self._reference = load_optimizer(self._optimizer, checkpoint)
        self._tokenizer = AutoTokenizer.from_pretrained(base_model)
        self._resting: RestingWeights | None = None

    def move_to(self, device: str) -> None:
        """Move model and optimizer to a device; moving to the CPU frees the GPU's memory."""
        self._resting = self._resting or RestingWeights(self._model)
        self._resting.move_to(device)
        self._model.to(device)  # the rest: the adapter, and buffers
        for state in self._optimizer.state.values():
            for name, value in state.items():
                state[name] = value.to(device)
        if self._reference is not None:
            self._reference = [weight.to(device) for weight in self._reference]
        if device == "cpu":
            torch.cuda.empty_cache()

    def update(
        self, update: Update, config: TrainConfig, dev_config: dev.TrainConfig
    ) -> dict[str, float]:
        """Move the optimizer once.

        Args:
            config: learning rate, and weight of the KL penalty to the adapter that the first update
                of reinforcement began with.
            dev_config: the options of `art.loss.loss_fn`.

        Returns:
            The update's metrics, under ART's names.

        Raises:
            TrainerError: the gradient is not a finite number; the adapter is as it was.
        """
        if config.kl_penalty_coef and self._reference is None:
            self._reference = [weight.detach().clone() for weight in self._weights]
        seen = self._accumulate(update, lambda one: self._backward(one, config, dev_config))
        return self._move(seen, config.learning_rate, _GRADIENT_NORM_MAX)

    def imitate(self, update: Update, learning_rate: float) -> dict[str, float]:
        """Move the optimizer once towards the answers of an update, by maximum likelihood. Return
        its metrics, under ART's names; the loss is the cross-entropy of a token. Raises
        TrainerError as `update` does."""
        seen = self._accumulate(update, self._backward_likelihood)
        return self._move(seen, learning_rate, _IMITATED_NORM_MAX)

    def end_imitation(self) -> None:
        """Reset the optimizer, as ART does: its moments are those of another loss."""
        self._optimizer = make_optimizer(self._weights)

    def save(self, folder: Path) -> None:
        """Write adapter, tokenizer and optimizer into an empty folder."""
        self._model.save_pretrained(str(folder))
        self._tokenizer.save_pretrained(str(folder))
        save_optimizer(self._optimizer, folder, self._reference)

    def _accumulate(
        self, update: Update, backward: Callable[[PackedSequence], dict[str, float]]
    ) -> list[dict[str, float]]:
        """Add up the gradients of an update's sequences; returns the metrics of each.

        Activations for the backward pass are kept if the GPU has room; once it has not, they are
        computed again in each backward pass.
        """
        while True:
            try:
                return [backward(sequence) for sequence in update]
            except torch.OutOfMemoryError:
                if self._recomputes:
                    raise
            _log.warning(
                "The GPU has no room to keep what the layers computed: it is computed again in "
                "each backward pass, which then takes a third longer. Fewer packed_tokens need "
                "less room."
            )
            self._recomputes = True
            self._optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            self._model.get_base_model().gradient_checkpointing_enable({"use_reentrant": False})

    def _move(
        self, seen: Sequence[dict[str, float]], learning_rate: float, norm_max: float
    ) -> dict[str, float]:
        """Move the optimizer by the summed gradients; return the update's metrics."""
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        norm = torch.nn.utils.clip_grad_norm_(self._weights, norm_max).item()
        loss = sum(one["loss/train"] for one in seen)  # weights add up to 1
        if not math.isfinite(norm):
            raise TrainerError(
                f"An update has a gradient of {norm} (its loss is {loss}): the step is not kept.",
                "If it happens again, begin another run from the last checkpoint "
                "(from_checkpoint) with a lower trainer.learning_rate.",
            )
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        metrics = {}
        for name in seen[0]:
            metrics[name] = statistics.fmean(one[name] for one in seen)
        metrics["loss/train"] = loss
        metrics["loss/grad_norm"] = norm
        metrics["loss/learning_rate"] = learning_rate
        return metrics

    def _backward_likelihood(self, sequence: PackedSequence) -> dict[str, float]:
        """Add the gradient of a sequence's answers to those of the update; returns its metrics."""
        # The weight of a token is at its own place, its likelihood at the place before.
        weights = torch.from_numpy(sequence.weights[1:]).to(self._model.device)
        logprobs, entropy = self.logprobs(sequence)
        loss = -(logprobs[0, :-1] * weights).sum()
        loss.backward()
        return {"loss/train": loss.item(), "loss/entropy": entropy.item()}

    def _backward(
        self, sequence: PackedSequence, config: TrainConfig, dev_config: dev.TrainConfig
    ) -> dict[str, float]:
        """Add the gradient of one sequence to those of the update; returns its metrics."""
        device = self._model.device
        inputs: Any = {
            "logprobs": torch.from_numpy(sequence.logprobs)[None].to(device),
            "advantages": torch.from_numpy(sequence.advantages)[None].to(device),
            "assistant_mask": torch.from_numpy(sequence.trained)[None].to(device),
            "weights": torch.from_numpy(sequence.weights)[None].to(device),
            "group_ids": torch.from_numpy(sequence.groups)[None].to(device),
        }
        reference = None
        if config.kl_penalty_coef:
            with torch.no_grad(), self._as_reference():
                reference, _ = self.logprobs(sequence)
        logprobs, entropy = self.logprobs(sequence)
        loss = loss_fn(inputs, logprobs, reference, None, dev_config)
        loss.policy_loss_sum.backward()
        metrics = {
            "loss/train": loss.policy_loss_sum.item(),
            "loss/entropy": entropy.item(),
            "loss/probs_corr": loss.probs_corr.item(),
        }
        if loss.kl_policy_ref is not None:
            metrics["loss/kl_policy_ref"] = loss.kl_policy_ref.item()
        return metrics

    def logprobs(self, sequence: PackedSequence) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the log probability of each sampled token.

        Returns:
            Logarithms of probabilities, of shape [1, tokens]: at each position that of the token
            after it, 0 where that one was not sampled; and the mean entropy where it was.
        """
        device = self._model.device
        tokens = torch.from_numpy(sequence.tokens).to(device)
        predicting = torch.from_numpy(sequence.trained[1:].nonzero()[0]).to(device)
        self._layers.round(torch.bfloat16)
        hidden = self._model.get_base_model().model(
            input_ids=tokens[None],
            position_ids=torch.from_numpy(sequence.positions)[None].to(device),
            parts=parts_of(sequence, device),
            use_cache=False,
        )
        states = hidden.last_hidden_state[0, predicting]
        head = self._model.get_output_embeddings().weight
        targets = tokens[predicting + 1]
        found = []
        entropies = []
        for start in range(0, len(targets), _LOGITS_AT_ONCE):
            part = slice(start, start + _LOGITS_AT_ONCE)
            of_part, entropies_of_part = _TargetLogprobs.apply(states[part], head, targets[part])
            found.append(of_part)
            entropies.append(entropies_of_part)
        logprobs = torch.zeros(len(tokens), device=device)
        logprobs[predicting] = torch.cat(found)
        return logprobs[None], torch.cat(entropies).mean()

    @contextmanager
    def _as_reference(self) -> Iterator[None]:
        """Have the model be the reference of the KL penalty."""
        assert self._reference is not None
        own = []
        for weight, reference in zip(self._weights, self._reference, strict=True):
            own.append(weight.data)
            weight.data = reference
        try:
            yield
        finally:
            for weight, mine in zip(self._weights, own, strict=True):
                weight.data = mine


class _TargetLogprobs(torch.autograd.Function):  # type: ignore[misc]
    """Log probabilities of `targets` [n] after `states` [n, width], and entropies, in 32 bits. The
    logits are computed again in the backward pass. Entropies have no gradient."""

    @staticmethod
    def forward(
        ctx: Any, states: torch.Tensor, head: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        logits = torch.nn.functional.linear(states, head).float()
        normalizer = torch.logsumexp(logits, dim=-1)
        logprobs = logits.gather(-1, targets[:, None])[:, 0] - normalizer
        entropies = normalizer - (logits.softmax(-1) * logits).sum(-1)
        ctx.save_for_backward(states, head, targets, normalizer)
        ctx.mark_non_differentiable(entropies)
        return logprobs, entropies

    @staticmethod
    def backward(
        ctx: Any, gradient: torch.Tensor, _: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        states, head, targets, normalizer = ctx.saved_tensors
        logits = torch.nn.functional.linear(states, head).float()
        of_logits = logits.sub_(normalizer[:, None]).exp_().mul_(-gradient[:, None])
        of_logits[torch.arange(len(targets), device=targets.device), targets] += gradient
        return of_logits.to(states.dtype) @ head, None, None


def refuse_other_layers(model: Any, base_model: str, tokens_max: int) -> None:
    """Raise a ConfigError if the learner would compute a model's layers or logits differently
    from vLLM; it names what differs."""
    config = model.config.get_text_config()
    found = [name for name in _OTHER_PARTS if getattr(config, name, None) not in (None, 1)]
    is_used = getattr(config, "use_sliding_window", True)
    window = getattr(config, "sliding_window", None) if is_used else None
    if window is not None and window < tokens_max:
        found.append(f"sliding_window {window}")
    # Any other kind passes information from one answer to the answers packed behind it.
    kinds = set(getattr(config, "layer_types", None) or ()) - _ATTENTION_LAYERS
    found += [f"layers of the kind {kind}" for kind in sorted(kinds)]
    if any(isinstance(module, torch.nn.Conv1d) for module in model.modules()):
        found.append("convolutions")
    if model.get_output_embeddings().bias is not None:
        found.append("a bias of its logits")
    if found:
        raise ConfigError(
            f"{base_model} can't be trained on a GPU: it has {', '.join(found)}, "
            "which the learner does not compute.",
            "Take a base model with plain attention, such as Qwen2.5, Qwen3 or Llama, in "
            "trainer.base_model; where it is the window alone, trainer.engine.tokens_max may be "
            "lowered to it.",
        )
