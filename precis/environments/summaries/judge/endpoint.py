"""The judge's address, the model that serves it, the key it wants, and its account's limits."""

from collections.abc import Mapping

from precis.config import JudgeConfig, RateLimits
from precis.errors import ConfigError
from precis.llm.limits import without_quota
from precis.llm.providers import Endpoint, endpoint_of

LEXICAL_MODEL = "lexical-judge"
"""The name that the judge on this machine serves under."""


RULES_VERSION = "5"
"""Of the judge on this machine, and of the measure of prose. Raised with every change to what it
answers, how it grades, or what counts as prose: verdicts of other rules are not taken from a cache,
and a run is not continued by them.

1: as they came. 2: units, halves of the day, dates by numbers, surnames with another first name. 3:
answers of two sentences and 60 words at most, where they were quotations of 95. 4: it says whether
a summary is prose. 5: ten words of telegraph between two sentences are no prose (and what a second
judge of rules graded, which there is no more).
"""

OWN_KEY = "JUDGE_API_KEY"
SECOND_KEY = "SECOND_JUDGE_API_KEY"
"""The variable of the key of a second judge with provider `url`."""
_MODELS = {"openrouter": "google/gemini-2.5-flash", "google": "gemini-2.5-flash"}
"""The judging model where the settings name none."""


def endpoint_for(
    config: JudgeConfig,
    environment: Mapping[str, str],
    local_url: str | None = None,
    own_key: str = OWN_KEY,
) -> Endpoint:
    """Return the endpoint that a configuration means.

    Args:
        local_url: of the lexical judge, from whoever started it; ends in `/v1`.
        own_key: the variable that the key of provider `url` is read from.

    Raises:
        ConfigError: the key's variable is not set, or the lexical judge was not started.
    """
    if config.provider == "lexical":
        if local_url is None:
            raise ConfigError(
                "Judge provider 'lexical' is a server on this machine, and none was started: "
                "start precis.rehearsal.judges.serve and give its address, or choose another "
                "provider."
            )
        return Endpoint(local_url.rstrip("/"), config.model or LEXICAL_MODEL, api_key="local")
    hosted = config
    if config.provider != "url":
        model = config.model or _MODELS[config.provider]
        hosted = config.model_copy(update={"model": model, "base_url": ""})
    remedy = (
        " (any word will do for an endpoint that asks for none), or rehearse with judge provider "
        "'lexical', which needs no key"
    )
    return endpoint_of(hosted, environment, "judge", own_key, remedy=remedy)


def limits_of(config: JudgeConfig) -> RateLimits:
    """Return the limits that a judge is held to: the local one has no account, only requests at
    once."""
    if config.provider != "lexical":
        return config.limits
    return without_quota(config.limits.in_flight)
