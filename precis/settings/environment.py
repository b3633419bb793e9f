"""The task of a policy: the settings of each kind of environment.

environment: {kind: summaries}                       # of the documents of `documents`
environment: {kind: python, file: my_agent.py}       # your own file
environment: my_agent.py                             # the same
environment: {kind: command, command: [./my_agent], scenarios: tasks.jsonl}  # of any program
environment: {kind: verifiers, id: my-environment}   # of a package for verifiers
environment: {kind: textarena, game: ConnectFour-v0}
environment: {kind: reasoning_gym, dataset: countdown}
"""

from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, field_validator, model_validator

from precis.record import BoundedFloat, BoundedInt, Record, Seed
from precis.settings.identity import ByIdentity, Decides, MayChange
from precis.settings.problems import check_hosted

SENT_TO = "~/precis_agent"
"""The folder of an agent's file and the modules beside it on a managed job's machine."""


class WorkersSettings(Record):
    """Processes of a Ray cluster that play rollouts instead of the flow's process."""

    count: MayChange[int] = Field(2, ge=1, le=10_000)
    """The number of workers, spread over the nodes of the cluster."""
    rollouts_each: MayChange[int] = Field(8, ge=1, le=1000)
    """Concurrent rollouts per worker."""
    cpus_each: MayChange[float] = Field(1.0, gt=0, le=10_000)
    """CPUs that Ray reserves per worker."""
    address: MayChange[str] = ""
    """The cluster: `auto` on one of its nodes, `host:6379`, or `ray://host:10001`. Empty starts one
    on this machine, which ends with the run."""
    recorder_host: MayChange[str] = Field("127.0.0.1", min_length=1)
    """The IPv4 address of this machine at which the recorder listens for workers: use one of a
    private network, since prompts and answers travel over plain HTTP."""

    @field_validator("recorder_host")
    @classmethod
    def _check_host(cls, host: str) -> str:
        try:
            is_one = not IPv4Address(host).is_unspecified
        except ValueError:
            is_one = False
        if not is_one:
            raise ValueError(
                f"{host!r} is no IPv4 address of one machine: give this machine's in the network "
                "that it shares with the workers, such as 10.0.0.5."
            )
        return host


class SummariesSettings(Record, title="Summaries"):
    """Summaries of documents, judged by the questions that they answer."""

    kind: Decides[Literal["summaries"]] = "summaries"
    """Documents, judge and word limit have their own settings."""


class PythonSettings(Record, title="Python file"):
    """A Python file with `scenarios(split)` and `rollout(model, scenario)`."""

    kind: Decides[Literal["python"]] = "python"
    """Its code runs in the process of the flow, in threads."""
    file: ByIdentity[str] = Field(min_length=1)
    """The file's path. A run is identified by the content of the file and of the modules that it
    imports from its folder, not by where it is."""
    score: ByIdentity[Literal["", "own", "ruler"]] = ""
    """`own` takes what `rollout` returns; `ruler` has the judge of `judge` score the attempts of a
    group against each other. Empty takes the file's setting, or else `own`."""
    rubric: ByIdentity[str] = Field("", max_length=2000)
    """For `ruler`, a sentence that defines a good attempt; empty takes the file's."""
    workers: MayChange[WorkersSettings | None] = None
    """The workers that play its rollouts; by default the flow's process plays them."""

    def on_its_machine(self) -> Self:
        """Return the settings for a rented machine, which the file is sent to."""
        return self.model_copy(update={"file": f"{SENT_TO}/{Path(self.file).name}"})


class CommandSettings(Record, title="Command"):
    """Any program, in any language: it asks the policy over HTTP and prints a score."""

    kind: Decides[Literal["command"]] = "command"
    """Each rollout is a process on the flow's machine."""
    command: ByIdentity[tuple[str, ...]] = Field(min_length=1)
    """The program and its arguments. A run is identified by these and by the contents of the files
    among them, not by where those are."""
    scenarios: ByIdentity[str] = Field(min_length=1)
    """A JSONL file of scenarios, of which those with `"split": "validation"` are held out."""


class VerifiersSettings(Record, title="Verifiers"):
    """An environment of verifiers 0.4, in its own virtual environment."""

    kind: Decides[Literal["verifiers"]] = "verifiers"
    """It runs in its own process, on the flow's machine."""
    id: Decides[str] = Field(min_length=1)
    """The installed package, as verifiers names it. Its code is part of a run's identity."""
    python: ByIdentity[str] = Field(".venv-verifiers/bin/python", min_length=1)
    """The Python of that virtual environment; `make install-verifiers` makes this one."""
    config: Decides[dict[str, Any]] = Field(default_factory=dict)
    """verifiers' own settings of the environment, as below `[env]` in its files:
    `{"taskset": {"difficulty": "hard"}, "agent": {"max_turns": 4}}`."""
    held_out: Decides[dict[str, Any]] = Field(default_factory=dict)
    """Settings of the taskset that differ for the held-out tasks: `{"split": "test"}`. Empty holds
    out the first `val_size` tasks, and trains on the next ones."""
    train_size: Decides[BoundedInt] = Field(400, ge=1)
    """The most tasks to train on."""
    val_size: Decides[BoundedInt] = Field(40, ge=1)
    """The most tasks to hold out."""
    success_min: Decides[BoundedFloat | None] = Field(None, ge=-(2**53))
    """The least reward that counts as a success; without one the mean reward is reported."""
    variables: MayChange[tuple[str, ...]] = ()
    """Names of variables to pass to its process although they may be secrets, such as the key of
    its own judge."""


