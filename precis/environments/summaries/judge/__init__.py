"""The judge: its prompts, limits and verdicts.

`JudgeClient` turns a document and a summary into a `Verdict`, by the wording in `prompts`, the
requests and valid replies of `protocol`, and the `cache` of replies on disk.
"""

from precis.environments.summaries.judge.client import JudgeClient
from precis.environments.summaries.judge.endpoint import endpoint_for
from precis.llm.providers import Endpoint
from precis.records.verdict import Answer, Scored, Unscored, Verdict

__all__ = [
    "Answer",
    "Endpoint",
    "JudgeClient",
    "Scored",
    "Unscored",
    "Verdict",
    "endpoint_for",
]
