"""The settings of each kind of trainer.

trainer: {kind: extractive}                                  # numpy, on any machine: sentences
trainer: {kind: tool_calls}                                  # numpy, on any machine: an agent
trainer: {kind: art, base_model: Qwen/Qwen2.5-3B-Instruct}   # ART's LocalBackend, on a GPU
trainer: {kind: serverless}                                  # W&B trains and serves
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from precis.record import BaseModelName, BoundedFloat, BoundedInt, Matching, Record
from precis.settings.identity import Decides, MayChange
from precis.settings.tinker import SFT_LEARNING_RATE, TinkerTrainer

BackendName = Literal["extractive", "tool_calls", "local", "serverless", "tinker"]
"""The backends that a trainer server hosts; `local` is ART's LocalBackend, `serverless` W&B's, and
`tinker` any service with the Tinker API."""

ParserName = Annotated[
    str,
    Matching(r"^[a-z0-9_]{1,40}$", "has 1 to 40 small letters, digits and underscores"),
]

TOOL_CALL_FEATURES = 2
"""The version of the features of agents' embedded policy; raised when a weight changes its
meaning."""


class _TrainerSettings(Record):
    """The defaults of all kinds of trainers."""

    backend: ClassVar[BackendName]
    """The backend that the trainer server hosts for it."""
    sft_learning_rate: ClassVar[float] = SFT_LEARNING_RATE

    @property
    def options(self) -> dict[str, Any]:
        """The options of each call of the backend's `train`."""
        return self.model_dump(exclude={"kind", "base_model", "engine"}, exclude_none=True)

    @property
    def internal_config(self) -> dict[str, Any] | None:
        """ART's `_internal_config` of the model."""
        return None


class EmbeddedTrainer(_TrainerSettings):
    """The training of an embedded policy on a CPU."""

    base_model: ClassVar[str]
    """The base model's name in ART."""
    sft_learning_rate: ClassVar[float] = 0.02
    learning_rate: Decides[BoundedFloat] = Field(0.02, gt=0)
    """Adam's step size."""
    epochs: Decides[BoundedInt] = Field(4, ge=1)
    """Passes over a step's trajectories."""
    clip_epsilon: Decides[BoundedFloat] = Field(0.2, gt=0, lt=1)
    """Clip range of the probability ratio."""
    kl_coefficient: Decides[BoundedFloat] = Field(0.002, ge=0)
    """Weight of the KL penalty to the policy at the start of reinforcement learning."""
    scale_rewards: Decides[bool] = True
    """Divide advantages by the spread of their group's rewards."""


class ExtractiveTrainer(EmbeddedTrainer, title="Embedded, summaries"):
    """The embedded policy of summaries, which picks sentences and trains on a CPU."""

    kind: Decides[Literal["extractive"]] = "extractive"
    base_model: ClassVar[str] = "extractive"
    backend: ClassVar[BackendName] = "extractive"


class ToolCallTrainer(EmbeddedTrainer, title="Embedded, agents"):
    """The embedded policy of agents, which picks calls of tools and trains on a CPU."""

    kind: Decides[Literal["tool_calls"]] = "tool_calls"
    base_model: ClassVar[str] = "tool_calls"
    backend: ClassVar[BackendName] = "tool_calls"


_MLP = ("gate_proj", "up_proj", "down_proj")
ADAPTED = {"all": ("q_proj", "k_proj", "v_proj", "o_proj", *_MLP), "mlp": _MLP}
"""The names of the layers with an adapter, by `engine.adapted_layers`."""

