"""The learner on a tiny model of random weights: on a GPU where there is one, else on the CPU."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see tests/gpu/README.md")
pytest.importorskip("peft", reason="the packages of the GPU's machine are not installed")

from art.types import TrainConfig  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    CohereConfig,
    FalconH1Config,
    Gemma2Config,
    Gemma3TextConfig,
    GraniteConfig,
    Lfm2Config,
    LlamaConfig,
    MiniMaxConfig,
    MistralConfig,
    PhiConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3NextConfig,
)

from precis.errors import ConfigError, TrainerError  # noqa: E402
from precis.settings.trainer import EngineConfig  # noqa: E402
from precis.trainer.gpu.learner import Learner, refuse_other_layers  # noqa: E402
from precis.trainer.gpu.packing import PackedSequence, Update, pack  # noqa: E402
from precis.trainer.tokens import TrainingSample  # noqa: E402

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
PROMPT = 40


@pytest.fixture(scope="module")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a model of two layers and a tokenizer."""
    from tokenizers import Tokenizer, models

    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)
    return str(folder)


def samples(prompts: int = 2, each: int = 4, seed: int = 0) -> list[TrainingSample]:
    """Answers of differing lengths to prompts of one length, with random advantages."""
    chance = np.random.default_rng(seed)
    made = []
    for prompt in range(prompts):
        shared = chance.integers(0, 128, PROMPT).tolist()
        for _ in range(each):
            answer = chance.integers(0, 128, int(chance.integers(10, 60))).tolist()
            made.append(
                TrainingSample(
                    token_ids=shared + answer,
                    assistant_mask=[0] * PROMPT + [1] * len(answer),
                    logprobs=[float("nan")] * PROMPT + [-4.85] * len(answer),
                    advantage=float(chance.normal()),
                    prompt_id=prompt,
                    prompt_length=PROMPT - 1,  # the last token of the prompt predicts the answer
                )
            )
    return made


def packed(given: list[TrainingSample], tokens_max: int, updates: int = 1) -> list[Update]:
    return pack(given, updates=updates, tokens_max=tokens_max, seed="1")


def learner(base_model: str, checkpoint: Path | None = None) -> Learner:
    return Learner(base_model, checkpoint, EngineConfig(), 1, DEVICE)


def test_a_packed_answer_is_as_likely_as_it_is_alone(base_model: str) -> None:
    """Answers share their prompt's computation and see nothing of each other."""
    model = learner(base_model)
    together = packed(samples(), 4096)[0]
    alone = packed(samples(), 256)[0]
    assert len(together) == 1
    assert len(alone) > 1
    with torch.no_grad():
        one = torch.cat([model.logprobs(sequence)[0][0] for sequence in together])
        many = torch.cat([model.logprobs(sequence)[0][0] for sequence in alone])
    assert torch.allclose(one[one != 0], many[many != 0], atol=0.05)
    assert (one != 0).sum() == sum(sum(one.assistant_mask) for one in samples())


@pytest.mark.parametrize(
    ("config", "is_refused"),
    [
        (LlamaConfig(), False),
        (CohereConfig(logit_scale=0.0625), True),
        (GraniteConfig(logits_scaling=1.0), False),
        (GraniteConfig(logits_scaling=8.0), True),
        (Qwen2Config(), False),
        (MistralConfig(sliding_window=None), False),
        (MistralConfig(sliding_window=4096), False),
        (MistralConfig(sliding_window=1024), True),
        (Gemma2Config(sliding_window=4096), True),
        (Gemma2Config(sliding_window=4096, attn_logit_softcapping=None), True),
        (Gemma3TextConfig(sliding_window=512), True),
        (Lfm2Config(full_attn_idxs=[2]), True),
        (Qwen3NextConfig(num_hidden_layers=4, num_experts=2), True),
        (FalconH1Config(num_hidden_layers=1, lm_head_multiplier=1.0), True),
        (MiniMaxConfig(num_hidden_layers=2), True),
        (PhiConfig(), True),
    ],
)
def test_a_model_with_layers_computed_otherwise_is_refused(config: Any, is_refused: bool) -> None:
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    with (
        pytest.raises(ConfigError, match="can't be trained on a GPU")
        if is_refused
        else contextlib.nullcontext()
    ):
        refuse_other_layers(model, "owner/model", 4096)


@pytest.mark.parametrize("imitates", [False, True])
def test_an_update_is_the_same_however_it_is_packed(base_model: str, imitates: bool) -> None:
    seen = []
    for tokens_max in (4096, 256):
        (update,) = packed(samples(), tokens_max)
        model = learner(base_model)
        if imitates:
            seen.append(model.imitate(update, 1e-3))
        else:
            seen.append(model.update(update, TrainConfig(learning_rate=1e-3), OPTIONS))
    together, alone = seen
    assert together["loss/train"] == pytest.approx(alone["loss/train"], rel=0.02)
    assert together["loss/grad_norm"] == pytest.approx(alone["loss/grad_norm"], rel=0.05)


