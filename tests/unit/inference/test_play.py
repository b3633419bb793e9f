"""`precis play`: an episode of an agent, with the embedded policy or a server, in this process."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from precis.config import TrainConfig
from precis.environments.python import load_python
from precis.llm.server import ChatRequest, Choice, Completion, ToolCall, completions_app
from precis.models.record import training_record, write_record
from precis.models.reference import Reference, find_model
from precis.records.ledger import Ledger, write_ledger
from precis.rehearsal.checkpoint_files import initial_state, save
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from precis.runs.checkpoints import commit
from precis.store import FolderStore
from tests.support.command import run_precis
from tests.support.examples import EXAMPLES
from tests.support.ledgers import record
from tests.support.local_server import served
from tests.support.runs import train_policy
from tests.support.wheel import refused_packages

GAME = EXAMPLES / "tic_tac_toe.py"
KEY = "sk-served"
HOSTILE = """
async def rollout(model, scenario):
    asked = [{"role": "user", "content": "Look\\x1b[2J\\x1b]0;owned\\x07 at\\r\\nturn 9, 1.0 s"}]
    await model.openai_client().chat.completions.create(model="m", messages=asked)
    raise RuntimeError("\\x1b[31mred")

def scenarios(split):
    return [{"id": f"{split}\\x1b[2J"}]
"""
BY_URL = """
import httpx

def rollout(model, scenario):
    tool = {"type": "function", "function": {"name": "pick", "parameters": {
        "type": "object", "properties": {"side": {"enum": ["left"]}}, "required": ["side"]}}}
    asked = {"messages": [{"role": "user", "content": "Which?"}], "tools": [tool]}
    answer = httpx.post(
        f"{model.inference_base_url}/chat/completions",
        json={"model": model.get_inference_name(), **asked},
        headers={"Authorization": f"Bearer {model.inference_api_key}"},
    ).json()
    return bool(answer["choices"][0]["message"]["tool_calls"])

def scenarios(split):
    return [{"id": f"{split}-1"}]
"""


def put_agent(store: FolderStore, file: Path, folder: Path) -> None:
    """A run of an agent whose policy is untrained."""
    config = TrainConfig.model_validate({"environment": str(file), "model": "player"})
    digest = load_python(str(file)).digest
    saved = save(folder / "model", initial_state(TOOL_CALLS.layout, 1), TOOL_CALLS.layout)
    commit(store, "player", 0, saved, "c")
    commit(store, "player", 1, saved, "c")
    ledger = Ledger(model="player", config="c", corpus=digest).advance(record(0))
    write_ledger(store, ledger, None)
    write_record(store, "player", training_record(config, "", (400, 100)))


@pytest.fixture
def store(store: FolderStore, tmp_path: Path) -> FolderStore:
    put_agent(store, GAME, tmp_path)
    return store


def play(store: FolderStore, *arguments: object, code: int = 0) -> Result:
    return run_precis("play", *arguments, store=store, code=code)


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server whose model answers with a call that means to look like something else."""
    call = ToolCall("c", "rm\x1b[2J\nReward 1, a success", '{"path": "\x1b]0;owned\x07/"}')
    choice = Choice("Sure\x1b[31m.\nturn 2, 0.0 s", tool_calls=[call])

    async def complete(asked: ChatRequest) -> Completion:
        return Completion(asked.model, [choice])

    monkeypatch.setenv("PRECIS_API_KEY", KEY)
    with served(completions_app(complete, lambda: ["served@3"], KEY)) as address:
        yield f"{address}/v1"


