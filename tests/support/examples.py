"""The examples, played through the recorder."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from precis.environments.isolated import IsolatedModule
from precis.environments.protocol import Environment
from precis.environments.python import PythonEnvironment, load_python
from precis.environments.recorder import Recorder
from precis.environments.session import Limits
from precis.llm.server import ChatRequest, Completion, ToolCall
from precis.records.rollout import Rollout, Score
from precis.rehearsal.checkpoint_files import initial_state
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from tests.support.repository import ROOT
from tests.support.scripted_policy import ScriptedPolicy, asked

EXAMPLES = ROOT / "examples"
LIMITS = Limits(deadline_s=600.0, turns_max=50, tokens_max=8192)
"""What a run's settings are without a word."""


def example(name: str, **settings: Any) -> PythonEnvironment:
    """An example, with other settings at its top; `with_settings` has those that
    it reads when it is loaded."""
    environment = load_python(str(EXAMPLES / name))
    for setting, value in settings.items():
        assert hasattr(module_of(environment), setting)
        setattr(module_of(environment), setting, value)
    return environment


def module_of(environment: PythonEnvironment) -> ModuleType:
    """The file itself, for its rules to be tested."""
    return environment._module


def with_settings(name: str, folder: Path, **settings: Any) -> PythonEnvironment:
    """An example whose settings at the top were edited, in a folder with all others."""
    left = shutil.ignore_patterns("__pycache__")
    shutil.copytree(EXAMPLES, folder, ignore=left, dirs_exist_ok=True)
    text = (EXAMPLES / name).read_text("utf-8")
    for setting, value in settings.items():
        before = next(line for line in text.splitlines() if line.startswith(f"{setting} = "))
        text = text.replace(before, f"{setting} = {value!r}")
    file = folder / name
    file.write_text(text, "utf-8")
    return load_python(str(file))


async def play(
    environment: Environment,
    scripted: ScriptedPolicy | None = None,
    games: int = 1,
    deadline_s: float = LIMITS.deadline_s,
) -> list[Rollout]:
    """Attempt an environment's first scenarios, one after the other."""
    limits = replace(LIMITS, deadline_s=deadline_s)
    rollouts = []
    async with (
        environment,
        asked(scripted or ScriptedPolicy(), limits=limits) as policy,
        Recorder() as recorder,
    ):
        for index, scenario in enumerate(environment.scenarios("train")[:games]):
            rollouts.append(await recorder.run(policy, environment, scenario, index))
    return rollouts


def embedded(seed: int = 1) -> ScriptedPolicy:
    """The embedded policy of a rehearsal, untrained."""
    policy = initial_state(TOOL_CALLS.layout, seed).policy

    def answer(request: ChatRequest) -> str | ToolCall:
        (choice,) = TOOL_CALLS.answer(policy, request)
        return choice.tool_calls[0] if choice.tool_calls else choice.content

    return ScriptedPolicy(answer)


class LastingModule(IsolatedModule):
    """One process for all tests of a file: it takes seconds to start."""

    async def close(self) -> None:
        pass


class Baseline(ScriptedPolicy):
    """Answers as a baseline of an environment does."""

    def __init__(self, environment: Environment, name: str) -> None:
        super().__init__()
        self._answer = environment.baselines()[name]

    async def __call__(self, request: ChatRequest) -> Completion:
        choice = (await self._answer(request)).choices[0]
        said: str | ToolCall = choice.tool_calls[0] if choice.tool_calls else choice.content
        self.say = lambda _: said
        return await super().__call__(request)


def call(request: ChatRequest, tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"call-{len(request.messages)}", tool, json.dumps(arguments))


def score_of(rollout: Rollout) -> Score:
    assert isinstance(rollout.score, Score), rollout.score
    return rollout.score
