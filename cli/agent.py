"""The settings of a run that trains an agent: a rehearsal's, or those of a deployment."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cli.deployments import read_deployment
from precis.config import TrainConfig
from precis.environments.python import load_python
from precis.errors import ConfigError
from precis.settings.overrides import lay_over

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_MAX = 30


def agent_config(file: str, given: Mapping[str, Any], deployment: str = "") -> TrainConfig:
    """The settings of a run that trains an agent.

    Args:
        file: the environment's.
        given: settings that go before all others; without a `model` one is named after the file.
        deployment: whose settings the others are; empty takes the rehearsal of an agent, whose
            policy picks calls of tools.

    Raises:
        ConfigError: the file can't be used, or there is no such deployment; says why.
        ValidationError: the settings can't work.
    """
    path = Path(file).expanduser().absolute()
    of_environment = given.get("environment")
    settings: dict[str, Any] = {"kind": "python", "file": str(path)}
    if isinstance(of_environment, Mapping):
        settings = {**of_environment, **settings}
    load_python(file, settings.get("score", ""), settings.get("rubric", ""))
    model = name_of(path)
    base: dict[str, Any] = {
        "trainer": {"kind": "tool_calls"},
        # Two cores answer everything here: more at a time would only wait longer.
        "rollouts": {"in_flight": 8, "groups_per_step": 8, "rollouts_per_group": 8},
        "retention": {"keep_every": 1},
        "judge_patience_s": 0,
    }
    if deployment:
        kind, base = read_deployment(deployment)
        if kind is not TrainConfig:
            raise ConfigError(
                f"{deployment} does not train in the flow's own process, which has the file.",
                "Take one of flows/train.py, such as train/h100.",
            )
    else:
        model = f"rehearsal-{model}-seed{given.get('seed', 1)}"
    own = {"model": model, **given, "environment": settings}
    return TrainConfig.model_validate(lay_over(TrainConfig, base, own))


def name_of(path: Path) -> str:
    """Return what a file or folder is called, as far as a model's name may have it."""
    return _NO_NAME.sub("-", path.expanduser().resolve().stem)[:_NAME_MAX].strip("-") or "documents"
