"""An agent's model: an `art.Model` of one rollout."""

from typing import Any

import art
import httpx
import openai
from pydantic import PrivateAttr

from precis.environments.recorded_client import recorded_client


class RolloutModel(art.Model[Any, Any]):
    """An agent's model: the part of an `art.Model` that ART's examples use, for one rollout."""

    _http: httpx.AsyncClient = PrivateAttr()
    _adapter_step: int = PrivateAttr()

    def __init__(
        self, *, http: httpx.AsyncClient, step: int, trainable: bool, **given: Any
    ) -> None:
        super().__init__(project="precis", **given)
        self.trainable = trainable
        self._http = http
        self._adapter_step = step

    def openai_client(self) -> openai.AsyncOpenAI:
        """Return the client whose calls are recorded; one for each rollout."""
        if self._openai_client is None:
            self._openai_client = recorded_client(
                self.inference_base_url, self.inference_api_key, self._http
            )
        return self._openai_client

    async def get_step(self) -> int:
        """Return the step of the adapter that answers; 0 for a model that is not trained."""
        return self._adapter_step