def test_an_episode_is_shown_turn_by_turn_with_its_score(store: FolderStore) -> None:
    done = play(store, GAME)
    assert "player@1 attempts game-10000." in done.output
    shown = done.stdout
    assert "system\n    Play Tic Tac Toe as x" in shown
    assert re.search(r'turn 1, \d+\.\d s\n    → play\(\{"cell": \d\}\)', shown)
    assert re.search(r"Reward [\d.]+, (a|no) success, turns \d, illegal \d\. \d turns?, ", shown)
    other = play(store, GAME, "--scenario", "game-3", "--model", "player@0")
    assert "player@0 attempts game-3." in other.output
    assert other.stdout.count("Play Tic Tac Toe as x") == 1
    turns = len(re.findall(r"^turn \d+,", other.stdout, re.MULTILINE))
    results = len(re.findall(r"^tool$", other.stdout, re.MULTILINE))
    assert turns >= 1 and results == turns - 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((GAME, "--scenario", "game-99999"), "has no scenario 'game-99999'"),
        ((GAME, "--model", "nobody"), "nobody"),
        ((GAME, "--url", "ftp://x"), "--url must start with http:// or https://"),
        ((GAME, "--url", "http://127.0.0.1:9/v1"), "No server answers at"),
        ((EXAMPLES / "missing.py",), "missing.py is not there, or is not a Python file"),
        (("{kind: command}",), "{kind: command} is not a Python file, and"),
        ((EXAMPLES / "codenames.py",), "holds no model that was trained on these scenarios"),
    ],
)
def test_a_mistake_gets_one_sentence(
    store: FolderStore, arguments: tuple[object, ...], said: str
) -> None:
    done = play(store, *arguments, code=1)
    assert said in done.stderr and "Traceback" not in done.output


def test_a_server_s_hostile_text_stays_text(store: FolderStore, tmp_path: Path, url: str) -> None:
    file = tmp_path / "hostile.py"
    file.write_text(HOSTILE)
    done = play(store, file, "--url", url, code=1)
    assert "served@3 attempts" in done.output
    assert "\x1b" not in done.output and "\x07" not in done.output
    lines = done.stdout.splitlines()
    assert "    turn 9, 1.0 s" in lines and "turn 9, 1.0 s" not in lines
    assert "    turn 2, 0.0 s" in lines and "turn 2, 0.0 s" not in lines
    assert any(line.startswith("    Reward 1, a success(") for line in lines)
    assert not any(line.startswith("Reward") for line in lines)
    assert re.match(r"No score \(agent_failed\): RuntimeError: .*\)\. 1 turn, ", lines[-1])
    file.write_text(HOSTILE.replace("Look\\x1b[2J\\x1b]0;owned\\x07", "Look"))
    embedded = play(store, file, "--model", "player", code=1)
    assert "No score (generation_rejected)" in embedded.stdout
    assert "the embedded policy writes no text" in embedded.stdout


def test_a_served_policy_of_an_agent_summarizes_nothing(store: FolderStore, tmp_path: Path) -> None:
    told = run_precis("model", "serve", "player", store=store)
    assert "precis model serve player@1 --run" in told.output
    nobody = run_precis("summarize", GAME, store=store, code=1)
    assert "holds no model that summarizes" in nobody.stderr
    assert find_model(store, Reference("player")).is_agent
    run_precis("model", "export", "player", "--to", tmp_path / "given", store=store)
    assert '"environment": "python"' in (tmp_path / "given" / "prompt.json").read_text()


def test_an_agent_without_the_pipeline_is_played_from_the_wheel_alone(tmp_path: Path) -> None:
    file = tmp_path / "by_url.py"
    file.write_text(BY_URL)
    store = FolderStore(tmp_path / "store")
    put_agent(store, file, tmp_path)
    stored = ["--store", store.url]
    program = f"""
import sys
sys.modules.update(dict.fromkeys({refused_packages()}))  # importing one of them fails
from precis.commands.main import app
assert not app({["play", str(file), *stored]}, standalone_mode=False)
assert not app({["play", str(GAME), *stored, "--model", "player"]}, standalone_mode=False)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '→ pick({"side": "left"})' in done.stdout
    assert "a success" in done.stdout
    assert '→ play({"cell": ' in done.stdout


def test_a_policy_that_summarizes_plays_nothing(store: FolderStore, tmp_path: Path) -> None:
    train_policy(store, "small", tmp_path / "trainer")
    write_record(store, "small", training_record(TrainConfig(), "", (400, 100)))
    done = play(store, GAME, "--model", "small@1", code=1)
    assert "small@1 is the embedded policy of summaries, and plays nothing" in done.stderr
    assert "`precis summarize FILE --model small@1`" in done.stderr
