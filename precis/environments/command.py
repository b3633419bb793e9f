"""An environment that is any program, in any language: one process a rollout.

It calls the policy at `OPENAI_BASE_URL` with `OPENAI_API_KEY`, reads its scenario as JSON from the
file `PRECIS_SCENARIO`, and prints a score as its last line: a number, a boolean, or `{"reward":
0.5, "success": false, "metrics": {"turns": 3}}`. A supervisor ends it and its children.
"""

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from precis.environments.programs import (
    describe_status,
    end,
    harmless,
    start,
    tail,
    without_secrets,
)
from precis.environments.protocol import SPLITS, AgentModel, check_scenarios
from precis.environments.ruler import AgentEnvironment
from precis.errors import ConfigError
from precis.records.rollout import Scenario, Score, Split, Unscored
from precis.records.rows import read_json_file

_SHOWN = 200


class CommandEnvironment(AgentEnvironment):
    """The environment of a program, which prints a score. A `~` at the beginning of an argument is
    the user's home."""

    def __init__(
        self, command: Sequence[str], scenarios: Mapping[Split, Sequence[Scenario]]
    ) -> None:
        self._command = tuple(map(os.path.expanduser, command))
        digest = hashlib.sha256()  # of the command, and of the files named in it
        for one in self._command:
            name, content = one, b""
            if os.path.isfile(one):  # accepts a whole script, longer than a path
                name, content = os.path.basename(one), Path(one).read_bytes()
            digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
        known = {"kind": "command", "command": digest.hexdigest()}
        super().__init__(known, scenarios)

    async def rollout(self, model: AgentModel, scenario: Scenario) -> Score | Unscored | float:
        with TemporaryDirectory(prefix="precis-rollout-") as folder:
            file = Path(folder) / "scenario.json"
            file.write_text(json.dumps(dict(scenario)), "utf-8")
            key = model.inference_api_key or ""
            variables = {
                "OPENAI_BASE_URL": model.inference_base_url or "",
                "OPENAI_API_KEY": key,
                "OPENAI_MODEL": model.get_inference_name(),
                "PRECIS_SCENARIO": str(file),
            }
            process = await start(self._command, {**harmless(), **variables})
            assert process.stdout and process.stderr
            try:
                output, errors = await asyncio.gather(tail(process.stdout), tail(process.stderr))
                status = await process.wait()
            finally:
                await end(process)
        if status:
            printed = errors.decode(errors="replace").replace(key, "…")
            return Unscored("agent_failed", f"It {describe_status(status, printed)}.")
        return _score_of(output.decode(errors="replace").replace(key, "…"))


def load_command(command: Sequence[str], scenarios: str) -> CommandEnvironment:
    """Return the environment of a program, with the scenarios of a JSONL file. Raises ConfigError
    if the program does not exist, or its scenarios can't be used."""
    if shutil.which(os.path.expanduser(command[0])) is None:
        raise ConfigError(
            f"The environment's program {command[0]!r} is not there, or can't be run.",
            "Give `environment.command` a program on PATH or its path, such as [python, agent.py].",
        )
    found: dict[Split, list[Scenario]] = {split: [] for split in SPLITS}

    def read(_: int, given: dict[str, Any]) -> None:
        split = given.pop("split", "train")
        if split not in SPLITS:
            raise ValueError(f"the split {split!r} is neither 'train' nor 'validation'.")
        found[split].append(Scenario.of(given))

    form = "Write one JSON object a line, each with an `id`."
    read_json_file(scenarios, "scenarios", read, form)
    remedy = 'Give scenarios to both: mark those to hold out by "split": "validation".'
    check_scenarios(scenarios, found, remedy)
    return CommandEnvironment(command, found)


def _score_of(output: str) -> "Score | Unscored | float":
    lines = output.strip().splitlines()
    last = lines[-1] if lines else ""
    try:
        said = json.loads(last)
    except (ValueError, RecursionError):
        said = last
    if isinstance(said, int | float):
        return said
    if (
        isinstance(said, dict)
        and {"reward"} <= said.keys() <= {"reward", "success", "metrics"}
        and isinstance(said.get("metrics", {}), dict)
    ):
        return Score(**said)  # the recorder checks the values
    return Unscored(
        "no_score",
        f"Its last line is {without_secrets(last)[:_SHOWN]!r}: print a number, true, false, or an "
        "object with `reward`, and `success` and `metrics` if you like.",
    )
