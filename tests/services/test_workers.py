"""Rollouts on the workers of a Ray cluster with two nodes, which may die in mid game."""

import asyncio
import gc
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precis.environments.recorder import Recorder
from precis.errors import ConfigError
from precis.llm.server import ChatRequest
from precis.processes.child import free_port, is_running
from precis.processes.supervisor import descendants, running
from precis.records.rollout import Rollout, Unscored
from precis.records.trajectories import scan_trajectories
from precis.settings.environment import PythonSettings, WorkersSettings
from precis.training.opening import load_agent
from tests.services.conftest import ROOT
from tests.services.patience import Patience, patience_s, until, wait_until
from tests.support import echoing
from tests.support.in_process import Life
from tests.support.scripted_policy import ScriptedPolicy, asked

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]
ray = pytest.importorskip("ray", reason="Ray is not installed: make install-ray")
MEMORY = 80 * 1024 * 1024
CLIENT_PORT = free_port()
GAMES = 12
AGENT = """
import asyncio, os, ray
from beside import WORDS

def scenarios(split):
    return [{"id": f"{split}-{n}", "n": n} for n in range(12)]

async def rollout(model, scenario):
    said = f"I am process {os.getpid()} with {WORDS[scenario['n'] % 2]}, in game {scenario['n']}."
    for _ in range(2):
        await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=[{"role": "user", "content": said}]
        )
        await asyncio.sleep(HANGS if scenario["n"] == 11 else 0)
    node = int(ray.get_runtime_context().get_node_id()[:8], 16)
    return Score(1.0, True, {"process": os.getpid(), "node": node})

from precis.records.rollout import Score
HANGS = 0
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster with two nodes, of two logical CPUs each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    utils = importlib.import_module("ray.cluster_utils")
    given = {"num_cpus": 2, "object_store_memory": MEMORY, "include_dashboard": False}
    door = {"ray_client_server_port": CLIENT_PORT}
    started = utils.Cluster()
    try:
        for node in ({**given, **door}, {"num_cpus": 2, "object_store_memory": MEMORY}):
            _add(started, node)
        started.wait_for_nodes(patience_s())
        yield started.address
    finally:
        started.shutdown()


def _add(cluster: Any, node: dict[str, Any]) -> None:
    """Add a node; Ray gives it 30 s to start, which this machine may take longer than."""
    patience = Patience("The start of a node")
    while True:
        try:
            cluster.add_node(**node)
            return
        except Exception:
            patience.check()


def agent_of(folder: Path, workers: WorkersSettings, hangs_s: int = 0) -> Any:
    """The environment of a file that imports another one; its game 11 hangs for so long."""
    (folder / "beside.py").write_text('WORDS = ["bread", "salt"]')
    file = folder / "agent.py"
    file.write_text(AGENT.replace("HANGS = 0", f"HANGS = {hangs_s}"))
    return load_agent(PythonSettings(file=str(file), workers=workers))


@asynccontextmanager
async def played(
    environment: Any, policy: ScriptedPolicy, deadline_s: float = 60.0
) -> AsyncIterator[Any]:
    """A function that attempts scenarios of the environment, all at once."""
    async with Recorder() as recorder, asked(policy) as served, environment:
        hurried = replace(served, limits=replace(served.limits, deadline_s=deadline_s))

        async def play(scenarios: Sequence[Any]) -> list[Rollout]:
            games = [recorder.run(hurried, environment, one) for one in scenarios]
            return await asyncio.gather(*games)

        yield play


async def test_games_are_spread_over_the_nodes_and_recorded(cluster: str, tmp_path: Path) -> None:
    workers = WorkersSettings(count=4, rollouts_each=2, address=cluster)
    environment = agent_of(tmp_path, workers)
    async with played(environment, ScriptedPolicy()) as play:
        rollouts = await play(environment.scenarios("train"))
    assert [one.reward for one in rollouts] == [1.0] * GAMES
    metrics = [one.score.metrics for one in rollouts]
    assert len({one["node"] for one in metrics}) == 2
    assert len({one["process"] for one in metrics} - {os.getpid()}) == 4
    for rollout in rollouts:
        said = [call.messages[0]["content"] for call in rollout.calls]
        assert len(said) == 2
        assert ("salt" if rollout.scenario["n"] % 2 else "bread") in said[0]
        assert all(call.token_ids for call in rollout.calls)
    used = {int(one["process"]) for one in metrics}
    await until(lambda: not any(map(is_running, used)), "the end of the workers with the run")


async def test_a_worker_killed_in_mid_game_costs_that_game(cluster: str, tmp_path: Path) -> None:
    killed: list[int] = []

    def say(request: ChatRequest) -> str:
        said = str(request.messages[0]["content"])
        if "in game 5." in said and not killed:
            killed.append(int(said.split()[3]))
            os.kill(killed[0], signal.SIGKILL)
        return "[4]"

    workers = WorkersSettings(count=2, rollouts_each=1, address=cluster)
    environment = agent_of(tmp_path, workers)
    async with played(environment, ScriptedPolicy(say)) as play:
        rollouts = await play(environment.scenarios("train"))
        lost = [one for one in rollouts if isinstance(one.score, Unscored)]
        assert [one.scenario["n"] for one in lost] == [5]
        assert lost[0].score.cause == "worker_died"
        processes: set[float] = set()
        patience = Patience("Another worker takes its place")
        while len(processes) < 2:
            patience.check()
            again = await play(environment.scenarios("validation"))
            processes |= {one.score.metrics["process"] for one in again}
    assert killed[0] not in processes


FLOW = """
import asyncio, sys
from precis.settings.environment import PythonSettings, WorkersSettings
from precis.training.opening import load_agent

