"""The judge's address, model, key and account limits."""

from collections.abc import Mapping

from precis.config import JudgeConfig
from precis.llm.providers import Endpoint, endpoint_of

LEXICAL_MODEL = "lexical-judge"
"""The model name of the judge on this machine."""
RULES_VERSION = "5"
"""The version of the judge on this machine and of the measure of prose. Raised with every change to
its answers, its grading, or the measure: verdicts of other versions are not taken from a cache, and
do not continue a run. docs/judge.md lists the versions."""

OWN_KEY = "JUDGE_API_KEY"
SECOND_KEY = "SECOND_JUDGE_API_KEY"
"""The variable for the key of a second judge with provider `url`."""
_MODELS = {"openrouter": "google/gemini-2.5-flash", "google": "gemini-2.5-flash"}
"""The default judging models, by provider."""


def endpoint_for(
    config: JudgeConfig, environment: Mapping[str, str], own_key: str = OWN_KEY
) -> Endpoint:
    """Return the endpoint of a configuration with a hosted judge; `own_key` is the variable with
    the key of provider `url`. Raises ConfigError if the key's variable is not set."""
    hosted = config.model_copy(update={"model": config.model or _MODELS[config.provider]})
    remedy = ", or rehearse with judge provider 'lexical', which needs no key"
    return endpoint_of(hosted, environment, "judge", own_key, remedy=remedy)
