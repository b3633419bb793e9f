"""An environment of verifiers, by a child that speaks its protocol: whatever that does, a rollout
costs itself. `tests/services/test_verifiers_agent.py` has verifiers itself."""

import os
import re
import signal
import sys
import time
from math import nan
from pathlib import Path
from typing import Any

import pytest

from precis.environments import verifiers as module
from precis.environments.verifiers import load_verifiers
from precis.errors import ConfigError, RolloutError
from precis.processes.child import is_running
from precis.records.rollout import Score, Unscored
from precis.settings.environment import VerifiersSettings
from precis.training.validation import validation_of
from tests.services.patience import stretched, until
from tests.support.examples import play

DESCRIBED = {
    "version": "0.4.0",
    "digest": "d1",
    "splits": {
        "train": [{"id": id, "task": {"idx": ord(id), "limit": nan}} for id in "abcd"],
        "validation": [{"id": "e"}],
    },
}
CHILD = """#!PYTHON
import json, os, socket, subprocess, sys, time
from math import nan

what, settings = sys.argv[3], json.loads(sys.argv[4])
config = settings["config"]
if what == "describe":
    print(json.dumps(DESCRIBED | config.get("described", {})))
    sys.exit(config.get("status", 0))

channel = socket.socket(fileno=int(sys.argv[5]))
lines = channel.makefile("r")

def send(said):
    channel.sendall(json.dumps(said).encode() + b"\\n")

def ask(asked):
    import urllib.request  # which takes as long as all else

    headers = {"Authorization": "Bearer " + asked["key"], "Content-Type": "application/json"}
    body = {"model": asked["model"], "messages": [{"role": "user", "content": "Go."}]}
    address = asked["address"] + "/chat/completions"
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]

exec(config.get("start", ""))
send({"ready": True})
for line in lines:
    asked = json.loads(line)
    if "cancel" in asked:
        send({"number": asked["cancel"], "cancelled": True})
        continue
    said = {"number": asked["number"], "reward": 0.75, "metrics": {"turns": 1.0}}
    exec(config["play"])
"""
SCORES = "ask(asked); send(said)"
KEY = "wx-2f81c0"


def settings_of(folder: Path, play: str = SCORES, **given: Any) -> VerifiersSettings:
    """The settings of an environment whose child does `play` for each rollout."""
    python = folder / "python"
    text = CHILD.replace("PYTHON", sys.executable).replace("DESCRIBED", repr(DESCRIBED))
    python.write_text(text)
    python.chmod(0o700)
    config = {"play": play, **given.pop("config", {})}
    return VerifiersSettings(id="doors", python=str(python), config=config, **given)


async def test_it_is_played_at_the_recorders_address_until_closed(tmp_path: Path) -> None:
    tells = "ask(asked); said['metrics']['child'] = os.getpid(); send(said)"
    environment = load_verifiers(settings_of(tmp_path, tells))
    assert [one.id for one in environment.scenarios("validation")] == ["e"]
    assert environment.scenarios("train")[1]["task"] == {"idx": ord("b"), "limit": None}
    [rollout] = await play(environment)
    child = int(rollout.metrics["child"])
    assert rollout.score == Score(0.75, None, {"turns": 1.0, "child": child})
    assert [call.messages[0]["content"] for call in rollout.calls] == ["Go."]
    await until(lambda: not is_running(child), "the child's end")


async def test_a_reward_is_a_success_if_it_is_at_least_success_min(tmp_path: Path) -> None:
    lower = f"said['reward'] -= asked['scenario'] == 'b'; {SCORES}"
    environment = load_verifiers(settings_of(tmp_path, lower, success_min=0.75))
    rollouts = await play(environment, games=2)
    scores = [Score(0.75, True, {"turns": 1.0}), Score(-0.25, False, {"turns": 1.0})]
    assert [one.score for one in rollouts] == scores
    validation = validation_of(0, rollouts, 1.0, environment)
    assert (validation.measure, str(validation.score)) == ("success rate", "50.0%")
    other = load_verifiers(settings_of(tmp_path, lower))
    assert environment.rules != other.rules
    assert environment.identity == other.identity
    changed = load_verifiers(settings_of(tmp_path, config={"described": {"digest": "d2"}}))
    assert environment.identity != changed.identity


async def test_a_child_that_dies_is_replaced(tmp_path: Path) -> None:
    dies = "channel.sendall(b'{'); print('Out of boards.', file=sys.stderr); os._exit(3)"
    text = f"if asked['scenario'] == 'a':\n    {dies}\nelse:\n    {SCORES}"
    first, second = await play(load_verifiers(settings_of(tmp_path, text)), games=2)
    assert isinstance(first.score, Unscored)
    assert first.score.cause == "environment_died"
    assert "Out of boards." in first.score.detail
    assert second.reward == 0.75


async def test_a_message_shows_no_part_of_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_TOKEN", KEY)
    said = f"'TaskError: {KEY} ' + 'x' * 480 + '{KEY}' + 'y' * 240"
    fails = f"'cause': 'environment_failed', 'detail': {said}"
    settings = settings_of(tmp_path, f"send({{'number': asked['number'], {fails}}})")
    [rollout] = await play(load_verifiers(settings))
    assert isinstance(rollout.score, Unscored)
    assert re.fullmatch("TaskError: … x+ … x+…y+", rollout.score.detail)
    described = {"described": {"problem": "unusable", "detail": "x" * 245 + KEY + "y" * 300}}
    with pytest.raises(ConfigError, match=r"used: x+…y+ … y+$"):
        load_verifiers(settings_of(tmp_path, config=described))
    start = f"sys.stderr.write('{KEY}' + 'x' * 495); send({{'problem': 'It fails.'}}); sys.exit()"
    with pytest.raises(ConfigError, match=r"said last: …x+$"):
        await play(load_verifiers(settings_of(tmp_path, config={"start": start})))


