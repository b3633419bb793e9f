"""Any program as an environment: what it is given, what it may print, and how it is ended."""

import sys
import time
from pathlib import Path

import pytest

from precis.environment import Variables
from precis.environments.command import CommandEnvironment, load_command
from precis.environments.programs import bypass_proxy, harmless
from precis.errors import ConfigError
from precis.processes.child import is_running
from precis.records.rollout import Unscored
from tests.services.patience import SHORT_S, stretched, until
from tests.support.examples import play
from tests.support.programs import ASKING

SCENARIOS = '{"id": "a", "number": 3}\n{"id": "b", "split": "validation"}\n'


def environment_of(folder: Path, text: str) -> CommandEnvironment:
    program = folder / "agent.py"
    program.write_text(ASKING + text)
    scenarios = folder / "scenarios.jsonl"
    scenarios.write_text(SCENARIOS)
    return load_command([sys.executable, str(program)], str(scenarios))


@pytest.mark.parametrize(
    ("text", "cause", "detail"),
    [
        ("", "no_score", "Its last line is ''"),
        ('print(\'{"reward": "much"}\')', "no_score", "Its reward is 'much'"),
        ('print(\'{"reward": 1, "won": true}\')', "no_score", "print a number"),
        ("print('[' * 10**5)", "no_score", "Its last line is"),
        ("os.write(1, bytes(range(256)) * 99)", "no_score", "Its last line is"),
        ("print(1); sys.exit('No board is left.')", "agent_failed", "No board is left."),
        ("print(1); sys.exit(os.environ['OPENAI_API_KEY'])", "agent_failed", "status 1 (…)."),
        (
            "sys.exit('TypeError: no x\\n  at y.mjs:3\\n\\nNode')",
            "agent_failed",
            "1 (TypeError: no x).",
        ),
        ("sys.exit(3)", "agent_failed", "It ended with status 3."),
    ],
)
async def test_what_can_t_be_scored_costs_itself(
    tmp_path: Path, text: str, cause: str, detail: str
) -> None:
    [rollout] = await play(environment_of(tmp_path, text))
    assert isinstance(rollout.score, Unscored)
    assert rollout.score.cause == cause
    assert detail in rollout.score.detail
    assert len(rollout.score.detail) < 500


KEY = "wx-2f81c0"


@pytest.mark.parametrize("ends", ["sys.exit('KEY ' + 'x' * 195)", "print('x' * 195 + 'KEY')"])
async def test_a_message_shows_no_part_of_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Also of one in `.env`, which the program may read itself."""
    (tmp_path / ".env").write_text(f"HF_TOKEN={KEY}")
    monkeypatch.setitem(Variables.model_config, "env_file", tmp_path / ".env")
    [rollout] = await play(environment_of(tmp_path, ends.replace("KEY", KEY)))
    assert isinstance(rollout.score, Unscored)
    assert "x" * 190 in rollout.score.detail
    assert KEY[-4:] not in rollout.score.detail and KEY[:4] not in rollout.score.detail


STUBBORN = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
code = "import os,signal,sys,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); " \\
    "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code, PID], start_new_session=True)
while not (os.path.exists(PID) and open(PID).read()):
    time.sleep(0.01)
"""


@pytest.mark.parametrize(
    ("end", "deadline_s", "cause"),
    [("time.sleep(600)", 2.0, "rollout_timeout"), ("print(1)", SHORT_S, None)],
    ids=["hangs", "ends"],
)
async def test_all_that_it_started_ends_with_it(
    tmp_path: Path, end: str, deadline_s: float, cause: str | None
) -> None:
    """Also what ignores SIGTERM in a session of its own."""
    pid = tmp_path / "pid"
    environment = environment_of(tmp_path, STUBBORN.replace("PID", repr(str(pid))) + end)
    began = time.monotonic()
    [rollout] = await play(environment, deadline_s=deadline_s)
    while not (pid.exists() and pid.read_text()):  # a busy machine had not started it in time
        deadline_s *= 2
        began = time.monotonic()
        [rollout] = await play(environment, deadline_s=deadline_s)
    assert time.monotonic() - began < stretched(120)
    assert rollout.score.cause == cause
    await until(lambda: not is_running(int(pid.read_text())), "the end of what it started")


async def test_it_is_given_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ["WANDB_API_KEY", "HF_TOKEN", "MY_PASSWORD", "AWS_SECRET_ACCESS_KEY", "OF_NO_NAME"]
    for name in secrets:
        monkeypatch.setenv(name, "https://user:hidden-secret@host/v1")
    secrets.append("PRECIS_NOTIFY_URL")
    monkeypatch.setenv("PRECIS_NOTIFY_URL", "https://host/services/hidden-secret")
    monkeypatch.setenv("HARMLESS", "seen")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert not set(secrets) & set(harmless())
    assert "127.0.0.1" in harmless()["no_proxy"]
    text = "print(int('hidden-secret' not in str(os.environ) and 'HARMLESS' in os.environ))"
    [rollout] = await play(environment_of(tmp_path, text))
    assert rollout.reward == 1.0


def test_a_program_is_known_by_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "agent.py"
    program.write_text("print(1)")
    at_home = CommandEnvironment([sys.executable, "~/agent.py"], {})
    named = CommandEnvironment([sys.executable, str(program)], {})
    assert at_home.identity == named.identity
    program.write_text("print(2)")
    assert CommandEnvironment([sys.executable, str(program)], {}).identity != named.identity


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('{"id": 1}', "the split 'validation'. Give scenarios to both: mark those to hold out"),
        ('{"id": 1}\nx', "line 2: it is not JSON"),
        ("[1]", "line 1: it is not a JSON object"),
        ("{}", "line 1: A scenario has the id None"),
        ('{"id": 1, "split": "test"}', "neither 'train' nor 'validation'"),
    ],
)
def test_bad_scenarios_get_a_sentence(tmp_path: Path, lines: str, complaint: str) -> None:
    file = tmp_path / "scenarios.jsonl"
    file.write_text(lines)
    with pytest.raises(ConfigError, match=complaint):
        load_command([sys.executable], str(file))


def test_a_program_and_a_file_that_are_not_there_get_a_sentence() -> None:
    with pytest.raises(ConfigError, match="is not there"):
        load_command(["no-such-program-of-anybody"], "no-such-file.jsonl")
    with pytest.raises(ConfigError, match="can't be read"):
        load_command([sys.executable], "no-such-file.jsonl")


def test_an_argument_may_be_a_whole_script(tmp_path: Path) -> None:
    file = tmp_path / "scenarios.jsonl"
    file.write_text(SCENARIOS, encoding="utf-8-sig")
    for script in ("echo 1; " * 100, "~nobody-of-this-name"):
        command = ["sh", "-c", script]
        assert load_command(command, str(file)).scenarios("train")[0].id == "a"


DIRECT = "127.0.0.1,localhost,10.0.0.5"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"NO_PROXY": ""}, DIRECT),
        ({"no_proxy": "wiki.example, 10.0.0.0/8"}, f"wiki.example,10.0.0.0/8,{DIRECT}"),
        ({"NO_PROXY": " *"}, " *"),
        ({"https_proxy": "http://proxy.example"}, DIRECT),
        ({"HOME": "/home"}, None),
    ],
    ids=["none", "some", "all", "a proxy", "no proxy"],
)
def test_addresses_without_a_proxy_stay_so(variables: dict[str, str], expected: str | None) -> None:
    """Clients on macOS use the system's proxy only where no variable of proxies is set."""
    bypass_proxy(variables, "10.0.0.5")
    assert variables.get("NO_PROXY") == variables.get("no_proxy") == expected