class Generated(Record):
    """Scenarios generated from seeds, to train on and to hold out."""

    size: Decides[int] = Field(500, ge=1, le=1_000_000)
    """Scenarios to train on."""
    val_size: Decides[int] = Field(64, ge=1, le=100_000)
    """Scenarios to hold out."""
    seed: Decides[Seed] = 1
    """Seed of the scenarios, independent of the run's seed."""


class OpponentSettings(Record):
    """A model that plays against the policy, behind an OpenAI-compatible endpoint."""

    model: Decides[str] = Field(min_length=1)
    """Its name at the endpoint, such as `openai/gpt-4o-mini`."""
    provider: MayChange[Literal["openrouter", "openai", "url"]] = "openrouter"
    """`openrouter` needs OPENROUTER_API_KEY, `openai` OPENAI_API_KEY; `url` is any endpoint."""
    base_url: MayChange[str] = ""
    """Endpoint that ends in /v1, for provider `url`; its key, if it needs one, is read from
    OPPONENT_API_KEY."""
    temperature: Decides[float] = Field(0.0, ge=0, le=2)
    """Its sampling temperature; 0 makes its moves repeatable, as far as the provider allows."""
    tokens_max: Decides[BoundedInt] = Field(1024, ge=1)
    """Most tokens per move, reasoning included."""
    call_timeout_s: MayChange[BoundedFloat] = Field(60, gt=0)
    """Deadline of one of its moves, in seconds."""
    in_flight: MayChange[BoundedInt] = Field(8, ge=1)
    """Concurrent requests to it."""

    @model_validator(mode="after")
    def _url_is_one(self) -> Self:
        name = f"opponent {self.model!r}"
        check_hosted(self.provider, self.base_url, name, "OPPONENT_API_KEY")
        return self


class TextArenaSettings(Generated, title="TextArena"):
    """A game of TextArena; the policy has one of its seats."""

    kind: Decides[Literal["textarena"]] = "textarena"
    """Needs `make install-environments`, or the extra `textarena`."""
    game: Decides[str] = Field(min_length=1)
    """Its name in TextArena, such as `ConnectFour-v0`."""
    opponent: Decides[Literal["random"] | OpponentSettings] = "random"
    """The player of the other seats: `random` makes any legal move that the game shows; `{"model":
    …}` is a model. Not used by a game for one player."""
    players: Decides[int] = Field(0, ge=0, le=15)
    """Seats of the game; 0 takes the fewest possible."""
    moves_max: Decides[BoundedInt] = Field(50, ge=1)
    """Moves of the policy after which an unfinished game ends and earns 0. `rollouts.turns_max`
    limits them too."""
    show_moves: Decides[bool] = False
    """End each message of the game with the legal moves, in brackets. The embedded policy needs
    this unless the game lists them itself."""


class ReasoningGymSettings(Generated, title="Reasoning Gym"):
    """Puzzles of one of reasoning-gym's generators, which also scores the answers."""

    kind: Decides[Literal["reasoning_gym"]] = "reasoning_gym"
    """Needs `make install-environments`, or the extra `reasoning-gym`."""
    dataset: Decides[str] = Field(min_length=1)
    """The generator's name, such as `countdown`."""
    parameters: Decides[dict[str, JsonValue]] = Field({})
    """Parameters of the generator, such as `{"min_numbers": 3}`; empty takes its own."""


def _kind_of(given: Any) -> Any:
    """Expand `summaries`, or the path of a Python file, to settings."""
    if not isinstance(given, str):
        return given
    return {"kind": "summaries"} if given == "summaries" else {"kind": "python", "file": given}


AgentSettings = (
    PythonSettings | CommandSettings | VerifiersSettings | TextArenaSettings | ReasoningGymSettings
)
"""The environments other than summaries, which have further settings."""
EnvironmentSettings = Annotated[
    SummariesSettings | AgentSettings,
    Field(discriminator="kind"),
    BeforeValidator(_kind_of),
]


def label_of(environment: AgentSettings) -> str:
    """Return an environment's name for messages."""
    if environment.kind == "python":
        return environment.file
    if environment.kind == "command":
        return " ".join(environment.command)
    if environment.kind == "verifiers":
        return f"verifiers' environment {environment.id}"
    return environment.game if environment.kind == "textarena" else environment.dataset


def opponent_of(environment: SummariesSettings | AgentSettings) -> OpponentSettings | None:
    """Return the model that plays against the policy, or None."""
    opponent = environment.opponent if environment.kind == "textarena" else None
    return opponent if isinstance(opponent, OpponentSettings) else None
