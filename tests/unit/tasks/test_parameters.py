"""A flow's settings as its parameters, as Prefect sees and calls them."""

import asyncio
import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.context import FlowRunContext
from prefect.utilities.callables import get_call_parameters, parameter_schema
from prefect.utilities.schema_tools.validation import validate

import tasks.parameters
from flows.benchmark import benchmark
from flows.cluster import cluster_down, cluster_sweep
from flows.train import train
from precis.config import OF_A_RUN, BenchmarkConfig, TrainConfig
from precis.errors import ConfigError
from precis.record import Record
from precis.settings.overrides import take_apart
from tasks.parameters import named, takes_settings

HUGE = 10**30


@takes_settings(TrainConfig)
async def told(config: TrainConfig) -> TrainConfig:
    return config


async def called(**given: Any) -> TrainConfig:
    """Call the flow as Prefect does: with a value for every parameter."""
    parameters = get_call_parameters(told, (), given)
    return await told(**parameters)


def schema_of(flow: Any) -> dict[str, Any]:
    return parameter_schema(flow.fn).model_dump_for_openapi()


@pytest.mark.parametrize(("flow", "model"), [(train, TrainConfig), (benchmark, BenchmarkConfig)])
def test_every_setting_is_a_parameter_with_its_help(flow: Any, model: type[Record]) -> None:
    shown = schema_of(flow)
    properties = shown["properties"]
    assert set(properties) == {*model.model_fields, "config"}
    assert "required" not in shown
    in_order = sorted(properties, key=lambda name: properties[name]["position"])
    first = ["model", "environment", "steps", "documents", "store", "budget_usd"]
    known = [name for name in first if name in model.model_fields]
    assert in_order[: len(known)] == known, "what people change first comes first"
    assert in_order[-1] == "config"
    rest = in_order[in_order.index("seed") + 1 : -1]
    assert rest == [name for name in model.model_fields if name in rest], "as the model has it"
    for field in model.model_fields.values():
        assert json.dumps(field.description) in json.dumps(shown)
    assert set(schema_of(cluster_down)["properties"]) == {"config", "model", "store", "force"}
    assert schema_of(cluster_down)["required"] == ["model"]
    assert set(schema_of(cluster_sweep)["properties"]) == {"config", "spare_hours"}


@pytest.mark.parametrize(
    "given",
    [
        {"steps": HUGE},
        {"judge": {"prices": {"m": [HUGE, 1]}}},
        {"judge": {"limits": {"in_flight": HUGE}}},
        {"config": {"judge": {"limits": {"in_flight": HUGE}}}},
        {"config": {"judge": {"prices": {"m": [HUGE, 1]}}}},
    ],
)
def test_a_number_that_is_too_large_is_refused_in_one_sentence(given: dict[str, Any]) -> None:
    """By the server as well, where the setting is given alone."""
    assert bool(validate(given, schema_of(train))) == ("config" not in given)
    with pytest.raises(ConfigError, match=r"^Settings that can't work: [a-z_.0]+: Input should be"):
        asyncio.run(called(**given))


async def test_a_setting_alone_leaves_the_others_at_their_defaults() -> None:
    assert await called(steps=3) == TrainConfig(steps=3)
    assert await called(config={"steps": 3, "model": "n"}) == TrainConfig(steps=3, model="n")
    assert await called(steps=3, config={"steps": 4}) == TrainConfig(steps=4)
    config = TrainConfig(model="n", steps=2)
    assert await called(config=config) is config
    assert await told(config) is config
    assert await called(**dict(config)) == config


async def test_what_a_benchmark_s_form_shows_at_first_leaves_its_run_s_settings_alone() -> None:
    """Prefect's form submits all its fields, of which it knows the defaults in the schema."""
    shown = {}
    for name, field in schema_of(benchmark)["properties"].items():
        shown[name] = field.get("default")
    assert validate(shown, schema_of(benchmark)) == []
    settings = take_apart(BenchmarkConfig, shown)
    assert not settings.keys() & OF_A_RUN
    chosen = take_apart(BenchmarkConfig, {**shown, "seed": 2, "rollouts": {"words_max": 100}})
    assert (chosen["seed"], chosen["rollouts"]) == (2, {"words_max": 100})


async def test_settings_that_do_not_fit_get_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^Settings that can't work: steps: Input should be"):
        await called(config={"steps": 0})
    with pytest.raises(ConfigError, match="scored_min is 3"):
        await called(rollouts={"rollouts_per_group": 2})


async def test_a_waiting_run_keeps_its_own_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(_: object) -> Any:
        documents = {"train_size": 20, "val_size": 9}
        return SimpleNamespace(parameters={"steps": 9, "documents": documents, "seed": 7})

    made = {"steps": 5, "documents": {"train_size": 80}}  # in place of the deployment's, by Prefect
    run = SimpleNamespace(deployment_id=1, parameters=made)
    monkeypatch.setattr(FlowRunContext, "get", lambda: SimpleNamespace(flow_run=run))
    client = SimpleNamespace(read_deployment=read)
    monkeypatch.setattr(tasks.parameters, "get_client", lambda: nullcontext(client))
    config = await called(**made)
    assert (config.seed, config.steps) == (TrainConfig().seed, 5)
    assert (config.documents.train_size, config.documents.val_size) == (80, 9)


@pytest.mark.parametrize(
    ("config", "model"),
    [({"model": "n"}, "n"), (TrainConfig(model="n"), "n"), ("n", "m"), (None, "m")],
)
def test_a_run_has_a_name_though_its_settings_are_to_be_refused(
    config: object, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = SimpleNamespace(parameters={"model": "m", "config": config})
    monkeypatch.setattr(FlowRunContext, "get", lambda: context)
    assert named("train {model}")() == f"train {model}"
