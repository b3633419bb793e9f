"""What is trained, and how: the settings of each kind of trainer.

trainer: {kind: extractive}                                  # numpy, on any machine
trainer: {kind: art, base_model: Qwen/Qwen2.5-3B-Instruct}   # ART's LocalBackend, on a GPU
trainer: {kind: serverless}                                  # W&B trains and serves
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from precis.settings import Settings

Options = dict[str, float]
BackendName = Literal["extractive", "local", "serverless"]
"""The backends that a trainer server hosts; `local` is ART's LocalBackend, `serverless` W&B's."""


class _TrainerSettings(Settings):
    """What holds for each kind that does not say otherwise."""

    @property
    def internal_config(self) -> dict[str, Any] | None:
        """ART's `_internal_config` of the model."""
        return None

    @property
    def decisive(self) -> dict[str, Any]:
        """What of these settings decides the result."""
        return self.model_dump()


class ExtractiveTrainer(_TrainerSettings):
    """The embedded policy, which picks sentences and trains on a CPU."""

    kind: Literal["extractive"] = "extractive"
    learning_rate: float = Field(0.02, gt=0)
    """Adam's step size."""
    epochs: int = Field(4, ge=1)
    """Passes over a step's trajectories."""
    clip_epsilon: float = Field(0.2, gt=0, lt=1)
    """Clip range of the probability ratio."""
    kl_coefficient: float = Field(0.002, ge=0)
    """Weight of the KL penalty to the untrained policy."""

    @property
    def base_model(self) -> str:
        """The model to begin with, as ART knows it."""
        return "extractive"

    @property
    def backend(self) -> BackendName:
        """What the trainer server hosts for it."""
        return "extractive"

    @property
    def options(self) -> Options:
        """What each call of `art.Backend.train` is given."""
        return self.model_dump(exclude={"kind"})


class EngineConfig(Settings):
    """How vLLM and Unsloth share the GPU; the defaults are for 3 billion weights on 80 GB."""

    tokens_max: int = Field(4096, ge=512)
    """Longest prompt and summary together, in tokens; longer samples are left out of training."""
    gpu_memory_share: float = Field(0.8, gt=0, lt=1)
    """Share of the GPU's memory that vLLM takes while it generates; it gives it back while
    Unsloth trains."""
    load_in_4bit: bool = False
    """Train on weights of 4 bits: less memory, and a little less accuracy."""
    lora_rank: int = Field(8, ge=1)
    """Rank of the adapter."""
    lora_alpha: int = Field(16, ge=1)
    """Scale of the adapter, in ranks."""


class ArtTrainer(_TrainerSettings):
    """A language model with a LoRA adapter, trained by ART's LocalBackend (vLLM and Unsloth)."""

    kind: Literal["art"] = "art"
    base_model: str = "Qwen/Qwen2.5-3B-Instruct"
    """The model to begin with, on the Hub."""
    learning_rate: float = Field(5e-6, gt=0)
    """Adam's step size."""
    kl_penalty_coef: float = Field(0.0, ge=0)
    """Weight of the KL penalty to the base model."""
    epsilon: float | None = Field(None, gt=0)
    """Clip range of the probability ratio; ART's own if empty."""
    engine: EngineConfig = EngineConfig()
    """How vLLM and Unsloth share the GPU."""

    @property
    def backend(self) -> BackendName:
        """What the trainer server hosts for it."""
        return "local"

    @property
    def options(self) -> Options:
        """What each call of `art.LocalBackend.train` is given."""
        chosen = self.model_dump(include={"learning_rate", "kl_penalty_coef", "epsilon"})
        return {name: value for name, value in chosen.items() if value is not None}

    @property
    def internal_config(self) -> dict[str, Any]:
        """ART's `_internal_config` of the model."""
        engine = self.engine
        return {
            # In both places: vLLM and Unsloth each have a limit, and ART sets neither by the other.
            "init_args": {
                "max_seq_length": engine.tokens_max,
                "load_in_4bit": engine.load_in_4bit,
            },
            "engine_args": {
                "max_model_len": engine.tokens_max,
                "gpu_memory_utilization": engine.gpu_memory_share,
            },
            "peft_args": {"r": engine.lora_rank, "lora_alpha": engine.lora_alpha},
        }

    @property
    def decisive(self) -> dict[str, Any]:
        """What of these settings decides the result."""
        return self.model_dump(exclude={"engine": {"gpu_memory_share"}})


class ServerlessTrainer(_TrainerSettings):
    """A language model that W&B trains and serves (ART's ServerlessBackend); no machine of ours."""

    kind: Literal["serverless"] = "serverless"
    base_model: str = "OpenPipe/Qwen3-14B-Instruct"
    """The model to begin with; W&B trains few others."""
    learning_rate: float = Field(5e-6, gt=0)
    """Adam's step size."""
    epsilon: float | None = Field(None, gt=0)
    """Clip range of the probability ratio; ART's own if empty."""

    @property
    def backend(self) -> BackendName:
        """What the trainer server hosts for it."""
        return "serverless"

    @property
    def options(self) -> Options:
        """What each call of `art.ServerlessBackend.train` is given."""
        chosen = self.model_dump(include={"learning_rate", "epsilon"})
        return {name: value for name, value in chosen.items() if value is not None}


def _with_kind(given: Any) -> Any:
    return {"kind": "extractive", **given} if isinstance(given, dict) else given


Trainer = Annotated[
    Annotated[ExtractiveTrainer | ArtTrainer | ServerlessTrainer, Field(discriminator="kind")],
    BeforeValidator(_with_kind),
]