async def main():
    workers = WorkersSettings(count=1)
    async with load_agent(PythonSettings(file=sys.argv[1], workers=workers)):
        print("ready", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


def test_nothing_is_left_of_a_cluster_whose_flow_is_killed(tmp_path: Path) -> None:
    agent_of(tmp_path, WorkersSettings())
    command = [sys.executable, "-c", FLOW, str(tmp_path / "agent.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as flow:
        assert flow.stdout
        for line in flow.stdout:
            if line.strip() == "ready":
                break
        started = descendants(flow.pid)
        names = {one.name() for one in started}
        flow.kill()
    assert {"raylet", "gcs_server"} <= names, names
    wait_until(lambda: not running(started), "the end of the cluster")


async def test_a_late_game_is_cancelled_and_its_place_is_free(cluster: str, tmp_path: Path) -> None:
    workers = WorkersSettings(count=1, rollouts_each=1, address=cluster)
    environment = agent_of(tmp_path, workers, hangs_s=600)
    scenarios = environment.scenarios("train")
    async with played(environment, ScriptedPolicy(), deadline_s=20.0) as play:
        late, after = await play([scenarios[11], scenarios[0]])
    assert late.score.cause == "rollout_timeout"
    assert after.reward == 1.0


async def test_a_cluster_is_asked_from_outside_of_it(cluster: str, tmp_path: Path) -> None:
    workers = WorkersSettings(count=1, address=f"ray://127.0.0.1:{CLIENT_PORT}")
    environment = agent_of(tmp_path, workers)
    async with played(environment, ScriptedPolicy()) as play:
        (tmp_path / "agent.py").unlink()
        [rollout] = await play(environment.scenarios("train")[:1])
    assert rollout.reward == 1.0, rollout


async def test_what_can_t_be_used_gets_a_sentence(
    cluster: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = WorkersSettings(count=1, address="127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"The Ray cluster 127\.0\.0\.1:9 can't be used"):
        async with played(agent_of(tmp_path, nowhere), ScriptedPolicy()):
            pass
    environment = agent_of(tmp_path, WorkersSettings(count=2, cpus_each=0.5, address=cluster))
    (tmp_path / "beside.py").write_text("raise OSError('no board')")
    with pytest.raises(ConfigError, match=r"A worker can't open the environment: .*no board"):
        async with played(environment, ScriptedPolicy()):
            pass
    gc.collect()
    of_the_second = [one.message for one in caplog.records if one.name == "asyncio"]
    assert not of_the_second, "the error of one worker is logged beside that of the other"


async def test_a_run_trains_on_a_cluster_of_its_own(tmp_path: Path) -> None:
    workers = {"count": 2, "rollouts_each": 2, "cpus_each": 0.5}
    environment = {"kind": "python", "file": echoing.__file__, "workers": workers}
    settings = {"environment": environment, "documents": {}, "steps": 1}
    alone = {"environment": echoing.__file__, "documents": {}, "steps": 1}
    rewards = []
    for name, given in (("spread", settings), ("alone", alone)):
        life = Life(tmp_path / name, given)
        await life.live()
        rows = scan_trajectories(life.store, "m", "train").collect().sort("scenario_id", "index")
        rewards.append(rows["reward"].to_list())
    assert rewards[0] == rewards[1], "where it is played changes nothing"
    assert not ray.is_initialized()
