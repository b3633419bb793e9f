"""The settings of a run that trains an agent: a rehearsal's, or those of a deployment."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from cli.deployments import read_deployment
from precis.config import TrainConfig
from precis.environments.python import load_python
from precis.errors import ConfigError
from precis.settings.overrides import lay_over
from precis.store import open_store

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_MAX = 30


def agent_config(file: str, given: Mapping[str, Any], deployment: str = "") -> TrainConfig:
    """Return the settings of a run that trains an agent, from its file or from YAML with another
    kind.

    `given` overrides all others; without a `model` in it the model is named after the file. The
    others are the deployment's, or else those of an agent's rehearsal. Raises ConfigError for
    settings that can't be used.
    """
    settings = _settings_of(file, given.get("environment"))
    kind = settings.get("kind")
    if kind == "python" and isinstance(settings.get("file"), str):
        load_python(settings["file"], settings.get("score", ""), settings.get("rubric", ""))
    command = settings.get("command")
    words = list(map(str, command)) if isinstance(command, list) else []
    # `python` would be the name of every script.
    scripts = [word for word in words[1:] if os.path.isfile(os.path.expanduser(word))]
    names = [settings.get(name) for name in ("file", "game", "dataset", "id")]
    model = name_of(Path(str(next(filter(None, [*names, *scripts, *words]), kind))))
    base: dict[str, Any] = {
        "trainer": {"kind": "tool_calls"},
        # Two cores answer everything here: more requests at a time would only wait longer.
        "rollouts": {"in_flight": 8, "groups_per_step": 8, "rollouts_per_group": 8},
        "retention": {"keep_every": 1},
        "judge_patience_s": 0,
    }
    if deployment:
        flow, base = read_deployment(deployment)
        if flow is not TrainConfig:
            raise ConfigError(
                f"{deployment} does not train in the flow's own process, which has the file.",
                "Take one of flows/train.py, such as train/h100.",
            )
    else:
        if kind == "textarena":
            settings.setdefault("show_moves", True)  # the policy picks one of them
        model = f"rehearsal-{model}-seed{given.get('seed', 1)}"
    own = {"model": model, **given, "environment": settings}
    config = TrainConfig.model_validate(lay_over(TrainConfig, base, own))
    # The same from each folder, so that a later deletion knows the run.
    return config.model_copy(update={"store": open_store(config.store).url})


def _settings_of(file: str, given: Any) -> dict[str, Any]:
    """Return the settings of an environment, merged into those given beside it."""
    if not isinstance(given, Mapping | None):
        raise ConfigError(
            f"-p environment={given} names another environment than {file}.",
            "Give that as the argument, or an object with further settings.",
        )
    beside = dict(given or {})
    if not file.lstrip().startswith("{"):
        return {**beside, "kind": "python", "file": _located(file)}
    try:
        settings = yaml.safe_load(file)
    except (yaml.YAMLError, ValueError) as error:  # the latter for a date that does not exist
        problem = getattr(error, "problem", error)  # without the excerpt, which has several lines
        raise ConfigError(
            f"The environment {file} is not YAML: {problem}.",
            "Write it as {kind: textarena, game: ConnectFour-v0}.",
        ) from error
    if isinstance(settings.get("file"), str):
        settings["file"] = _located(settings["file"])
    return {**beside, **settings}


def _located(file: str) -> str:
    """Return the same path of a file from each folder, so that a later start is not told of another
    file. A link stays one: its modules are beside it."""
    path = Path(os.path.expanduser(file))
    return str(path.parent.resolve() / path.name)


def name_of(path: Path) -> str:
    """Return the name of a file or folder, reduced to the characters that a model's name may
    have."""
    stem = Path(os.path.expanduser(path)).resolve().stem
    return _NO_NAME.sub("-", stem)[:_NAME_MAX].strip("-") or "documents"
