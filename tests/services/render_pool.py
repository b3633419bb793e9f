"""What a worker hands to Kubernetes or ECS for deployments.

    python -m tests.services.render_pool TYPE NAME…

By Prefect's own workers, from what the server holds under the name and the type; printed as JSON by
name, once the provider's own client has taken it.
"""

import asyncio
import copy
import json
import sys
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import boto3
from botocore.validate import ParamValidator
from kubernetes_asyncio.client import ApiClient, Configuration
from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.workers.base import BaseJobConfiguration, BaseWorker
from prefect_aws.workers.ecs_worker import ECSWorker
from prefect_kubernetes.worker import KubernetesWorker
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.support.local_server import serving


async def render(kind: str, name: str) -> dict[str, Any]:
    """The configuration of a run of the deployment."""
    async with get_client() as client:
        deployment = await client.read_deployment_by_name(name)
        pool = deployment.work_pool_name
        assert pool
        if kind == "kubernetes":
            configuration = await _configure(client, KubernetesWorker, deployment)
            job = await _create_job(pool, configuration)
            await _check_job(job)
            return {"job": job, "pull": deployment.pull_steps}
        configuration = await _configure(client, ECSWorker, deployment)
        asked = _ask_for_task(ECSWorker(work_pool_name=pool), configuration)
        return {**asked, "pull": deployment.pull_steps}


async def _configure(
    client: PrefectClient, worker: type[BaseWorker[Any, Any, Any]], deployment: DeploymentResponse
) -> Any:
    pool = await client.read_work_pool(deployment.work_pool_name or "")
    configuration: BaseJobConfiguration = await worker.job_configuration.from_template_and_values(
        pool.base_job_template, deployment.job_variables, client=client
    )
    flow = await client.read_flow(deployment.flow_id)
    run = FlowRun(id=uuid4(), flow_id=flow.id, name="a-run", deployment_id=deployment.id)
    configuration.prepare_for_flow_run(run, deployment, flow, pool, "a-worker")
    return configuration


async def _create_job(pool: str, configuration: Any) -> dict[str, Any]:
    """Have the worker ask for the job, and return what it sends to Kubernetes' API."""
    sent: list[dict[str, Any]] = []

    async def take(request: Request) -> JSONResponse:
        sent.append(await request.json())
        return JSONResponse(sent[-1], 201)

    routes = [Route("/{path:path}", take, methods=["POST"])]
    async with serving(Starlette(routes=routes)) as url, ApiClient(Configuration(host=url)) as api:
        await KubernetesWorker(work_pool_name=pool)._create_job(configuration, api)
    [job] = sent
    return job


async def _check_job(job: dict[str, Any]) -> None:
    """Kubernetes' client drops what its API does not know: what is there must come back."""
    known = copy.deepcopy(job)
    for misplaced in ("completions", "parallelism"):  # Prefect's template has them in the pod
        del known["spec"]["template"]["spec"][misplaced]
    async with ApiClient() as api:
        read = api.deserialize(SimpleNamespace(data=json.dumps(known)), "V1Job")
        found = api.sanitize_for_serialization(read)
    assert found == known, (found, known)


def _ask_for_task(worker: ECSWorker, configuration: Any) -> dict[str, Any]:
    run = FlowRun(id=uuid4(), flow_id=uuid4(), name="a-run")
    definition = worker._prepare_task_definition(configuration, "eu-central-1", run)
    # Of the network it would ask AWS.
    configuration = configuration.model_copy(update={"vpc_id": None, "network_configuration": {}})
    worker._load_network_configuration = lambda vpc_id, configuration: {}  # type: ignore[method-assign]
    request = worker._prepare_task_run_request(configuration, definition, "arn:aws:ecs:x", True)
    service = boto3.client("ecs", region_name="eu-central-1").meta.service_model
    for operation, asked in (("RegisterTaskDefinition", definition), ("RunTask", request)):
        shape = service.operation_model(operation).input_shape
        report = ParamValidator().validate(asked, shape)
        assert not report.has_errors(), report.generate_report()
    return {"definition": definition, "request": request}


async def main(kind: str, *names: str) -> None:
    asked = {name: await render(kind, f"{name}-{kind}") for name in names}
    print(json.dumps(asked, default=str))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