async def test_a_child_that_always_dies_ends_the_step(tmp_path: Path) -> None:
    environment = load_verifiers(settings_of(tmp_path, "os._exit(1)"))
    with pytest.raises(RolloutError, match="died 3 times and scored nothing in between"):
        await play(environment, games=4)


def start_sleeper(pid: Path) -> str:
    """A statement that starts a program, which writes its id to a file and sleeps."""
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    return f'subprocess.Popen([sys.executable, "-c", {code!r}], start_new_session=True)'


async def test_one_that_is_stuck_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWER_S", 0.5)
    pid = tmp_path / "pid"
    stuck = f"""
if asked['scenario'] == 'a':
    {start_sleeper(pid)}
    time.sleep(600)
{SCORES}"""
    environment = load_verifiers(settings_of(tmp_path, stuck))
    deadline_s = 1.0
    began = time.monotonic()
    first, second = await play(environment, games=2, deadline_s=deadline_s)
    while not (pid.exists() and pid.read_text()) or second.score.cause == "rollout_timeout":
        # A busy machine had not started it, or the next child, in time.
        pid.unlink(missing_ok=True)
        deadline_s *= 2
        began = time.monotonic()
        first, second = await play(environment, games=2, deadline_s=deadline_s)
    assert first.score.cause == "rollout_timeout"
    assert second.reward == 0.75, "another child has taken its place"
    assert time.monotonic() - began < stretched(120)
    await until(lambda: not is_running(int(pid.read_text())), "the end of what it started")


async def test_a_program_that_outlives_its_supervisor_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hold the child's standard error open for as long as it likes."""
    monkeypatch.setattr(module, "_ANSWER_S", 0.5)
    pid = tmp_path / "pid"
    killed = f"""
if asked['scenario'] == 'a':
    {start_sleeper(pid)}
    while not os.path.exists({str(pid)!r}): time.sleep(0.05)
    os.kill(os.getppid(), 9)
    os._exit(3)
{SCORES}"""
    try:
        first, second = await play(load_verifiers(settings_of(tmp_path, killed)), games=2)
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
    assert first.score.cause == "environment_died"
    assert second.reward == 0.75


async def test_a_late_rollout_is_cancelled_and_leaves_the_child_alone(tmp_path: Path) -> None:
    late = "if asked['scenario'] != 'b': ask(asked); send(said | {'reward': os.getpid()})"
    environment = load_verifiers(settings_of(tmp_path, late))
    deadline_s = 1.0
    before, late_one, after = await play(environment, games=3, deadline_s=deadline_s)
    while "rollout_timeout" in (before.score.cause, after.score.cause):
        # A busy machine had not started the child in time.
        deadline_s *= 2
        before, late_one, after = await play(environment, games=3, deadline_s=deadline_s)
    assert late_one.score.cause == "rollout_timeout"
    assert before.reward == after.reward


async def test_it_has_only_named_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "hidden-secret")
    monkeypatch.setenv("JUDGE_OF_MINE_KEY", "granted")
    seen = "ask(asked); said['reward'] = float('hidden-secret' not in str(os.environ)) "
    seen += "+ 2 * ('JUDGE_OF_MINE_KEY' in os.environ); send(said)"
    [rollout] = await play(load_verifiers(settings_of(tmp_path, seen)))
    assert rollout.reward == 1.0
    granted = settings_of(tmp_path, seen, variables=("JUDGE_OF_MINE_KEY",))
    [rollout] = await play(load_verifiers(granted))
    assert rollout.reward == 3.0


NO_TASKS = {"splits": {"train": [], "validation": [{"id": "c"}]}}


@pytest.mark.parametrize(
    ("described", "complaint"),
    [
        ({"problem": "missing", "detail": "no x"}, r"can't import verifiers: no x\. Run `make "),
        ({"problem": "version", "detail": "0.3.1"}, r"has verifiers 0\.3\.1, and 0\.4 is needed"),
        ({"problem": "unknown", "detail": "no."}, r"environment of verifiers 'doors': no\. .*uv"),
        ({"problem": "unusable", "detail": "It wants\033[2J\n  a sandbox."}, "It wants a sand"),
        (NO_TASKS, "no scenarios for the split 'train'.*val_size"),
    ],
)
def test_what_can_t_be_played_gets_a_sentence(
    tmp_path: Path, described: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_verifiers(settings_of(tmp_path, config={"described": described}))


async def test_a_failed_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"no-python, is not there.*make install-verifiers"):
        load_verifiers(VerifiersSettings(id="doors", python="no-python"))
    with pytest.raises(ConfigError, match="ended with status 3"):
        load_verifiers(settings_of(tmp_path, config={"status": 3}))
    start = "sys.stderr.write('No\\033[2J sun.'); send({'problem': 'No\\033[2J key.'}); sys.exit()"
    with pytest.raises(ConfigError, match=r"can't be started: No key\. It said last: No sun\.$"):
        await play(load_verifiers(settings_of(tmp_path, config={"start": start})))
    monkeypatch.setattr(module, "_START_S", 2.0)
    slow = settings_of(tmp_path, config={"start": "time.sleep(600)"})
    with pytest.raises(ConfigError, match="It was not ready within 2 s"):
        await play(load_verifiers(slow))