def test_a_learner_without_room_computes_again_and_learns_the_same(base_model: str) -> None:
    """The first sequence of an update is learned from, the second finds no memory."""
    (update,) = packed(samples(), 256)
    assert len(update) > 1
    roomy = learner(base_model)
    cramped = Cramped(base_model, None, EngineConfig(), 1, DEVICE)
    config = TrainConfig(learning_rate=1e-3)
    for _ in range(2):
        expected = roomy.update(update, config, OPTIONS)
        assert cramped.update(update, config, OPTIONS) == pytest.approx(
            expected, rel=0.02, nan_ok=True
        )
    assert cramped.refusals == 1


def test_a_sequence_that_fits_in_no_way_is_an_error(base_model: str) -> None:
    (update,) = packed(samples(), 256)
    model = Cramped(base_model, None, EngineConfig(), 1, DEVICE)
    model.refusals = -2  # computing again does not help
    with pytest.raises(torch.OutOfMemoryError):
        model.update(update, TrainConfig(learning_rate=1e-3), OPTIONS)


def test_a_learner_that_gave_the_gpu_away_learns_the_same(base_model: str, tmp_path: Path) -> None:
    """As with `sleep_while_training`: between two updates its memory is vLLM's."""
    updates = packed(samples(prompts=4), 4096, updates=3)
    config = TrainConfig(learning_rate=1e-3)
    staying, moving = learner(base_model), learner(base_model)
    for update in updates:
        expected = staying.update(update, config, OPTIONS)
        moving.move_to("cpu")
        assert {weight.device.type for weight in moving._model.parameters()} == {"cpu"}
        moving.move_to(DEVICE)
        learned = moving.update(update, config, OPTIONS)
        assert learned == pytest.approx(expected, rel=1e-9, nan_ok=True)
    assert are_same(saved(staying, tmp_path / "staying"), saved(moving, tmp_path / "moving"))


def test_learning_makes_good_answers_likelier(base_model: str) -> None:
    model = learner(base_model)
    (update,) = packed(samples(), 4096)
    before = mean_likelihoods(model, update)
    for _ in range(20):
        model.update(update, TrainConfig(learning_rate=3e-3), OPTIONS)
    after = mean_likelihoods(model, update)
    assert after["good"] > before["good"]
    assert after["bad"] < before["bad"]


def test_a_restarted_learner_goes_on_as_one_that_was_not(base_model: str, tmp_path: Path) -> None:
    """Weights and Adam's moments come back: the next two updates give the same adapter."""
    updates = packed(samples(prompts=4), 4096, updates=4)
    config = TrainConfig(learning_rate=1e-3)
    unbroken = learner(base_model)
    for update in updates[:2]:
        unbroken.update(update, config, OPTIONS)
    saved(unbroken, tmp_path / "half")
    restarted = learner(base_model, tmp_path / "half")
    (tmp_path / "half" / "optimizer.pt").unlink()
    forgetful = learner(base_model, tmp_path / "half")
    for each in (unbroken, restarted, forgetful):
        for update in updates[2:]:
            each.update(update, config, OPTIONS)
    expected = saved(unbroken, tmp_path / "unbroken")
    assert are_same(expected, saved(restarted, tmp_path / "restarted"))
    assert not are_same(expected, saved(forgetful, tmp_path / "forgetful"))


@pytest.mark.parametrize("imitates", [True, False])
def test_a_gradient_that_is_no_number_leaves_the_adapter_as_it_was(
    base_model: str, imitates: bool, tmp_path: Path
) -> None:
    model = learner(base_model)
    before = saved(model, tmp_path / "before")
    ((sequence,),) = packed(samples(), 4096)
    endless = replace(sequence, weights=sequence.weights * np.float32("inf"))
    with pytest.raises(TrainerError, match=r"has a gradient of nan \(its loss is .*lower trainer"):
        if imitates:
            model.imitate([endless], 1e-3)
        else:
            model.update([endless], TrainConfig(learning_rate=1e-3), OPTIONS)
    assert are_same(before, saved(model, tmp_path / "after"))


def test_a_stale_sample_is_weighed_by_the_adapter_that_sampled_it(base_model: str) -> None:
    """Against ART's loss by hand: its weight is its likelihood now over that at its sampling."""
    model = learner(base_model)
    config = TrainConfig(learning_rate=3e-2)
    ((sequence,),) = packed(samples(), 4096)
    then = likelihoods(model, sequence)
    for _ in range(3):
        model.update([sequence], config, OPTIONS)
    now = likelihoods(model, sequence)
    stale = replace(sequence, logprobs=np.append(np.float32("nan"), then[:-1]))
    trained = sequence.trained[1:]
    terms = (sequence.advantages[1:] * now[:-1] * sequence.weights[1:])[trained]
    ratio = np.exp(now - then)[:-1][trained].clip(0, 5)
    loss = model.update([stale], config, OPTIONS)["loss/train"]
    tolerance = 0.02 * float(np.abs(terms).sum())
    assert loss == pytest.approx(-float((ratio * terms).sum()), abs=tolerance)
    assert abs(loss + float(terms.sum())) > 2 * tolerance, "the adapter has not moved enough"


