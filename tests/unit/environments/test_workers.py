"""Workers without a cluster: what the settings refuse, what is sent, and where the recorder is.

`tests/services/test_workers.py` has the cluster.
"""

import ast
import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import DEFAULT, Mock

import openai
import pytest
from pydantic import ValidationError

from precis.config import TrainConfig
from precis.environments.python import files_of, load_python
from precis.environments.recorder import Recorder
from precis.environments.workers import Player, Workers, check_reach, connect
from precis.errors import ConfigError, RolloutError
from precis.records.rollout import Scenario, Score
from precis.settings.environment import PythonSettings, WorkersSettings
from precis.training.opening import load_agent
from tests.support import echoing
from tests.support.scripted_policy import Agent, ScriptedPolicy, asked


@pytest.mark.parametrize("host", ["0.0.0.0", "gpu-box"])
def test_the_recorder_listens_at_an_address_of_one_machine(host: str) -> None:
    with pytest.raises(ValidationError, match="is no IPv4 address of one machine"):
        WorkersSettings(recorder_host=host)


def test_without_ray_a_sentence_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = PythonSettings(file=echoing.__file__, workers=WorkersSettings())
    monkeypatch.setitem(sys.modules, "ray", None)  # what an import of it finds
    with pytest.raises(ConfigError, match=r"needs Ray.*make install-ray"):
        load_agent(settings)


@pytest.mark.parametrize("listed", ["files", "files: list[str]"])
def test_the_files_that_it_needs_are_sent(listed: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "boards").mkdir()
    needed = {"agent.py", "beside.py", "parts/__init__.py", "parts/deck.py", "parts/cards.jsonl"}
    needed |= {"boards/rules.py", "drawing.py", "parts/suits.py", "compiled.so", "of_python_2.py"}
    for name in (*needed, "unused.py", "parts/unused.py", "suits.py", ".env"):
        (tmp_path / name).touch()
    (tmp_path / "agent.py").write_text(
        "import json, beside, compiled, of_python_2\nfrom boards import *\nfrom parts import deck\n"
        f"def draw(): from . import drawing\n{listed} = ['parts/cards.jsonl']"
    )
    too_high = "." * 99
    (tmp_path / "parts" / "deck.py").write_text(
        f"from . import suits\ntry: from {too_high} import unused\nexcept ImportError: pass"
    )
    (tmp_path / "compiled.so").write_bytes(b"\x7fELF\0")
    (tmp_path / "of_python_2.py").write_text("print 'a'")
    found = files_of(tmp_path / "agent.py")
    names = {str(one.relative_to(tmp_path)) for one in found}
    assert names == needed


def test_a_broken_parse_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent.py").write_text("import beside")
    (tmp_path / "beside.py").touch()
    parse = Mock(wraps=ast.parse, side_effect=[SystemError("depth mismatch"), DEFAULT, DEFAULT])
    monkeypatch.setattr(ast, "parse", parse)
    assert len(files_of(tmp_path / "agent.py")) == 2


def test_several_machines_need_an_address_that_they_reach() -> None:
    machines = ["10.0.0.5", "10.0.0.6"]
    check_reach(machines, "10.0.0.5")
    check_reach(machines[:1], "127.0.0.1")
    with pytest.raises(ConfigError, match=r"2 machines .* listens at 127\.0\.0\.1"):
        check_reach(machines, "127.0.0.1")


async def test_the_recorder_listens_where_workers_reach_it() -> None:
    async def act(model: Any, _: Scenario) -> float:
        address, key = model.inference_base_url, model.inference_api_key
        assert address.startswith("http://127.0.0.2:")
        async with openai.AsyncOpenAI(base_url=address, api_key=key) as client:
            messages: Any = [{"role": "user", "content": "Go."}]
            await client.chat.completions.create(model="x", messages=messages)
        return 1.0

    workers = {"recorder_host": "127.0.0.2"}
    environment = {"kind": "python", "file": "a.py", "workers": workers}
    config = TrainConfig.model_validate({"store": "s", "environment": environment})
    async with Recorder.of(config) as recorder, asked(ScriptedPolicy()) as policy:
        rollout = await recorder.run(policy, Agent(act), Scenario("a"))
    assert rollout.reward == 1.0, rollout.score
    with pytest.raises(ConfigError, match=r"can't listen at 203\.0\.113\.7"):
        async with Recorder("203.0.113.7"):
            pass


async def test_a_worker_asks_no_proxy_for_the_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "wiki.example")
    monkeypatch.delenv("no_proxy", raising=False)

    async def act(model: Any, _: Scenario) -> float:
        assert os.environ["no_proxy"] == "wiki.example,127.0.0.1,localhost,10.0.0.5"
        return 1.0

    model = {
        "name": "policy",
        "inference_base_url": "http://10.0.0.5:8000/rollouts/1/v1",
        "step": 3,
        "trainable": True,
    }
    player = Player(lambda: Agent(act))
    assert await player.play(model, Scenario("a")) == Score(1.0)
    await player.stop()


