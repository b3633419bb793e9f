"""What a managed job is given, what it must not be given, and what its machine costs."""

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
from precis.cluster.offers import budget_lasts, check_placement, gpu_offered, prices
from precis.cluster.site import HourlyPrice
from precis.cluster.task import CHECKOUT, trainer_task
from precis.config import ManagedConfig
from precis.environments.python import load_python
from precis.errors import ClusterError, ConfigError, NoCapacity
from precis.settings.cluster import ClusterConfig
from precis.settings.environment import PythonSettings
from tests.support.examples import EXAMPLES

URL = "https://prefect.example.org/api"
OPPONENT = {"model": "m", "provider": "url", "base_url": "http://127.0.0.1:9/v1"}
AGAINST_A_MODEL = {"kind": "textarena", "game": "Nim-v0", "opponent": OPPONENT}
OF_SKYPILOT = pytest.mark.filterwarnings("ignore")
"""Its import warns of what it uses of others."""


def config(**given: Any) -> ManagedConfig:
    rented = {"where": "sky", "infra": ["runpod", "kubernetes"], "spot": "only"}
    settings = {"model": "m", "store": "s3://bucket/runs", "cluster": rented, **given}
    return ManagedConfig.model_validate(settings)


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_only_needed_keys_travel_and_as_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_run = {"OPENROUTER_API_KEY", "WANDB_API_KEY", "HF_TOKEN"}
    for name in ("GEMINI_API_KEY", "CONTENDER_API_KEY", *of_the_run):
        monkeypatch.setenv(name, f"{name}-canary")
    of_the_bucket = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    for name in (*of_the_bucket, "OPPONENT_API_KEY"):
        monkeypatch.setenv(name, "another-canary")
    wanted = config(judge={"provider": "openrouter"})
    server = ServerAccess(URL, {"PREFECT_API_AUTH_STRING": "server-canary"})
    assert "canary" not in repr(server)
    envs, secrets = variables(wanted, server)
    assert "canary" not in str(envs)
    assert set(secrets) == {"PREFECT_API_AUTH_STRING", *of_the_bucket, *of_the_run}
    assert envs["PREFECT_API_URL"] == URL
    _, secrets = variables(config(environment=AGAINST_A_MODEL, trainer={"kind": "art"}), server)
    assert "OPPONENT_API_KEY" in secrets


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


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({"documents": {"source": "here.jsonl"}}, "documents.source is here.jsonl"),
        ({"from_checkpoint": {"model": "o", "store": "a/folder"}}, "from_checkpoint.store is"),
        ({"warm_start": {"source": "file", "file": "shown.jsonl"}}, "warm_start.file is"),
        (
            {"environment": {"kind": "command", "command": ["node"], "scenarios": "a.jsonl"}},
            "environment.command is node",
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
        (
            {"environment": AGAINST_A_MODEL, "trainer": {"kind": "art"}},
            "environment.opponent.base_url is http://127",
        ),
    ],
)
def test_what_is_here_alone_is_refused(given: dict[str, Any], setting: str, tmp_path: Path) -> None:
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
def test_an_agents_file_goes_with_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in EXAMPLES.glob("art_e*.py"):
        shutil.copy(file, tmp_path)
    (tmp_path / "of_another_agent.py").touch()
    inbox = (tmp_path / "art_e_inbox.py").rename(tmp_path / "kept_elsewhere.py")
    (tmp_path / "art_e_inbox.py").symlink_to(inbox)
    launched = config(environment="art_e.py", steps=7)
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
    there = launched.on_its_machine()
    assert (there.cluster.where, there.steps) == ("local", 7)
    assert isinstance(there.environment, PythonSettings)
    there_too = load_python(there.environment.file)
    assert there_too.identity == here.identity and there_too.digest == here.digest
    for run, digest, identity in ((launched, here.digest, here.identity), (config(), "corpus", {})):
        assert run.on_its_machine().identity(digest, identity) == run.identity(digest, identity)


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
def test_each_trainer_in_need_gets_a_machine(environment: str, trainer: str, backend: str) -> None:
    wanted = config(environment=environment, trainer={"kind": trainer})
    task = trainer_task(wanted, Keys("token", 20_000))
    assert task.envs["PRECIS_BACKEND"] == backend
    assert (CHECKOUT / task.envs["PRECIS_LOCK"]).is_file()
    assert "PRECIS_TOKEN" in task.secrets and "token" not in task.envs.values()
    assert not task.resources[0].ports
    assert variables_in(task) < set(task.envs)


def test_a_job_without_a_machine_to_rent_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"set cluster\.where to 'sky'"):
        config(cluster={"where": "local"})


