"""The model that an agent is given where ART is not installed, as for whoever only plays it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from precis.errors import ConfigError

if TYPE_CHECKING:
    import openai


@dataclass
class PlainModel:
    """The part of an `art.Model` that ART's examples use, for one rollout; `http` carries what
    `openai_client()` asks, and `step` is 0 for a model that is not trained."""

    name: str
    inference_base_url: str
    inference_api_key: str = field(repr=False)
    config: Any
    http: httpx.AsyncClient = field(repr=False)
    step: int
    trainable: bool
    project: str = "precis"
    _client: "openai.AsyncOpenAI | None" = field(default=None, repr=False)

    @property
    def inference_model_name(self) -> str:
        """The model's name in requests."""
        return self.name

    def get_inference_name(self, step: int | None = None) -> str:
        """Return what the model is called in requests."""
        return self.name

    async def get_step(self) -> int:
        """Return the step of the adapter that answers."""
        return self.step

    def openai_client(self) -> "openai.AsyncOpenAI":
        """Return the client whose calls are recorded."""
        if self._client is None:
            try:
                from precis.environments.recorded_client import recorded_client
            except ModuleNotFoundError as error:
                raise ConfigError(
                    "The agent asks by `model.openai_client()`, and the package openai is not "
                    "installed.",
                    "Install it (`pip install openai`), or have the agent ask "
                    "`model.inference_base_url` with the key `model.inference_api_key`.",
                ) from error
            self._client = recorded_client(
                self.inference_base_url, self.inference_api_key, self.http
            )
        return self._client
