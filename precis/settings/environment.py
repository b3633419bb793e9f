"""What a policy is trained to do: the settings of each kind of environment.

environment: {kind: summaries}                       # of the documents of `documents`
environment: {kind: python, file: my_agent.py}       # of a file of one's own
environment: my_agent.py                             # the same
environment: {kind: command, command: [./my_agent]}  # of any program
environment: {kind: verifiers, id: my-environment}   # of a package for verifiers
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from precis.record import Record
from precis.settings.identity import ByIdentity, Decides, MayChange


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

    @property
    def label(self) -> str:
        """Its name in messages."""
        return self.file


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

    @property
    def label(self) -> str:
        """Its name in messages."""
        return " ".join(self.command)


class VerifiersSettings(Record):
    """An environment of verifiers 0.4, in the virtual environment that it is installed in."""

    kind: Decides[Literal["verifiers"]] = "verifiers"
    """It is played in a process of its own, on the flow's machine."""
    id: Decides[str] = Field(min_length=1)
    """The installed package, as verifiers names it. What a run is depends on its code, too."""
    python: ByIdentity[str] = Field(".venv-verifiers/bin/python", min_length=1)
    """The Python of that virtual environment; `make install-verifiers` makes this one."""
    config: Decides[dict[str, Any]] = Field(default_factory=dict)
    """verifiers' own settings of the environment, as below `[env]` in its files:
    `{"taskset": {"difficulty": "hard"}, "agent": {"max_turns": 4}}`."""
    held_out: Decides[dict[str, Any]] = Field(default_factory=dict)
    """Settings of the taskset in which the held-out tasks differ: `{"split": "test"}`. Empty holds
    out the first `val_size` tasks, and trains on those that follow."""
    train_size: Decides[int] = Field(400, ge=1)
    """The most tasks to train on."""
    val_size: Decides[int] = Field(40, ge=1)
    """The most tasks to hold out."""
    success_min: Decides[float | None] = None
    """The least reward that counts as a success; without one the mean reward is reported."""
    rubric: ByIdentity[str] = Field("", max_length=2000)
    """A sentence on what is good: the judge of `judge` then scores the attempts of a group against
    each other (RULER). Empty takes the environment's rewards."""
    variables: MayChange[tuple[str, ...]] = ()
    """Names of variables that its process sees although they may be secrets, such as the key of a
    judge of its own."""

    @property
    def label(self) -> str:
        """Its name in messages."""
        return f"verifiers' environment {self.id}"


def _kind_of(given: Any) -> Any:
    """A name as what it is short for."""
    if not isinstance(given, str):
        return given
    return {"kind": "summaries"} if given == "summaries" else {"kind": "python", "file": given}


AgentSettings = PythonSettings | CommandSettings | VerifiersSettings
"""Those that have no settings elsewhere."""
EnvironmentSettings = Annotated[
    SummariesSettings | AgentSettings,
    Field(discriminator="kind"),
    BeforeValidator(_kind_of),
]
