"""What a policy is trained to do: the settings of each kind of environment.

environment: {kind: summaries}                       # of the documents of `documents`
environment: {kind: python, file: my_agent.py}       # of a file of one's own
environment: my_agent.py                             # the same
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from precis.record import Record
from precis.settings.identity import ByIdentity, Decides


class SummariesSettings(Record):
    """Summaries of documents, judged by the questions that they answer."""

    kind: Decides[Literal["summaries"]] = "summaries"
    """Documents, judge and word limit have settings of their own."""


class PythonSettings(Record):
    """A Python file with `scenarios(split)` and `rollout(model, scenario)`."""

    kind: Decides[Literal["python"]] = "python"
    """Its code runs in the process of the flow, in threads."""
    file: ByIdentity[str] = Field(min_length=1)
    """The file's path. What a run is depends on its content, and on that of the modules that it
    imports from its folder, and not on where it lies."""
    score: ByIdentity[Literal["", "own", "ruler"]] = ""
    """`own` takes what `rollout` returns; `ruler` has the judge of `judge` score the attempts of a
    group against each other. Empty takes what the file says, or else `own`."""
    rubric: ByIdentity[str] = Field("", max_length=2000)
    """For `ruler`, a sentence on what is good; empty takes the file's."""


def _kind_of(given: Any) -> Any:
    """A name as what it is short for."""
    if not isinstance(given, str):
        return given
    return {"kind": "summaries"} if given == "summaries" else {"kind": "python", "file": given}


EnvironmentSettings = Annotated[
    SummariesSettings | PythonSettings, Field(discriminator="kind"), BeforeValidator(_kind_of)
]
