"""An environment of verifiers 0.4 as what a policy is trained on: tools, faults, and a step."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from precis.environments.recorder import Recorder
from precis.environments.verifiers import load_verifiers
from precis.errors import ConfigError
from precis.llm.server import ChatRequest, ToolCall
from precis.processes.child import is_running
from precis.records.rollout import Score, Unscored
from precis.records.trajectories import scan_trajectories
from precis.settings.environment import VerifiersSettings
from tests.services.conftest import ROOT
from tests.support.in_process import Life
from tests.support.scripted_policy import ScriptedPolicy, asked

BEHIND = {"red": "left", "blue": "right"}
"""As in `doors_taskset`."""

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def taskset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have verifiers find the taskset, as if it were installed."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "services"))


def settings_of(python: Path, **given: Any) -> VerifiersSettings:
    return VerifiersSettings(id="doors_taskset", python=str(python), **given)


def open_door(request: ChatRequest, *, wrong: bool = False) -> ToolCall:
    """Open the door that the last hint is of, or the other one."""
    [tool] = request.tools or []
    hint = str(request.messages[-1]["content"]).partition("The hint is ")[2].partition(".")[0]
    side = BEHIND[hint]
    sides = tool["function"]["parameters"]["properties"]["side"]["enum"]
    assert sorted(sides) == ["left", "right"]
    if wrong:
        [side] = [one for one in sides if one != side]
    return ToolCall("call_1", tool["function"]["name"], json.dumps({"side": side}))


async def test_games_with_tools_are_played_and_a_lost_one_recorded(verifiers_python: Path) -> None:
    environment = load_verifiers(settings_of(verifiers_python, success_min=1.0, val_size=4))
    assert environment.identity["verifiers"].startswith("0.4.")
    held_out = environment.scenarios("validation")
    assert [one.id for one in held_out] == [f"doors-{number}" for number in range(4)]
    assert environment.scenarios("train")[0].id == "doors-4"
    children: list[int] = []

    def kill(request: ChatRequest) -> ToolCall:
        if not children:
            children.extend(running("verifiers_child.py"))
            [child] = children
            os.kill(child, signal.SIGKILL)
        return open_door(request)

    async with Recorder() as recorder, environment:
        for say, score in (
            (open_door, Score(1.0, True, {"walls": 0.0})),
            (partial(open_door, wrong=True), Score(0.0, False, {"walls": 1.0})),
        ):
            async with asked(ScriptedPolicy(say)) as policy:
                games = [recorder.run(policy, environment, one) for one in held_out]
                rollouts = await asyncio.gather(*games)
            assert [one.score for one in rollouts] == [score] * 4
            for rollout in rollouts:
                assert len(rollout.calls) == (3 if score.success else 1)
                last = rollout.calls[-1].messages
                assert last[0] == {"role": "user", "content": rollout.scenario["task"]["prompt"]}
                assert all(call.token_ids and call.logprobs for call in rollout.calls)
        async with asked(ScriptedPolicy(kill)) as policy:
            lost = await recorder.run(policy, environment, held_out[0])
            played = await recorder.run(policy, environment, held_out[1])
    assert isinstance(lost.score, Unscored)
    assert lost.score.cause == "environment_died"
    assert played.reward == 1.0
    assert not is_running(children[0])
    assert not running("doors_taskset")


def running(program: str) -> list[int]:
    """The children of this test, and theirs, that have a program's name in their arguments."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            arguments = " ".join(process.cmdline())
            ours = process.environ().get("PYTHONPATH") == str(ROOT / "tests" / "services")
            if ours and program in arguments and "supervisor" not in arguments:
                found.append(process.pid)
    return found


def test_what_it_can_t_play_gets_a_sentence(verifiers_python: Path) -> None:
    for given, complaint in (
        ({"id": "no_such_package"}, "has no environment of verifiers 'no_such_package'"),
        ({"config": {"taskset": {"count": "many"}}}, r"can't be used: .*taskset\.count"),
        ({"config": {"agent": {"harness": {"id": "codex"}}}}, "a sandbox of Prime Intellect"),
    ):
        settings = settings_of(verifiers_python).model_copy(update=given)
        with pytest.raises(ConfigError, match=f"(?s){complaint}"):
            load_verifiers(settings)


async def test_it_is_trained_on(verifiers_python: Path, tmp_path: Path) -> None:
    environment = {
        "kind": "verifiers",
        "id": "doors_taskset",
        "python": str(verifiers_python),
        "config": {"taskset": {"count": 2}},
        "train_size": 40,
        "val_size": 8,
    }
    rollouts = {"groups_per_step": 4, "rollouts_per_group": 4}
    settings = {"environment": environment, "rollouts": rollouts, "documents": {}, "steps": 1}
    life = Life(tmp_path / "run", settings)
    await life.live()
    rows = scan_trajectories(life.store, "m", "train").collect()
    assert rows["reward"].null_count() == 0
    assert rows["reward"].n_unique() > 1
    assert set(rows["scenario_id"]) <= {f"doors-{number}" for number in range(8, 48)}
