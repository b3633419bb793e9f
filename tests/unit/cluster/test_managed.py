"""What a managed job is given, what it must not be given, and what its machine costs."""

import json
import re
import shutil
import subprocess
import time
from dataclasses import replace
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from precis.cluster import api, jobs
from precis.cluster.keys import Keys
from precis.cluster.managed import (
    TASK,
    ServerAccess,
    agent_files,
    check_reach,
    managed_task,
    variables,
)
from precis.cluster.offers import budget_lasts, gpu_offered, prices
from precis.cluster.site import PRICES_VARIABLE, HourlyPrice, as_variable, rented_here
from precis.cluster.task import CHECKOUT, trainer_task
from precis.config import ManagedConfig
from precis.environments.python import load_python
from precis.errors import ClusterError, ConfigError
from precis.settings.cluster import ClusterConfig
from precis.settings.environment import PythonSettings
from tests.support.examples import EXAMPLES

URL = "https://prefect.example.org/api"
OF_SKYPILOT = pytest.mark.filterwarnings("ignore")
"""Its import warns of what it uses of others."""


def config(**given: Any) -> ManagedConfig:
    rented = {"where": "sky", "infra": ["runpod", "kubernetes"], "spot": "only"}
    settings = {"model": "m", "store": "s3://bucket/runs", "cluster": rented, **given}
    return ManagedConfig.model_validate(settings)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_on_its_machine_the_run_trains_beside_the_flow_and_is_the_same_run() -> None:
    launched = config(steps=7)
    there = launched.on_its_machine()
    assert there.cluster.where == "local"
    assert there.steps == 7
    assert there.identity("corpus", {}) == launched.identity("corpus", {})
    with pytest.raises(ValidationError, match=r"set cluster\.where to 'sky'"):
        config(cluster={"where": "local"})


def test_only_the_keys_that_the_run_needs_travel_and_as_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_the_run = {"OPENROUTER_API_KEY", "WANDB_API_KEY", "HF_TOKEN"}
    for name in ("GEMINI_API_KEY", "CONTENDER_API_KEY", *of_the_run):
        monkeypatch.setenv(name, f"{name}-canary")
    of_the_bucket = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    for name in of_the_bucket:
        monkeypatch.setenv(name, "bucket-canary")
    wanted = config(judge={"provider": "openrouter"})
    server = ServerAccess(URL, {"PREFECT_API_AUTH_STRING": "server-canary"})
    assert "canary" not in repr(server)
    envs, secrets = variables(wanted, server)
    assert "canary" not in str(envs)
    assert set(secrets) == {"PREFECT_API_AUTH_STRING", *of_the_bucket, *of_the_run}
    assert envs["PREFECT_API_URL"] == URL


@pytest.mark.parametrize(
    ("environment", "lock"),
    [
        ("summaries", "requirements.lock"),
        ({"kind": "textarena", "game": "Nim-v0"}, "requirements-environments.lock"),
        ({"kind": "reasoning_gym", "dataset": "countdown"}, "requirements-environments.lock"),
        ({"kind": "python", "file": "agent.py"}, "requirements.lock"),
        ({"kind": "python", "file": "agent.py", "workers": {}}, "requirements-ray.lock"),
    ],
)
def test_the_machine_installs_what_the_environment_needs(environment: Any, lock: str) -> None:
    trainer = {"kind": "art"}
    envs, _ = variables(config(environment=environment, trainer=trainer), ServerAccess(URL, {}))
    assert envs["PRECIS_LOCK"] == lock
    assert (TASK.parents[1] / lock).exists()


