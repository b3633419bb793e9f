"""The task of Précis for verifiers: documents to summarize, and the judge that scores them."""

from precis_summaries.environment import (
    OneRequestHarness,
    SummariesEnv,
    SummariesEnvConfig,
    load_environment,
)
from precis_summaries.taskset import SummariesTaskset

__all__ = [
    "OneRequestHarness",
    "SummariesEnv",
    "SummariesEnvConfig",
    "SummariesTaskset",
    "load_environment",
]
