"""The judge: what it is asked, within which limits, and what its replies are worth.

`JudgeClient` turns a document and a summary into a `Verdict`. A file for each noun:

    verdict    what comes out: `Scored | Unscored`
    prompts    the words that the judge reads, with all data fenced
    protocol   which requests a verdict takes, and what a valid reply is
    replies    from an HTTP response to a reply or a failure
    limits     the account's rates, kept and adapted to
    providers  where the judge is and which key it wants
    lanes      the connections
    bounded    what comes back: never too large, and without our keys in it
    hedging    asking twice what is late
    transport  one request over HTTP
    tries      retries, and the deadline that they share
    asking     a reply from the cache, or from the judge
    client     all of it together
    cache, spend, ruler, forecast, audit: what stands around it
"""

from precis.judge.client import JudgeClient
from precis.llm.providers import Endpoint, endpoint_for
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