def test_an_opponent_s_key_and_address_are_a_run_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPPONENT_API_KEY", "canary")
    model = {"model": "m", "provider": "url", "base_url": "http://127.0.0.1:9/v1"}
    game = {"kind": "textarena", "game": "Nim-v0", "opponent": model}
    wanted = config(environment=game, trainer={"kind": "art"})
    for run, is_asked in ((wanted, True), (config(), False)):
        _, secrets = variables(run, ServerAccess(URL, {}))
        assert ("OPPONENT_API_KEY" in secrets) == is_asked
    with pytest.raises(ConfigError, match=r"environment\.opponent\.base_url is http://127"):
        check_reach(wanted, URL)


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"documents": {"source": "here.jsonl"}}, "documents.source is here.jsonl"),
        ({"from_checkpoint": {"model": "o", "store": "a/folder"}}, "from_checkpoint.store is"),
        ({"warm_start": {"source": "file", "file": "shown.jsonl"}}, "warm_start.file is"),
        ({"environment": {"kind": "command", "command": ["node"]}}, "environment.command is node"),
        (
            {"environment": {"kind": "python", "file": "a.py", "workers": {"folder": "agent"}}},
            "environment.workers.folder is agent",
        ),
        (
            {"environment": {"kind": "python", "file": "a.py", "workers": {"address": "auto"}}},
            "environment.workers.address is auto",
        ),
        ({"trainer": {"kind": "art", "base_model": "model"}}, "trainer.base_model is model"),
        (
            {"judge": {"provider": "url", "model": "j", "base_url": "http://localhost:1/v1"}},
            "judge.base_url is http://localhost:1/v1, which on the rented machine",
        ),
    ],
)
def test_what_is_on_this_machine_alone_is_refused(
    given: dict[str, Any], setting: str, tmp_path: Path
) -> None:
    (tmp_path / "here.jsonl").touch()
    (tmp_path / "model").mkdir()
    with pytest.raises(ConfigError, match=setting):
        check_reach(config(**given), URL)


def variables_in(task: Any) -> set[str]:
    """Return the variables that the scripts of a task use, of which there are some."""
    found = set(re.findall(r"\$(PRECIS_\w+)", f"{task.setup}{task.run}"))
    assert found
    return found


@OF_SKYPILOT
def test_an_agents_file_goes_with_the_job_and_makes_the_same_run_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in EXAMPLES.glob("art_e*.py"):
        shutil.copy(file, tmp_path)
    (tmp_path / "of_another_agent.py").touch()
    inbox = (tmp_path / "art_e_inbox.py").rename(tmp_path / "kept_elsewhere.py")
    (tmp_path / "art_e_inbox.py").symlink_to(inbox)
    launched = config(environment="art_e.py")
    check_reach(launched, URL)
    task = managed_task(launched, "run", ServerAccess(URL, {}), {})
    assert variables_in(task) < set(task.envs)
    sent = task.file_mounts
    assert {"~/precis_agent/art_e.py", "~/precis_agent/art_e_inbox.py"} <= set(sent)
    assert "~/precis_agent/of_another_agent.py" not in sent
    assert sent["~/precis_agent/art_e_inbox.py"] == str(inbox.resolve())

    machine = tmp_path / "machine"
    monkeypatch.setenv("HOME", str(machine))
    (machine / "precis_agent").mkdir(parents=True)
    for there, here in sent.items():
        shutil.copy(here, Path(there).expanduser())
    here = load_python("art_e.py")
    loaded = launched.on_its_machine().environment
    assert isinstance(loaded, PythonSettings)
    there_too = load_python(loaded.file)
    assert there_too.identity == here.identity and there_too.digest == here.digest
    identity = launched.on_its_machine().identity(here.digest, here.identity)
    assert identity == launched.identity(here.digest, here.identity)