def test_a_server_on_the_loopback_needs_to_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("spot", "sold", "price", "offered", "lasts"),
    [
        ("only", [(2.9, 1.25)], (1.25, 2.9), "from $1.25 an hour", "4.0 hours"),
        ("first", [(2.9, 1.25)], (2.9, 2.9), "from $2.90 an hour", "1.7 hours"),
        ("never", [(2.9, 1.25)], (2.9, 2.9), "from $2.90 an hour", "1.7 hours"),
        # No budget would end at a price that is no number.
        ("only", [(nan, nan), (2.5, nan)], (2.5, 2.5), "from $2.50 an hour", "2.0 hours"),
        ("only", [(nan, 1.1), (nan, nan)], (1.1, 1.1), "from $1.10 an hour", "4.5 hours"),
        ("only", [(nan, nan)], (0.0, 0.0), "at no known price", None),
    ],
)
async def test_a_spot_price_counts_where_the_machine_is_one_for_sure_and_has_a_price(
    spot: Any,
    sold: list[tuple[float, float]],
    price: tuple[float, float],
    offered: str,
    lasts: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine without a price is no free one."""
    rows = []
    for usd, spot_usd in sold:
        row = SimpleNamespace(cloud="RunPod", accelerator_count=1, price=usd, spot_price=spot_usd)
        rows.append(row)
    client = SimpleNamespace(list_accelerators=lambda **_: {"H100": rows}, get=lambda found: found)
    monkeypatch.setattr(api, "sdk", lambda: client)
    rented = ClusterConfig(where="sky", spot=spot)
    assert await prices(rented) == {"runpod": HourlyPrice(*price)}
    assert await gpu_offered(rented) == f"runpod {offered}"
    told = f"$5.00 pays for {lasts}, judging aside" if lasts else "no budget counts it"
    assert told in await budget_lasts(rented, 5.0)


@pytest.mark.filterwarnings("ignore")  # SkyPilot's own, of names that SQLAlchemy has moved
async def test_skypilot_is_asked_for_each_candidate_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def get(dag: Any) -> None:
        asked.extend((str(one.infra.to_str()), one.use_spot) for one in dag.tasks[0].resources)
        raise ResourcesUnavailableError("Spot instances are not supported in Slurm.")

    monkeypatch.setattr(api, "sdk", lambda: SimpleNamespace(optimize=lambda dag: dag, get=get))
    rented = ClusterConfig(where="sky", infra=("slurm/lab", "kubernetes"), spot="only")
    with pytest.raises(NoCapacity, match="not supported in Slurm"):
        await check_placement(rented)
    assert asked == [("slurm/lab", True), ("kubernetes", True)]


class ResourcesUnavailableError(Exception):
    """SkyPilot's."""


class ClusterNotUpError(Exception):
    """SkyPilot's."""


class Jobs:
    """SkyPilot's client for managed jobs, which knows these."""

    def __init__(self, *names: str) -> None:
        status = SimpleNamespace(value="RUNNING")
        self.records = [
            SimpleNamespace(job_id=number, job_name=name, status=status, recovery_count=None)
            for number, name in enumerate(names, start=1)
        ]
        self.fails: Exception | None = None
        self.takes = True

    def queue_v2(self, name_match: str, **_: Any) -> list[Any]:
        return [one for one in self.records if name_match in one.job_name]

    def get(self, found: list[Any]) -> tuple[list[Any], int, dict[str, int], int]:
        if self.fails:
            raise self.fails
        return found, len(found), {}, len(self.records)

    def launch(self, task: Any, name: str) -> str:
        if self.takes:
            self.records += Jobs(name).records
        return "request"

    def stream_and_get(self, request: str, output_stream: Any) -> Any:
        raise ConnectionError("The API server was restarted.")


def use(monkeypatch: pytest.MonkeyPatch, *names: str) -> Jobs:
    client = Jobs(*names)
    monkeypatch.setattr(api, "sdk", lambda: client)
    monkeypatch.setattr(jobs, "_sdk", lambda: client)
    return client


async def test_a_job_is_found_by_its_whole_name(monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, "precis-a-1", "precis-a")
    job = jobs.ManagedJob(2, "precis-a", "RUNNING", 0)
    assert await jobs.find("precis-a") == job
    assert "its flow run in Prefect, Pending until its machine is installed; end it" in str(job)
    assert "is RUNNING, recovered once. " in str(replace(job, recoveries=1))
    assert "is RUNNING, recovered 2 times. " in str(replace(job, recoveries=2))
    assert await jobs.find("precis-b") is None
    client.records[1].status.value = "CANCELLING"
    with pytest.raises(ClusterError, match=r"job 2 \(precis-a\) is being cancelled"):
        await jobs.find("precis-a")


async def test_a_queue_that_can_t_be_read_is_no_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    client = use(monkeypatch, "precis-a")
    client.fails = ClusterNotUpError("The jobs controller is not up.")
    assert await jobs.find("precis-a") is None
    client.fails = RuntimeError("ssh")
    with pytest.raises(ClusterError, match="ssh"):
        await jobs.find("precis-a")


async def test_a_job_is_launched_though_its_answer_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its flow run would be cancelled otherwise, and the job find nothing to do."""
    use(monkeypatch)
    assert await jobs.launch("task", "precis-a", print, 10) == (1, False)
    use(monkeypatch, "precis-another").takes = False
    with pytest.raises(ClusterError, match="The API server was restarted"):
        await jobs.launch("task", "precis-a", print, 10)