VLLM_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""The largest ranks that vLLM can be started for (`--max-lora-rank`)."""


class EngineConfig(Record):
    """The division of the GPU between vLLM and training; the defaults are for 3 billion weights on
    80 GB."""

    tokens_max: Decides[BoundedInt] = Field(4096, ge=512)
    """Longest prompt and answers together, in tokens."""
    packed_tokens: MayChange[BoundedInt] = Field(8192, ge=512)
    """Longest training sequence, in tokens, in which the samples of a scenario share its prompt.
    More takes memory, and does not change results. At least `tokens_max`."""
    gpu_memory_share: MayChange[BoundedFloat] = Field(0.4, gt=0, lt=1)
    """Share of the GPU's memory for vLLM, with its weights and KV cache; the rest is for
    training."""
    sleep_while_training: MayChange[bool] = False
    """Have vLLM free its memory during training, for a model that does not fit twice: each step
    takes seconds longer, and `gpu_memory_share` may be higher."""
    gpus: MayChange[int] = Field(1, ge=1, le=2)
    """GPUs of one machine: with 2, vLLM uses the second, and can sample there while the first
    trains (`off_policy_steps`)."""
    load_in_4bit: Decides[bool] = False
    """Train on 4-bit weights, with less memory and slightly less accuracy."""
    lora_rank: Decides[int] = Field(8, ge=1, le=256)
    """Rank of the adapter."""
    lora_alpha: Decides[BoundedInt] = Field(16, ge=1)
    """Scale of the adapter, in ranks."""
    adapted_layers: Decides[Literal["all", "mlp"]] = "all"
    """The layers with an adapter: attention and MLP, or only the MLP."""
    tool_call_parser: Decides[ParserName] = "hermes"
    """vLLM's parser of the base model's tool calls, in training and in `precis model serve`:
    `hermes` for Qwen2.5 and Qwen3, `llama3_json` for Llama 3, `mistral` for Mistral, …"""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.packed_tokens < self.tokens_max:
            raise ValueError(
                f"packed_tokens {self.packed_tokens} is below tokens_max {self.tokens_max}: the "
                "longest sample would not fit into a training sequence. Raise packed_tokens."
            )
        if self.gpus == 2 and self.sleep_while_training:
            raise ValueError(
                "sleep_while_training is for one GPU: with gpus 2, vLLM shares with nobody."
            )
        return self


class ArtTrainer(_TrainerSettings, title="ART on a GPU"):
    """A language model with a LoRA adapter, trained by ART's LocalBackend on a GPU."""

    backend: ClassVar[BackendName] = "local"
    kind: Decides[Literal["art"]] = "art"
    base_model: Decides[BaseModelName] = "Qwen/Qwen2.5-3B-Instruct"
    """The base model: on the Hub, or a folder on the trainer's machine, whose path has only
    letters, digits and `. _ / -`."""
    learning_rate: Decides[BoundedFloat] = Field(5e-6, gt=0)
    """Adam's step size."""
    warmup_steps: Decides[BoundedInt] = Field(3, ge=0)
    """Steps over which the learning rate rises linearly, since Adam's first updates are its
    largest."""
    trajectories_per_update: Decides[BoundedInt] = Field(8, ge=1)
    """Rollouts per update of Adam: a step of 5 scenarios with 8 rollouts each is 5 updates, however
    long the rollouts are."""
    scale_rewards: Decides[bool] = True
    """Divide advantages by the spread of their group's rewards."""
    kl_penalty_coef: Decides[BoundedFloat] = Field(0.0, ge=0)
    """Weight of the KL penalty to the policy at the start of reinforcement learning; 0 also saves
    its computation."""
    epsilon: Decides[BoundedFloat | None] = Field(None, gt=0)
    """Lower clip of the importance weight, below 1: tokens count at least 1 - epsilon. Empty takes
    ART's default, 1: no lower clip."""
    epsilon_high: Decides[BoundedFloat | None] = Field(None, gt=0)
    """Upper clip of the importance weight, above 1: tokens count at most 1 + epsilon_high, however
    much their probability has grown since they were sampled. Empty takes ART's default, 4."""
    engine: Decides[EngineConfig] = EngineConfig()
    """The division of the GPU between vLLM and training."""

    @property
    def internal_config(self) -> dict[str, Any]:
        """ART's `_internal_config` of the model, with only our section."""
        return {"engine": self.engine.model_dump()}


class ServerlessTrainer(_TrainerSettings, title="W&B serverless"):
    """A language model that W&B trains and serves (ART's ServerlessBackend), on its own
    machines."""

    backend: ClassVar[BackendName] = "serverless"
    kind: Decides[Literal["serverless"]] = "serverless"
    base_model: Decides[BaseModelName] = "OpenPipe/Qwen3-14B-Instruct"
    """The base model; W&B trains few others."""
    learning_rate: Decides[BoundedFloat] = Field(5e-6, gt=0)
    """Adam's step size."""
    epsilon: Decides[BoundedFloat | None] = Field(None, gt=0)
    """Clip range of the probability ratio; empty takes ART's default."""
    scale_rewards: Decides[bool] = True
    """Divide advantages by the spread of their group's rewards."""


Trainer = Annotated[
    Annotated[
        ExtractiveTrainer | ToolCallTrainer | ServerlessTrainer | ArtTrainer | TinkerTrainer,
        Field(discriminator="kind"),
    ],
    BeforeValidator(
        lambda given: {"kind": "extractive", **given} if isinstance(given, dict) else given
    ),
]