class RayInThisProcess(ModuleType):
    """Ray with its actors in this process, of which it keeps what they were asked. A connection
    that failed needs a shutdown before the next one."""

    exceptions = SimpleNamespace(
        RayTaskError=ZeroDivisionError, RayActorError=OSError, RayError=OSError
    )

    def __init__(self, starts: Sequence[Exception | None], failures: Sequence[str] = ()) -> None:
        super().__init__("ray")
        self.failures = list(failures)
        self.is_half_connected = False
        self.__spec__ = ModuleSpec("ray", None)
        self.starts = list(starts)
        self.asked: list[str] = []
        self.is_lost = False

    def is_initialized(self) -> bool:
        return False

    def init(self, **_: Any) -> None:
        assert not self.is_half_connected
        self.asked.append("init")
        if self.failures:
            self.is_half_connected = True
            raise ConnectionAbortedError(self.failures.pop(0))

    def shutdown(self) -> None:
        self.asked.append("shutdown")
        self.is_half_connected = False

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "NodeManagerAddress": "127.0.0.1"}]

    def remote(self, _: type) -> Any:
        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._make))

    def _make(self, _: Callable[[], Any]) -> Any:
        number = len(self.starts)
        started: Future[int] = Future()
        failure = self.starts.pop(0)
        if failure is None:
            started.set_result(number)
        else:
            started.set_exception(failure)

        def stop() -> "asyncio.Future[None]":
            self.asked.append("stop")
            if self.is_lost:
                raise ConnectionError("The connection is lost.")
            stopped = asyncio.get_running_loop().create_future()
            stopped.set_result(None)
            return stopped

        start = SimpleNamespace(remote=lambda: SimpleNamespace(future=lambda: started))
        return SimpleNamespace(start=start, stop=SimpleNamespace(remote=stop))


def test_a_slow_cluster_is_asked_again_and_a_failure_leaves_nothing(tmp_path: Path) -> None:
    slow = "Starting Ray client server failed. See ray_client_server_23000.err"
    ray = RayInThisProcess([], [slow, "The client is of another version."])
    with pytest.raises(ConfigError, match="ray://head can't be used: The client is of another"):
        connect(ray, WorkersSettings(address="ray://head"), str(tmp_path))
    connect(ray, WorkersSettings(address="ray://head"), str(tmp_path))
    assert ray.asked == ["init", "shutdown", "init", "shutdown", "init"]


def workers_on(
    monkeypatch: pytest.MonkeyPatch, *starts: Exception | None, **settings: Any
) -> tuple[RayInThisProcess, Workers]:
    """A worker for each of these starts, on such a Ray."""
    ray = RayInThisProcess(starts)
    monkeypatch.setitem(sys.modules, "ray", ray)
    load: Any = dict
    return ray, Workers(WorkersSettings(count=len(starts), **settings), load, {})


async def test_opened_workers_close_if_another_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    ray, workers = workers_on(monkeypatch, None, OSError("The port is taken."), None)
    with pytest.raises(ConfigError, match=r"can't open the environment: The port is taken\."):
        await workers.open()
    assert ray.asked == ["init", "stop", "stop", "shutdown"]


async def test_a_lost_cluster_is_left_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    ray, workers = workers_on(monkeypatch, None)
    await workers.open()
    ray.is_lost = True
    with pytest.raises(ConnectionError):
        await workers.close()
    assert ray.asked == ["init", "stop", "shutdown"]


async def test_a_dead_worker_gets_no_further_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its other slots were free: each would have lost an attempt until its process is replaced."""
    ray, workers = workers_on(monkeypatch, None, None, rollouts_each=3)
    asked_for: list[int] = []
    await workers.open()

    def play(number: int) -> Any:
        async def attempt(*_: object) -> Score:
            asked_for.append(number)
            if number == 0:
                raise ray.exceptions.RayActorError("It was killed.")
            return Score(1.0)

        return attempt

    for number, player in enumerate(workers._players):
        player.play = SimpleNamespace(remote=play(number))
        player.start = SimpleNamespace(remote=asyncio.Event().wait)

    async def get_step() -> int:
        return 0

    sent = ("trainable", "name", "inference_api_key", "inference_base_url", "inference_model_name")
    model: Any = SimpleNamespace(get_step=get_step, **dict.fromkeys(sent))
    causes = [(await workers.play(model, Scenario(str(number)))).cause for number in range(6)]
    assert causes == ["worker_died", *[None] * 5]
    await workers.close()
    assert asked_for == [0, *[1] * 5]


AGENT = """
def scenarios(split): return [{"id": split}]
def rollout(model, scenario): return 1.0
def open(): asked.append("open")
def close(): asked.append("close"); 1 / 0
asked = []
"""


async def test_a_file_is_closed_though_its_workers_fail(tmp_path: Path) -> None:
    async def fail() -> None:
        raise ConfigError("The cluster is lost.")

    (tmp_path / "agent.py").write_text(AGENT)
    environment: Any = load_python(str(tmp_path / "agent.py"))
    environment.workers = SimpleNamespace(open=fail, close=fail)
    with pytest.raises(ConfigError, match="cluster is lost"):
        await environment.open()
    with pytest.raises(RolloutError, match="close failed: ZeroDivisionError"):
        await environment.close()
    assert environment._module.asked == ["open", "close", "close"]
