"""What a policy is trained to do: the settings of each kind of environment.

environment: {kind: summaries}                       # of the documents of `documents`
environment: {kind: python, file: my_agent.py}       # of a file of one's own
environment: my_agent.py                             # the same
environment: {kind: command, command: [./my_agent]}  # of any program
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


class CommandSettings(Record):
    """Any program, in any language: it asks the policy over HTTP and prints a score."""

    kind: Decides[Literal["command"]] = "command"
    """Each rollout is a process of the flow's machine."""
    command: ByIdentity[tuple[str, ...]] = Field(min_length=1)
    """The program and its arguments. What a run is depends on these, and on the contents of the
    files among them, wherever they lie."""
    scenarios: ByIdentity[str] = ""
    """A JSONL file of scenarios, of which those with `"split": "validation"` are held out. Empty
    asks the program, by the arguments `scenarios train` and `scenarios validation`."""
    rubric: ByIdentity[str] = Field("", max_length=2000)
    """A sentence on what is good: the judge of `judge` then scores the attempts of a group against
    each other (RULER). Empty takes the score that the program prints."""


def _kind_of(given: Any) -> Any:
    """A name as what it is short for."""
    if not isinstance(given, str):
        return given
    return {"kind": "summaries"} if given == "summaries" else {"kind": "python", "file": given}


EnvironmentSettings = Annotated[
    SummariesSettings | PythonSettings | CommandSettings,
    Field(discriminator="kind"),
    BeforeValidator(_kind_of),
]
