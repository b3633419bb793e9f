"""The judge: its prompts, limits and verdicts.

`JudgeClient` turns a document and a summary into a `Verdict`, by the wording in `prompts`, the
requests and valid replies of `protocol`, and the `cache` of replies on disk.
"""

from precis.environments.summaries.judge.client import JudgeClient as JudgeClient
from precis.environments.summaries.judge.endpoint import endpoint_for as endpoint_for
from precis.llm.providers import Endpoint as Endpoint
from precis.records.verdict import Answer as Answer
from precis.records.verdict import Scored as Scored
from precis.records.verdict import Unscored as Unscored
from precis.records.verdict import Verdict as Verdict
