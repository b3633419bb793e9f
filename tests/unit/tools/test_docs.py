"""Every command, setting and file that the documentation names is there.

What the commands do is tested in tests/services; here each is parsed by the program it is for.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from prefect.cli._app import _app as prefect_cli
from typer.core import TyperGroup

from precis.commands.main import app
from precis.config import BenchmarkConfig, DocumentsConfig, TrainConfig
from precis.environments.summaries.forecast import forecast_judging, forecast_second_judge
from precis.environments.summaries.judge import endpoint_for
from precis.records.documents import read_documents
from precis.runs.retention import kept
from precis.sweep.trials import SweepConfig, check_trials, plan_trials
from tests.support.reports import numbers_in
from tests.support.repository import PAGES, README, ROOT, deployments_in
from tools.reference import PAGE, with_reference

POOLS = (ROOT / "deployments" / "pools").glob("*.yaml")
DEPLOYMENTS = deployments_in(ROOT / "prefect.yaml", *POOLS)
KEY = "OPENROUTER_API_KEY"
PLAIN = {"export", "cp", ".", "systemctl", "docker"}
"""Commands of the system's; of these, only the files that they name are looked for."""


def fences(page: Path, *kinds: str) -> Iterator[str]:
    for kind, body in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
        if kind in kinds:
            yield body


def commands() -> list[str]:
    lines = []
    for page in PAGES:
        for body in fences(page, "sh", "bash", "shell", "console", ""):
            lines += body.replace("\\\n", " ").splitlines()
    words = {"make", "precis", "prefect", "python", *PLAIN}
    return sorted({line for line in lines if line.split(" ")[0] in words})


@pytest.mark.parametrize("command", commands())
def test_a_command_is_one_that_its_program_takes(command: str) -> None:
    program, *arguments = shlex.split(command, comments=True)
    match program:
        case "make":
            makefile = (ROOT / "Makefile").read_text()
            target, *variables = arguments
            assert f"\n{target}:" in makefile
            for variable in variables:
                assert f"$({variable.partition('=')[0]})" in makefile
        case "precis":
            _is_taken_by_precis(arguments)
        case "prefect":
            _is_taken_by_prefect(arguments)
        case "python":
            assert (ROOT / arguments[0]).exists()
        case _:
            for argument in arguments:
                assert not argument.startswith("deployments/") or (ROOT / argument).exists()


def _is_taken_by_precis(arguments: list[str]) -> None:
    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="precis")
    while isinstance(command, TyperGroup):
        name, command, arguments = command.resolve_command(context, arguments)
        if isinstance(command, TyperGroup) and not arguments:
            assert command.invoke_without_command, f"precis {name} alone does nothing"
            return
    command.make_context(command.name, arguments, parent=context)


def _is_taken_by_prefect(arguments: list[str]) -> None:
    run = "00000000-0000-4000-8000-000000000001"
    tokens = [token.replace("RUN_ID", run) for token in arguments if token != "--no-prompt"]
    prefect_cli.parse_args(tokens, print_error=False, exit_on_error=False)
    if tokens[:2] == ["deployment", "run"]:
        assert tokens[2] in DEPLOYMENTS
    given = dict(token.split("=", 1) for token in tokens if re.match(r"\w+=", token))
    settings = {name: _as_prefect_reads(value) for name, value in given.items() if name != "config"}
    settings |= json.loads(given.get("config", "{}"))
    deployment = "".join(tokens[2:3])
    if deployment.startswith("sweep/"):
        parameters = DEPLOYMENTS[deployment]["parameters"]
        config = SweepConfig.model_validate({**parameters, "store": "st", **settings})
        tried = DEPLOYMENTS[config.deployment]["parameters"]
        check_trials(plan_trials(config), tried, config.store)
        return
    model = BenchmarkConfig if deployment.startswith("benchmark/") else TrainConfig
    model.model_validate({"store": "s3://bucket/prefix", **settings})


def _as_prefect_reads(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def test_every_setting_in_a_yaml_example_is_one_that_a_run_or_a_benchmark_takes() -> None:
    checked = 0
    for page in PAGES:
        for body in fences(page, "yaml"):
            # Each setting stands for itself: several of one name are alternatives.
            for setting in re.split(r"\n(?=\S)", body.replace("…", "x").strip()):
                config = yaml.safe_load(setting)
                of_a_run = set(config) <= set(TrainConfig.model_fields)
                (TrainConfig if of_a_run else BenchmarkConfig).model_validate(config)
                checked += 1
    assert checked > 3


def test_what_the_first_run_on_an_h100_costs_is_what_its_forecast_says() -> None:
    page = (ROOT / "docs" / "first-h100-run.md").read_text()
    parameters = DEPLOYMENTS["train/h100"]["parameters"]
    config = TrainConfig.model_validate({**parameters, "store": "s3://bucket/prefix"})
    held_out = read_documents(DocumentsConfig(source="bundled"))[: config.documents.val_size]
    judge_model = endpoint_for(config.judge, {KEY: "-"}).model
    ahead = forecast_judging(config, 0, held_out, judge_model)
    calls, *_, minutes = numbers_in(ahead)
    assert f"| at most {calls:,} calls, about ${ahead.usd:.2f} |" in page
    assert config.second_judge is not None
    second = forecast_second_judge(config, 0, held_out, config.second_judge.model)
    assert second is not None
    assert f"| {numbers_in(second)[0]:,} calls, about ${second.usd:.2f} |" in page
    assert f"at least {minutes} minutes over the whole run" in page
    steps = kept(range(config.steps + 1), config.retention, {})
    assert f"| {len(steps)} checkpoints |" in page
    assert f"at most `budget_usd`, ${config.budget_usd:.0f} |" in page


def test_the_configuration_reference_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert with_reference(text) == text, "run: python -m tools.reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_target_and_deployment_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    for name in re.findall(r"`((?:train|benchmark|cluster[a-z-]*)/[a-z0-9-]+)`", text):
        assert name in DEPLOYMENTS, name
    folders = "flows|tasks|precis|bench|docs|deployments|tests"
    for name in re.findall(rf"`((?:{folders})/[\w./-]*)`", text):
        assert (ROOT / name).exists(), name
    links = re.findall(r"\]\(([^)#:]+)[)#]", text)
    for name in (*links, *re.findall(r'(?:src|srcset)="([^"]+)"', text)):
        assert (page.parent / name).exists(), name
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake (\w+)" if page == README else r"`make (\w+)", text):
        assert f"\n{target}:" in makefile, target
