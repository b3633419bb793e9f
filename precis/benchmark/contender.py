"""A contender: its endpoint, parameters and price."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from precis.config import ContenderConfig, Hosted
from precis.llm.limits import without_quota
from precis.llm.providers import Endpoint, endpoint_of
from precis.llm.retry import OWN_BACKOFF_S, OWN_CALL_TIMEOUT_S, OWN_TRIES_MAX
from precis.records.spend import Price, price_of
from precis.statistics.standings import Contender

PRESETS: Mapping[Hosted, ContenderConfig] = {
    "gpt-4o": ContenderConfig(model="openai/gpt-4o"),
    "gpt-4.1": ContenderConfig(model="openai/gpt-4.1"),
    "o4-mini": ContenderConfig(model="openai/o4-mini", reasoning=True),
    "gemini-2.5-pro": ContenderConfig(model="google/gemini-2.5-pro", reasoning=True),
    "claude-sonnet-4": ContenderConfig(model="anthropic/claude-sonnet-4"),
    "gpt-5.2": ContenderConfig(model="openai/gpt-5.2", reasoning=True),
    "gpt-5-mini": ContenderConfig(model="openai/gpt-5-mini", reasoning=True),
    "gemini-3-pro": ContenderConfig(
        model="google/gemini-3-pro-preview", name="gemini-3-pro", reasoning=True
    ),
    "claude-sonnet-4.5": ContenderConfig(model="anthropic/claude-sonnet-4.5"),
}
"""By name, with the model's id at OpenRouter. The first five are those of ART's published table;
the others have ids and prices from the price table of litellm 1.82."""


@dataclass(frozen=True)
class ContenderSpec:
    """A contender and its way of access.

    Attributes:
        price: None if unknown.
        identity: determines a reply together with the request, such as the digest of a checkpoint;
            None if repeating a request is free and gives the same reply.
    """

    contender: Contender
    endpoint: Endpoint = field(repr=False)
    settings: ContenderConfig = field(repr=False)
    price: Price | None = field(repr=False)
    identity: str | None = field(repr=False)
    paid: bool = field(repr=False)

    @property
    def thinking_tokens(self) -> int:
        return self.settings.thinking_tokens_max if self.settings.reasoning else 0

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of every request besides those of a rollout.

        Greedy, like the trained model. OpenAI's reasoning models take no temperature; OpenRouter
        takes the effort as `reasoning`, the others by OpenAI's name for it.
        """
        config = self.settings
        parameters: dict[str, Any] = {} if config.reasoning else {"temperature": 0.0}
        if config.reasoning_effort and config.provider == "openrouter":
            parameters["reasoning"] = {"effort": config.reasoning_effort}
        elif config.reasoning_effort:
            parameters["reasoning_effort"] = config.reasoning_effort
        return parameters


def hosted_contender(config: ContenderConfig, keys: Mapping[str, str]) -> ContenderSpec:
    """Return a hosted model, which is paid for; see `endpoint_of`."""
    role = f"contender {config.called!r}"
    remedy = ", or leave the contender out"
    endpoint = endpoint_of(config, keys, role, "CONTENDER_API_KEY", remedy=remedy)
    price = Price(*config.prices) if config.prices else price_of(config.model)
    contender = Contender(config.called)
    return ContenderSpec(contender, endpoint, config, price, endpoint.base_url, paid=True)


def local_contender(
    contender: Contender,
    model: str,
    url: str,
    key: str,
    *,
    in_flight: int,
    identity: str | None = None,
) -> ContenderSpec:
    """Return a model or rule that the run itself serves at a URL, free and limited only by requests
    in flight."""
    settings = ContenderConfig(
        model=model,
        provider="url",
        base_url=url,
        limits=without_quota(in_flight),
        call_timeout_s=OWN_CALL_TIMEOUT_S,
        tries_max=OWN_TRIES_MAX,
        backoff_s=OWN_BACKOFF_S,
    )
    endpoint = Endpoint(url, model, key, role=f"contender '{contender}'")
    return ContenderSpec(contender, endpoint, settings, Price(0.0, 0.0), identity, paid=False)
