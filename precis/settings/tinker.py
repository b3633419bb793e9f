"""The settings of a trainer behind the Tinker API."""

from typing import Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from precis.record import Amount, BaseModelName, BoundedFloat, BoundedInt, Record
from precis.settings.identity import Decides, MayChange

SFT_LEARNING_RATE = 2e-4
"""Adam's highest step size in imitation: that of ART's notebook."""

KEPT_FILE = "tinker.json"
"""The file in a checkpoint that records where the service keeps it."""
_SKYRL_URL = "http://127.0.0.1:8000"


class TinkerTrainer(Record, title="Tinker"):
    """A language model that a service trains and samples over the Tinker API: Thinking Machines'
    own, or a SkyRL server on your GPUs."""

    backend: ClassVar[Literal["tinker"]] = "tinker"
    sft_learning_rate: ClassVar[float] = SFT_LEARNING_RATE
    kind: Decides[Literal["tinker"]] = "tinker"
    service: MayChange[Literal["thinking-machines", "skyrl"]] = "thinking-machines"
    """The service behind the API. SkyRL's server samples only from the newest weights, and never
    deletes what it saves."""
    base_url: MayChange[str] = ""
    """Its address: empty for Thinking Machines' own, or port 8000 of this machine with SkyRL."""
    base_model: Decides[BaseModelName] = "Qwen/Qwen3-8B"
    """The base model, as the service names it."""
    tokenizer: Decides[str] = ""
    """Its tokenizer with its chat template: a name on the Hub, or a folder here; empty takes the
    base model's from the Hub."""
    learning_rate: Decides[BoundedFloat] = Field(4e-5, gt=0)
    """Adam's step size; the default is that of the service's example of reinforcement learning."""
    trajectories_per_update: Decides[BoundedInt] = Field(64, ge=1)
    """Rollouts per update of Adam. If one update has a whole step's, all are learned from by the
    weights that wrote them; each further update also takes a clock cycle of the service, some ten
    seconds."""
    scale_rewards: Decides[bool] = True
    """Divide advantages by the spread of their group's rewards."""
    lora_rank: Decides[int] = Field(32, ge=1, le=256)
    """Rank of the adapter."""
    tokens_max: Decides[BoundedInt] = Field(32768, ge=512)
    """Longest prompt and answers together, in tokens; the service may take fewer."""
    copy_weights: MayChange[bool] = True
    """Copy the weights of each step into the store. Otherwise checkpoints only record where the
    service keeps them."""
    keep_days: MayChange[BoundedFloat | None] = Field(None, ge=1)
    """Days after which the service may delete its copy of a step; empty keeps all, which Thinking
    Machines charges for."""
    prices: MayChange[tuple[Amount, Amount, Amount] | None] = None
    """USD for a million tokens read, sampled and trained on (Prefill, Sample and Train in the
    service's price list). Empty leaves the service out of the run's cost and its budget."""

    def charge(self, read: int, sampled: int, trained: int) -> float | None:
        """Return the dollars for these tokens; None without prices."""
        if self.prices is None:
            return None
        per_read, per_sampled, per_trained = self.prices
        return (read * per_read + sampled * per_sampled + trained * per_trained) / 1_000_000

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        url = urlsplit(value)
        if value and (url.scheme not in ("http", "https") or not url.hostname):
            raise ValueError("it is not an http:// or https:// address")
        if url.username or url.password:
            raise ValueError("it carries a password: set TINKER_API_KEY instead")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.service == "skyrl" and self.keep_days is not None:
            raise ValueError("SkyRL's server drops nothing by itself: leave keep_days out.")
        return self

    @property
    def address(self) -> str | None:
        """The URL of the API; None for the client's default."""
        return self.base_url or (_SKYRL_URL if self.service == "skyrl" else None)

    @property
    def internal_config(self) -> dict[str, Any]:
        """ART's `_internal_config` of the model: our own section alone, with all settings."""
        return {"tinker": self.model_dump(mode="json")}

    @property
    def options(self) -> dict[str, Any]:
        """The options of each call of the backend's `train`: none, since the model has them."""
        return {}
