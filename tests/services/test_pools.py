"""The work pools of deployments/pools/, by Prefect's own templates and workers."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli import pool
from tests.services.conftest import ROOT, Precis
from tests.services.patience import patience_s
from tests.services.prefect_api import client_of

NAMES = ("train/rehearsal", "train/serverless", "benchmark/nightly")
SETTINGS = {
    "PRECIS_IMAGE": "images.example.org/precis:0.1.0",
    "PRECIS_STORE": "s3://precis/runs",
    "PRECIS_ECS_CLUSTER": "precis",
    "PRECIS_ECS_VPC": "vpc-1",
    "PRECIS_ECS_TASK_ROLE": "arn:aws:iam::123456789012:role/precis",
    "PRECIS_ECS_EXECUTION_ROLE": "arn:aws:iam::123456789012:role/precis-start",
    "PRECIS_ECS_PASSWORD_SECRET": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:x",
}

_WORKER = "PREFECT_INTEGRATIONS_KUBERNETES_WORKER_API_AUTH_STRING_SECRET"
SECRET_OF_KUBERNETES = {f"{_WORKER}_NAME": "precis-server", f"{_WORKER}_KEY": "password"}
"""Settings of the worker, as docs/pools.md has them."""


@pytest.fixture(scope="module", params=["kubernetes", "ecs"])
def rendered(request: pytest.FixtureRequest, precis: Precis) -> dict[str, Any]:
    """What the worker of a pool, made from Prefect's template, would hand over, by deployment."""
    # Each process that collects the tests would import them, which takes seconds.
    from prefect_aws.workers.ecs_worker import ECSWorker
    from prefect_kubernetes.worker import KubernetesWorker

    kind: str = request.param
    worker = {"kubernetes": KubernetesWorker, "ecs": ECSWorker}[kind]
    template = worker.get_default_base_job_template()
    made = {"name": f"precis-{kind}", "type": kind, "base_job_template": template}
    with client_of(precis.api) as api:
        api.post("/work_pools/", json=made).raise_for_status()
    file = f"deployments/pools/{kind}.yaml"
    precis.prefect("--no-prompt", "deploy", "--all", "--prefect-file", file, **SETTINGS)
    # A worker hands on every setting of Prefect that it has: the server's are none of its own.
    settings = {
        name: value
        for name, value in precis.environment.items()
        if not name.startswith("PREFECT_SERVER_")
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.services.render_pool", kind, *NAMES],
        cwd=ROOT,
        env={**settings, **SECRET_OF_KUBERNETES, "PREFECT_API_URL": precis.api},
        capture_output=True,
        text=True,
        timeout=patience_s(),
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.long  # two providers' workers render every deployment
@pytest.mark.parametrize("name", NAMES)
def test_the_provider_takes_what_the_worker_renders(rendered: dict[str, Any], name: str) -> None:
    asked = rendered[name]
    text = json.dumps(asked)
    assert "{{" not in text, "a placeholder was left"
    assert SETTINGS["PRECIS_IMAGE"] in text and SETTINGS["PRECIS_STORE"] in text
    assert "prefect flow-run execute" in text or '"prefect", "flow-run", "execute"' in text
    [step] = asked["pull"]
    assert step == {"prefect.deployments.steps.set_working_directory": {"directory": "/precis"}}


@pytest.mark.long
def test_the_servers_password_is_a_secret_alone(precis: Precis, rendered: dict[str, Any]) -> None:
    asked = rendered["train/rehearsal"]
    assert precis.environment["PREFECT_API_AUTH_STRING"] not in json.dumps(asked)
    if "definition" in asked:
        [container] = asked["definition"]["containerDefinitions"]
        where = SETTINGS["PRECIS_ECS_PASSWORD_SECRET"]
        [secret] = container["secrets"]
        assert secret == {"name": "PREFECT_API_AUTH_STRING", "valueFrom": where}
    else:
        [container] = asked["job"]["spec"]["template"]["spec"]["containers"]
        [password] = [one for one in container["env"] if one["name"] == "PREFECT_API_AUTH_STRING"]
        reference = {"name": "precis-server", "key": "password"}
        assert password["valueFrom"] == {"secretKeyRef": reference}


@pytest.mark.parametrize("kind", ["kubernetes", "ecs"])
def test_they_are_the_deployments_of_this_machine_under_other_names(kind: str) -> None:
    here = {one["name"]: one for one in of_file(ROOT / "prefect.yaml")}
    for one in of_file(ROOT / "deployments" / "pools" / f"{kind}.yaml"):
        ordinary = here[one["name"].removesuffix(f"-{kind}")]
        for field in ("entrypoint", "parameters", "concurrency_limit", "schedules"):
            assert one.get(field) == ordinary.get(field), field


@pytest.mark.parametrize("kind", ["kubernetes", "ecs"])
async def test_no_deployment_without_a_store(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECIS_IMAGE", SETTINGS["PRECIS_IMAGE"])
    monkeypatch.delenv("PRECIS_STORE", raising=False)
    file = yaml.safe_load((ROOT / "deployments" / "pools" / f"{kind}.yaml").read_text())
    for one in file["deployments"]:
        demanded = one.get("build", file["build"])[0]["cli.pool.demand"]
        with pytest.raises(SystemExit, match="Export PRECIS_STORE first"):
            await pool.demand(**demanded)
        monkeypatch.setenv("PRECIS_STORE", SETTINGS["PRECIS_STORE"])
        assert await pool.demand(**demanded) == {}
        monkeypatch.delenv("PRECIS_STORE")


def of_file(path: Path) -> list[dict[str, Any]]:
    """The deployments of a file; of those of one name the first, which trains."""
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text())["deployments"]
    first: dict[str, dict[str, Any]] = {}
    for one in found:
        first.setdefault(one["name"], one)
    return list(first.values())
