"""What `prefect.yaml` deploys fits the flows that it names."""

import importlib
import re
import sys
from typing import Any

import pytest
import yaml
from prefect import Flow, flow_engine
from prefect.flows import load_flow_from_entrypoint
from prefect.server.events.schemas.automations import EventTrigger
from prefect.utilities.callables import parameter_schema

from flows.train import train
from tests.support.repository import ROOT, deployments_in

DEPLOYMENTS = deployments_in(ROOT / "prefect.yaml")
ZOMBIE = yaml.safe_load((ROOT / "deployments/automations/zombie.yaml").read_text())["trigger"]


def flow_of(entry: dict[str, Any]) -> Flow[..., Any]:
    """The flow that a deployment runs."""
    path, _, name = entry["entrypoint"].partition(":")
    module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    found = getattr(module, name)
    assert isinstance(found, Flow)
    return found


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_deployment_has_its_flows_parameters(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form sends its defaults, which would go before TRAIN_SIZE, VAL_SIZE and PRECIS_STORE."""
    monkeypatch.setenv("PRECIS_STORE", "s3://bucket/precis")  # a rented machine needs one
    given = DEPLOYMENTS[name].get("parameters") or {}
    flow = flow_of(DEPLOYMENTS[name])
    assert set(given) <= set(flow.validate_parameters(given))
    schema = flow.parameters.model_dump()
    sizes = {"train_size", "val_size"}  # other environments have their own, which are their own
    documents = schema["definitions"].get("DocumentsConfig")  # not every flow's
    for key in sizes if documents else ():
        assert documents["properties"][key].get("default") is None, f"{name}: {key}"
    for kind in (schema, *schema["definitions"].values()):
        for key, field in kind.get("properties", {}).items():
            default = field.get("default")
            assert not (key == "store" and default), f"{name}: {key}"
            of_documents = key == "documents" and isinstance(default, dict)
            assert not (of_documents and sizes & set(default)), f"{name}: {key}"


@pytest.mark.parametrize(
    "entrypoint", sorted({entry["entrypoint"] for entry in DEPLOYMENTS.values()})
)
def test_a_flow_has_what_we_change_of_prefect_where_a_worker_loads_it(
    entrypoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in filter(re.compile(r"flows\b").match, tuple(sys.modules)):
        monkeypatch.delitem(sys.modules, name)
    for changed in ("_send_heartbeats", "amaintain_concurrency_lease"):
        monkeypatch.setattr(flow_engine, changed, None)
    load_flow_from_entrypoint(entrypoint)
    assert vars(flow_engine)["amaintain_concurrency_lease"] is not None


def test_no_run_is_taken_for_dead_while_the_server_or_its_database_restarts() -> None:
    """What it sends meanwhile is lost."""
    silent_s = ZOMBIE["within"]
    for entry in DEPLOYMENTS.values():
        variables = entry["work_pool"]["job_variables"]["env"]
        assert silent_s >= 10 * int(variables["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"])


def test_a_run_that_is_lost_after_a_change_of_its_state_is_found() -> None:
    """Prefect's trigger ends its wait there, and begins another at what is named alone."""
    trigger = EventTrigger.model_validate(ZOMBIE)
    for name in ("heartbeat", "Running", "Paused", "Preempted", "Recovering"):
        assert trigger.starts_after(f"prefect.flow-run.{name}")
    for name in ("Suspended", "Completed", "left-suspended"):
        assert not trigger.starts_after(f"prefect.flow-run.{name}")


def test_a_form_shows_the_kind_of_the_deployment_s_trainer() -> None:
    """Of several kinds Prefect's form shows the first with the most of the given settings."""
    schema = parameter_schema(train.fn).model_dump_for_openapi()
    kinds = []
    for each in schema["properties"]["trainer"]["oneOf"]:
        kinds.append(schema["definitions"][each["$ref"].removeprefix("#/definitions/")])
    for name, entry in DEPLOYMENTS.items():
        given = (entry.get("parameters") or {}).get("trainer")
        if given:
            shown = max(kinds, key=lambda kind: len(given.keys() & kind["properties"]))
            assert shown["properties"]["kind"]["const"] == given["kind"], name