def test_the_files_that_an_agent_lists_go_with_it(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    agent = tmp_path / "examples" / "mcp_agent.py"
    names = ("mcp_agent.py", "mcp_session.py", "mcp_server.py", "mcp_scenarios.jsonl")
    assert {f"~/precis_agent/{name}" for name in names} <= set(
        agent_files(config(environment=str(agent)))
    )
    agent.with_name("mcp_scenarios.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"mcp_agent\.py lists 'mcp_scenarios\.jsonl'"):
        agent_files(config(environment=str(agent)))
    with pytest.raises(ConfigError, match=r"environment\.file is missing\.py"):
        agent_files(config(environment="missing.py"))


@OF_SKYPILOT
@pytest.mark.parametrize(
    ("environment", "trainer", "backend"),
    [
        ("summaries", "extractive", "extractive"),
        ("agent.py", "tool_calls", "tool_calls"),
        ("summaries", "art", "local"),
    ],
)
def test_a_machine_is_rented_for_each_trainer_that_needs_one(
    environment: str, trainer: str, backend: str
) -> None:
    wanted = config(environment=environment, trainer={"kind": trainer})
    task = trainer_task(wanted, Keys("token", 20_000))
    assert task.envs["PRECIS_BACKEND"] == backend
    assert (CHECKOUT / task.envs["PRECIS_LOCK"]).is_file()
    assert "PRECIS_TOKEN" in task.secrets and "token" not in task.envs.values()
    assert not task.resources[0].ports
    assert variables_in(task) < set(task.envs)


def test_a_server_on_the_loopback_is_refused_unless_it_is_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = "http://127.0.0.1:4200/api"
    with pytest.raises(ConfigError, match=f"PREFECT_API_URL is {here}"):
        check_reach(config(), here)
    check_reach(config(prefect_api_url=here), here)
    check_reach(config(), URL)
    with pytest.raises(ConfigError, match="Set PREFECT_API_URL"):
        check_reach(config(), "")
    monkeypatch.setenv("LANGFUSE_HOST", "http://localhost:3000")
    check_reach(config(), URL)  # without a key it receives nothing
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "canary")
    with pytest.raises(ConfigError, match="LANGFUSE_HOST is http://localhost:3000, which on"):
        check_reach(config(), URL)


def test_a_job_knows_when_its_installation_began(tmp_path: Path) -> None:
    lines = [line for line in TASK.read_text().splitlines() if ".held-since" in line]
    script = "\n".join([*lines, "printenv PRECIS_HELD_SINCE"])
    told = subprocess.run(["bash", "-euc", script], cwd=tmp_path, capture_output=True, check=True)
    assert float(told.stdout) == pytest.approx(time.time(), abs=60)


def test_a_machine_knows_its_price_by_its_cloud(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rented_here() is None
    known = {"runpod": HourlyPrice(1.2, 2.9)}
    monkeypatch.setenv(PRICES_VARIABLE, as_variable(known))
    monkeypatch.setenv("SKYPILOT_CLUSTER_INFO", json.dumps({"cloud": "RunPod", "region": "CA"}))
    found = rented_here()
    assert found and found[0] == known["runpod"]
    monkeypatch.setenv("SKYPILOT_CLUSTER_INFO", json.dumps({"cloud": "AWS", "region": "CA"}))
    assert rented_here() is None


@pytest.mark.parametrize(
    ("spot", "sold", "price"),
    [
        ("only", [(2.9, 1.2)], HourlyPrice(1.2, 2.9)),
        ("first", [(2.9, 1.2)], HourlyPrice(2.9, 2.9)),
        ("never", [(2.9, 1.2)], HourlyPrice(2.9, 2.9)),
        # No budget would end at a price that is no number.
        ("only", [(nan, nan), (2.5, nan)], HourlyPrice(2.5, 2.5)),
        ("only", [(nan, 1.1), (nan, nan)], HourlyPrice(1.1, 1.1)),
        ("only", [(nan, nan)], HourlyPrice(0.0, 0.0)),
    ],
)
async def test_a_spot_price_counts_where_the_machine_is_one_for_sure_and_has_a_price(
    spot: Any, sold: list[tuple[float, float]], price: HourlyPrice, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_prices(monkeypatch, *sold)
    assert await prices(ClusterConfig(where="sky", spot=spot)) == {"runpod": price}


async def test_a_machine_without_a_price_is_no_free_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rented = ClusterConfig(where="sky", spot="only")
    put_prices(monkeypatch, (nan, nan))
    assert await gpu_offered(rented) == "runpod at no known price"
    assert "no budget counts it" in await budget_lasts(rented, 5.0)
    put_prices(monkeypatch, (2.9, 1.25))
    assert await gpu_offered(rented) == "runpod from $1.25 an hour"
    assert await budget_lasts(rented, 5.0) == "$5.00 pays for 4.0 hours, judging aside"


def put_prices(monkeypatch: pytest.MonkeyPatch, *sold: tuple[float, float]) -> None:
    """Have SkyPilot know machines at RunPod, by their prices on demand and as spot."""
    rows = []
    for usd, spot_usd in sold:
        row = SimpleNamespace(cloud="RunPod", accelerator_count=1, price=usd, spot_price=spot_usd)
        rows.append(row)
    client = SimpleNamespace(list_accelerators=lambda **_: {"H100": rows}, get=lambda found: found)
    monkeypatch.setattr(api, "sdk", lambda: client)


class Jobs:
    """SkyPilot's client for managed jobs, which knows these."""

    def __init__(self, *names: str) -> None:
        status = SimpleNamespace(value="RUNNING")
        self.records = [
            SimpleNamespace(job_id=number, job_name=name, status=status, recovery_count=None)
            for number, name in enumerate(names, start=1)
        ]

    def queue_v2(self, name_match: str, **_: Any) -> list[Any]:
        return [one for one in self.records if name_match in one.job_name]

    def get(self, found: list[Any]) -> tuple[list[Any], int, dict[str, int], int]:
        return found, len(found), {}, len(self.records)


def use(client: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "sdk", lambda: client)
    monkeypatch.setattr(jobs, "_sdk", lambda: client)


class ClusterNotUpError(Exception):
    """SkyPilot's."""


async def test_a_job_is_found_by_its_whole_name(monkeypatch: pytest.MonkeyPatch) -> None:
    use(Jobs("precis-a-1", "precis-a"), monkeypatch)
    job = jobs.ManagedJob(2, "precis-a", "RUNNING", 0)
    assert await jobs.find("precis-a") == job
    assert "is RUNNING, recovered once. " in str(replace(job, recoveries=1))
    assert "is RUNNING, recovered 2 times. " in str(replace(job, recoveries=2))
    assert await jobs.find("precis-b") is None
    cancelled = Jobs("precis-a")
    cancelled.records[0].status.value = "CANCELLING"
    use(cancelled, monkeypatch)
    with pytest.raises(ClusterError, match=r"job 1 \(precis-a\) is being cancelled"):
        await jobs.find("precis-a")


@pytest.mark.parametrize(
    ("error", "said"),
    [(ClusterNotUpError("The jobs controller is not up."), None), (RuntimeError("ssh"), "ssh")],
)
async def test_a_queue_that_can_not_be_read_is_no_empty_one_unless_there_is_no_controller(
    error: Exception, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Jobs):
        def get(self, found: list[Any]) -> Any:
            raise error

    use(Broken(), monkeypatch)
    if said is None:
        assert await jobs.find("precis-a") is None
        return
    with pytest.raises(ClusterError, match=said):
        await jobs.find("precis-a")


class LostAnswer(Jobs):
    """It takes a job or not, and loses the answer either way."""

    def __init__(self, *names: str, takes: bool) -> None:
        super().__init__(*names)
        self._takes = takes

    def launch(self, task: Any, name: str) -> str:
        if self._takes:
            self.records += Jobs(name).records
        return "request"

    def stream_and_get(self, request: str, output_stream: Any) -> Any:
        raise ConnectionError("The API server was restarted.")


async def test_a_job_that_was_taken_is_launched_though_the_answer_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its flow run would be cancelled otherwise, and the job find nothing to do."""
    use(LostAnswer(takes=True), monkeypatch)
    assert await jobs.launch("task", "precis-a", print, 10) == (1, False)
    use(LostAnswer("precis-another", takes=False), monkeypatch)
    with pytest.raises(ClusterError, match="The API server was restarted"):
        await jobs.launch("task", "precis-a", print, 10)
