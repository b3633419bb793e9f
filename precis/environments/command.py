"""An environment that is any program, in any language: one process a rollout.

It calls the policy at `OPENAI_BASE_URL` with `OPENAI_API_KEY`, reads its scenario as JSON from
standard input or the file `PRECIS_SCENARIO`, and prints a score as its last line: a number, a
boolean, or `{"reward": 0.5, "success": false, "metrics": {"turns": 3}}`. A supervisor ends it and
its children.
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
    output_of,
    start,
    tail,
    without_secrets,
)
from precis.environments.protocol import SPLITS, AgentModel, check_scenarios
from precis.environments.ruler import AgentEnvironment
from precis.errors import ConfigError
from precis.record import read_json_lines
from precis.records.rollout import UNJUDGED, Scenario, Score, Split, Unscored
from precis.records.rows import read_json_file

_SCENARIOS_S = 60.0
_SHOWN = 200


class CommandEnvironment(AgentEnvironment):
    """The environment of a program, which prints a score; with a `rubric` a judge scores its
    attempts. A `~` at the beginning of an argument is the home of whoever runs it."""

    def __init__(
        self,
        command: Sequence[str],
        scenarios: Mapping[Split, Sequence[Scenario]],
        rubric: str = "",
    ) -> None:
        self._command = tuple(map(os.path.expanduser, command))
        digest = hashlib.sha256()  # of the command, and of the files named in it
        for one in self._command:
            name, content = one, b""
            if os.path.isfile(one):  # accepts a whole script, longer than a path
                name, content = os.path.basename(one), Path(one).read_bytes()
            digest.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
        known = {"kind": "command", "command": digest.hexdigest()}
        super().__init__(known, scenarios, rubric)

    async def rollout(self, model: AgentModel, scenario: Scenario) -> Score | Unscored | float:
        if self.workers:
            return await self.workers.play(model, scenario)
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
            process = await start(self._command, {**harmless(), **variables}, given=file)
            assert process.stdout and process.stderr
            try:
                output, errors = await asyncio.gather(tail(process.stdout), tail(process.stderr))
                status = await process.wait()
            finally:
                await end(process)
        if status:
            printed = errors.decode(errors="replace").replace(key, "…")
            return Unscored("agent_failed", f"It {describe_status(status, printed)}.")
        return _score_of(output.decode(errors="replace").replace(key, "…"), bool(self.rubric))


def load_command(
    command: Sequence[str], scenarios: str = "", rubric: str = ""
) -> CommandEnvironment:
    """Return the environment of a program, which lists its scenarios unless a JSONL file has them.
    Raises ConfigError if the program does not exist, or its scenarios can't be used."""
    command = list(map(os.path.expanduser, command))
    if shutil.which(command[0]) is None:
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

    if scenarios:
        where = scenarios
        form = "Write one JSON object a line, each with an `id`."
        read_json_file(scenarios, "scenarios", read, form)
        remedy = 'Give scenarios to both: mark those to hold out by "split": "validation".'
    else:
        where = " ".join([*command, "scenarios"])
        for split in SPLITS:
            asked = [*command, "scenarios", split]
            output, problem = output_of(asked, _SCENARIOS_S, harmless())
            if problem:
                raise ConfigError(
                    f"`{' '.join(asked)}` {problem}.",
                    "Have it print one JSON object with an `id` a line, or name a file in "
                    "`environment.scenarios`.",
                )
            try:
                lines = output.split("\n")
                found[split] = list(read_json_lines(lines, lambda _, given: Scenario.of(given)))
            except ValueError as error:
                raise ConfigError(f"{' '.join(asked)}, {error}") from error
        remedy = "Have it print one at least for each of `scenarios train` and `… validation`."
    check_scenarios(where, found, remedy)
    return CommandEnvironment(command, found, rubric)


def _score_of(output: str, judged: bool) -> "Score | Unscored | float":
    lines = output.strip().splitlines()
    last = lines[-1] if lines else ""
    try:
        said = json.loads(last) if last or not judged else None
    except (ValueError, RecursionError):
        said = last
    if said is None and judged:
        return Unscored(UNJUDGED, "No judge was asked yet.")
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


def relative_files(command: Sequence[str]) -> dict[str, Path]:
    """Return the files below the current folder that a command names, by relative path."""
    found = {}
    for one in command:
        path = Path(one)
        if os.path.isfile(path) and not path.is_absolute() and ".." not in path.parts:
            found[one] = path
    return found
