"""`precis doctor`: what a run needs, checked and shown as a table."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import yaml
from prefect.settings import get_current_settings
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli import prefect_server
from cli.up import ROOT
from precis import checks
from precis.checks import Check, CheckResult, run_checks
from precis.cleartext import keys_in_clear
from precis.cluster.managed import check_reach
from precis.cluster.offers import budget_lasts, gpu_offered, infra_enabled
from precis.config import ManagedConfig, RunConfig, TrainConfig
from precis.environment import Environment
from precis.errors import ConfigError
from precis.judge.endpoint import SECOND_KEY
from precis.models.licences import check_licence

_CHECKED_FLOWS = {"train", "benchmark"}
"""The flows whose runs need what is checked here."""
_LAUNCHER = "flows/managed.py:"
_DEADLINE_S = 300.0
"""For each check: SkyPilot's first look at a cloud is slow."""


def examine_deployment(deployment: str, console: Console) -> bool:
    """Check what a deployment's runs need, print a table, and say whether all is well.

    Raises:
        ConfigError: prefect.yaml has no such deployment of training or a benchmark.
    """
    config = _config_of(deployment)
    logging.disable(logging.WARNING)  # what libraries say of their retries; the table says it all
    with console.status("Checking …"):
        rows = asyncio.run(run_checks(checks_of(config), _DEADLINE_S))
    _print(rows, console)
    for sentence in keys_in_clear(config):
        console.print(f"Warning: {sentence}", style="yellow", markup=False, soft_wrap=True)
    return all(row.ok for row in rows)


def checks_of(config: RunConfig) -> dict[str, Check]:
    """The checks that a configuration calls for."""
    planned: dict[str, Check] = {
        "Python": checks.check_python,
        "packages": checks.check_packages,
        "Prefect": prefect_server.check,
        "disk": lambda: checks.check_disk(Environment().home),
        "documents": lambda: checks.check_documents(config.documents),
        "store": lambda: checks.check_store(config.store),
        "judge": lambda: checks.check_judge(config.judge),
        "W&B": checks.check_wandb,
        "licence": lambda: check_licence(config.trainer),
    }
    second = config.second_judge if isinstance(config, TrainConfig) else None
    if second:
        planned["second judge"] = lambda: checks.check_judge(second, SECOND_KEY)
    if isinstance(config, ManagedConfig):
        planned["reach"] = lambda: _check_reach(config)
    if config.cluster.where == "local":
        return planned
    budget_usd = config.budget_usd if isinstance(config, TrainConfig) else None
    return planned | {
        "SkyPilot's keys": lambda: infra_enabled(config.cluster),
        "GPU": lambda: gpu_offered(config.cluster),
        "budget": lambda: budget_lasts(config.cluster, budget_usd),
    }


async def _check_reach(config: ManagedConfig) -> str:
    """Whether a rented machine reaches all that the settings name."""
    check_reach(config, config.prefect_api_url or get_current_settings().api.url or "")
    return "nothing is on this machine alone"


def _config_of(deployment: str) -> RunConfig:
    """The settings that a deployment gives to its runs, as far as all flows share them."""
    entries = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    named = {_name(entry): entry for entry in entries if _flow(entry) in _CHECKED_FLOWS}
    if deployment not in named:
        raise ConfigError(
            f"prefect.yaml has no deployment {deployment!r} of training or a benchmark; it has "
            f"{', '.join(named)}."
        )
    given = named[deployment]["parameters"]
    entrypoint = named[deployment]["entrypoint"]
    if entrypoint.startswith(_LAUNCHER):
        return ManagedConfig.model_validate(given)
    if _flow(named[deployment]) == "train":
        return TrainConfig.model_validate(given)
    return RunConfig.model_validate({k: v for k, v in given.items() if k in RunConfig.model_fields})


def _name(entry: Mapping[str, Any]) -> str:
    """A deployment as `prefect deployment run` takes it."""
    return f"{_flow(entry)}/{entry['name']}"


def _flow(entry: Mapping[str, Any]) -> str:
    return str(entry["entrypoint"].rpartition(":")[2])


def _print(rows: list[CheckResult], console: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for heading in ("", "Check", "Found", "What to do"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        mark = "[green]✓[/]" if row.ok else "[red]✗[/]"
        table.add_row(mark, row.name, Text(row.detail), Text(row.remedy))
    console.print(table)
