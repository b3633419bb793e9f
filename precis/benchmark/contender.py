"""A contender: where it is asked, with which parameters, and what it costs."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from precis.benchmark.presets import endpoint_of
from precis.config import ContenderConfig
from precis.llm.limits import without_quota
from precis.llm.providers import Endpoint
from precis.llm.retry import OWN_BACKOFF_S, OWN_TRIES_MAX
from precis.records.spend import Price, price_of
from precis.statistics.standings import Contender

_FREE = Price(0.0, 0.0)


@dataclass(frozen=True)
class ContenderSpec:
    """A contender and how it is asked.

    Attributes:
        settings: its limits, deadlines and tries.
        parameters: what is sent with every request besides the model and the messages.
        price: None where it is not known.
        identity: what decides a summary besides the request, such as the digest of a checkpoint;
            None where asking again costs nothing and gives the same.
        paid: whether each request costs money.
    """

    contender: Contender
    endpoint: Endpoint = field(repr=False)
    settings: ContenderConfig = field(repr=False)
    parameters: Mapping[str, Any] = field(repr=False)
    price: Price | None = field(repr=False)
    identity: str | None = field(repr=False)
    paid: bool = field(repr=False)

    def key(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The digest of all that decides a summary: the same key, the same summary."""
        decisive = [self.identity, self.endpoint.model, dict(self.parameters), list(messages)]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def hosted_contender(
    config: ContenderConfig, keys: Mapping[str, str], tokens_max: int
) -> ContenderSpec:
    """A model that somebody else serves, for money.

    Args:
        keys: the keys that are set, by the name of their variable.
        tokens_max: see `parameters_of`.

    Raises:
        ConfigError: its key is not set.
    """
    endpoint = endpoint_of(config, keys)
    price = Price(*config.prices) if config.prices else price_of(config.model)
    return ContenderSpec(
        Contender(config.called),
        endpoint,
        config,
        parameters_of(config, tokens_max),
        price,
        identity=endpoint.base_url,
        paid=True,
    )


def local_contender(
    contender: Contender,
    model: str,
    url: str,
    key: str,
    *,
    tokens_max: int,
    in_flight: int,
    identity: str | None = None,
) -> ContenderSpec:
    """A model or rule that the run itself serves: free, and without limits but requests at once.

    Args:
        model: its name at the endpoint.
        url: ends in `/v1`.
        tokens_max: see `parameters_of`.
        identity: see `ContenderSpec`.
    """
    settings = ContenderConfig(
        model=model,
        provider="url",
        base_url=url,
        limits=without_quota(in_flight),
        tries_max=OWN_TRIES_MAX,
        backoff_s=OWN_BACKOFF_S,
    )
    endpoint = Endpoint(url, model, key, role=f"contender '{contender}'")
    parameters = parameters_of(settings, tokens_max)
    return ContenderSpec(contender, endpoint, settings, parameters, _FREE, identity, paid=False)


def parameters_of(config: ContenderConfig, tokens_max: int) -> dict[str, Any]:
    """What a contender is sent besides model and messages.

    Greedy, as the trained model is. OpenAI's reasoning models take no temperature and know only
    `max_completion_tokens`; OpenRouter takes the effort as `reasoning`, the others by OpenAI's
    name for it.

    Args:
        tokens_max: the completion tokens to allow, without those that a model thinks with.
    """
    effort = config.reasoning_effort
    routed = config.provider == "openrouter"
    thought: dict[str, Any] = {}
    if effort:
        thought = {"reasoning": {"effort": effort}} if routed else {"reasoning_effort": effort}
    if not config.reasoning:
        return {"temperature": 0.0, "max_tokens": tokens_max, **thought}
    limit = "max_tokens" if routed else "max_completion_tokens"
    return {limit: tokens_max + config.thinking_tokens_max, **thought}