def test_imitation_makes_what_is_shown_likelier_whatever_its_advantage(base_model: str) -> None:
    model = learner(base_model)
    (update,) = packed(samples(), 4096)
    before = mean_likelihoods(model, update)
    losses = [model.imitate(update, 3e-3)["loss/train"] for _ in range(20)]
    after = mean_likelihoods(model, update)
    assert losses[-1] < losses[0]
    assert after["good"] > before["good"]
    assert after["bad"] > before["bad"]


def test_the_loss_of_imitation_is_the_cross_entropy_of_a_token(base_model: str) -> None:
    """Against Transformers' own, of each answer by itself."""
    shown = samples(prompts=1, each=3)
    network: Any = Qwen2ForCausalLM.from_pretrained(base_model, dtype=torch.bfloat16).to(DEVICE)
    total = 0.0
    count = 0
    for one in shown:
        tokens = torch.tensor([one.token_ids], device=DEVICE)
        labels = torch.where(torch.tensor([one.assistant_mask], device=DEVICE) == 1, tokens, -100)
        with torch.no_grad():
            total += float(network(input_ids=tokens, labels=labels).loss) * sum(one.assistant_mask)
        count += sum(one.assistant_mask)
    loss = learner(base_model).imitate(packed(shown, 4096)[0], 1e-3)["loss/train"]
    assert loss == pytest.approx(total / count, rel=0.01)


def test_an_adapter_of_weights_of_4_bits_learns(base_model: str) -> None:
    pytest.importorskip("bitsandbytes", reason="it holds the weights of 4 bits")
    model = Learner(base_model, None, EngineConfig(load_in_4bit=True), 1, DEVICE)
    (update,) = packed(samples(), 4096)
    losses = [model.imitate(update, 1e-2)["loss/train"] for _ in range(5)]
    assert losses[4] < losses[2] < losses[0] - 0.01


def test_reinforcement_begins_with_a_new_optimizer(base_model: str, tmp_path: Path) -> None:
    """What imitated and goes on, and what begins with its checkpoint, learn the same."""
    shown, step = packed(samples(prompts=4), 4096, updates=2)
    unbroken = learner(base_model)
    unbroken.imitate(shown, 1e-3)
    unbroken.end_imitation()
    saved(unbroken, tmp_path / "warm")
    restarted = learner(base_model, tmp_path / "warm")
    assert not restarted._optimizer.state
    for each in (unbroken, restarted):
        each.update(step, TrainConfig(learning_rate=1e-3), OPTIONS)
    assert are_same(saved(unbroken, tmp_path / "on"), saved(restarted, tmp_path / "restarted"))


def test_the_kl_penalty_pulls_to_the_start(base_model: str, tmp_path: Path) -> None:
    """After imitation that is the adapter that imitated; after a restart still the same one."""
    shown, step = packed(samples(prompts=4), 4096, updates=2)
    config = TrainConfig(learning_rate=1e-3, kl_penalty_coef=0.1)
    options: Any = {**OPTIONS, "kl_penalty_coef": 0.1}
    unbroken = learner(base_model)
    for _ in range(10):
        unbroken.imitate(shown, 1e-3)
    unbroken.end_imitation()
    first = unbroken.update(step, config, options)
    assert first["loss/kl_policy_ref"] == pytest.approx(0, abs=1e-6)
    second = unbroken.update(step, config, options)
    assert abs(second["loss/kl_policy_ref"]) > 1e-4
    saved(unbroken, tmp_path / "half")
    restarted = learner(base_model, tmp_path / "half")
    expected = unbroken.update(step, config, options)
    assert restarted.update(step, config, options) == pytest.approx(expected, rel=1e-5, nan_ok=True)


class Cramped(Learner):
    """One that has no room for its second sequence, until it computes layers again."""

    refusals = 0
    _begun = 0

    def _backward(self, *given: Any) -> dict[str, float]:
        self._begun += 1
        if self.refusals < 1 and self._begun > 1:
            self.refusals += 1
            raise torch.OutOfMemoryError
        return super()._backward(*given)


OPTIONS: Any = {"importance_sampling_level": "token", "ppo": False}


def likelihoods(model: Learner, sequence: PackedSequence) -> Any:
    """At each position the log probability of the token after it."""
    with torch.no_grad():
        return model.logprobs(sequence)[0][0].cpu().numpy()


def mean_likelihoods(model: Learner, update: Update) -> dict[str, float]:
    (sequence,) = update
    logprobs = likelihoods(model, sequence)[:-1]
    advantages = sequence.advantages[1:]
    return {
        "good": float(logprobs[advantages > 0].mean()),
        "bad": float(logprobs[advantages < 0].mean()),
    }


def saved(model: Learner, folder: Path) -> dict[str, Any]:
    """The weights of an adapter, saved into a new folder."""
    from safetensors.torch import load_file

    folder.mkdir()
    model.save(folder)
    return dict(load_file(folder / "adapter_model.safetensors"))


def are_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(torch.equal(value, other[name]) for name, value in one.items())
