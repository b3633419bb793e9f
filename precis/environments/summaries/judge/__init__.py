"""The judge: what it is asked, within which limits, and what its replies are worth.

`JudgeClient` turns a document and a summary into a `Verdict`. A file for each noun:

    prompts    the words that the judge reads, with all data in a fence
    protocol   which requests a verdict takes, and what a valid reply is
    endpoint   where the judge is, and which key it wants
    cached     a valid reply to a prompt, from the cache or from the judge
    client     all of it together
    cache      replies on disk
    forecast   what a run will ask and pay
    audit, audit_sheet, correction
               checking its verdicts: a sample, to read or to rule on, and what follows
    ceiling    whether it can read the documents at all

How any server of language models is asked stands in `precis.llm`.
"""

from precis.environments.summaries.judge.client import JudgeClient
from precis.environments.summaries.judge.endpoint import endpoint_for
from precis.llm.providers import Endpoint
from precis.records.verdict import Answer, Ranked, Scored, Unscored, Verdict

__all__ = [
    "Answer",
    "Endpoint",
    "JudgeClient",
    "Ranked",
    "Scored",
    "Unscored",
    "Verdict",
    "endpoint_for",
]
