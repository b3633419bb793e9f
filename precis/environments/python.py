"""An environment that is one Python file: `scenarios(split)` and `rollout(model, scenario)`.

It is the user's code and runs in threads of the flow's process. It may define an environment's
optional parts (`nouns`, `model_config`, `checks`, `rank`, `baselines`, `show`, `open`, `close`)
under their names. With `score = "ruler"` and a `rubric` a judge scores its attempts, and
`rollout` returns nothing. `files` lists files of its folder to send along with it.
"""

import ast
import asyncio
import hashlib
import importlib.util
import inspect
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, suppress
from copy import deepcopy
from dataclasses import replace
from importlib.machinery import all_suffixes
from pathlib import Path
from types import ModuleType
from typing import Any

from precis.environments.protocol import (
    SPLITS,
    AgentModel,
    Nouns,
    Outcome,
    check_scenarios,
)
from precis.environments.recorder import describe_error, score_of
from precis.environments.ruler import AgentEnvironment
from precis.environments.threads import UserThreads
from precis.errors import ConfigError, PrecisError, RolloutError
from precis.llm.server import Complete
from precis.records.rollout import UNJUDGED, Rollout, Scenario, Split, Unscored

_log = logging.getLogger(__name__)

_FUNCTIONS = ("rank", "baselines", "checks", "show", "open", "close")
"""The optional functions of a file."""
_OPTIONAL_S = 30 * 60.0
"""The time for one of them: a rented machine may wait for it. `open` may download much."""
_SHOWN = 200
_OF_CHECKOUT = ("bench", "cli", "flows", "tasks", "tests", "tools")
"""The packages beside `precis`, which Python finds before modules of the file's folder."""


class PythonEnvironment(AgentEnvironment):
    """The environment of a module; its digest is of the file and of its imports from its folder.
    With a `rubric` a judge scores its attempts, which the opener connects."""

    def __init__(self, module: ModuleType, where: str, digest: str, rubric: str = "") -> None:
        self._module = module
        self._where = where
        self._threads = UserThreads(where)
        scenarios: dict[Split, Sequence[Scenario]] = {}
        for split in SPLITS:
            try:
                scenarios[split] = tuple(map(Scenario.of, module.scenarios(split)))
            except Exception as error:
                raise ConfigError(
                    f"{where}: scenarios({split!r}) failed: {describe_error(error).rstrip('.')}.",
                    "Have it return a list of dictionaries, each with an `id` and what else is "
                    "JSON.",
                ) from error
        remedy = "Have scenarios(split) return one at least for each of 'train' and 'validation'."
        check_scenarios(where, scenarios, remedy)
        super().__init__({"kind": "python", "file": digest}, scenarios, rubric)
        self.nouns = getattr(module, "nouns", self.nouns)
        self.model_config = getattr(module, "model_config", None)

    async def rollout(self, model: AgentModel, scenario: Scenario) -> Outcome:
        if self.workers:
            return await self.workers.play(model, scenario)
        own = deepcopy(scenario)  # a board that a rollout changes must not be the next one's
        returned: Outcome = await self._threads.run(self._module.rollout, model, own)
        if returned is None and self.rubric:
            return Unscored(UNJUDGED, "No judge was asked yet.")
        return returned

    async def rank(self, group: Sequence[Rollout]) -> Sequence[Rollout]:
        if not hasattr(self._module, "rank"):
            return await super().rank(group)
        ranked = await self._run("rank", group)
        try:
            # A reward may have become NaN: a group's deviation is zero if all rewards are equal.
            return [replace(one, score=score_of(one.score)) for one in ranked]
        except (AttributeError, TypeError) as error:
            raise self._returned("rank", ranked, "the rollouts of the group, scored") from error

    def baselines(self) -> Mapping[str, Complete]:
        if not hasattr(self._module, "baselines"):
            return super().baselines()
        with self._named("baselines"):
            found = self._module.baselines()
        if not isinstance(found, Mapping):
            raise self._returned("baselines", found, "a dictionary of functions, by their names")
        return found

    async def checks(self) -> Sequence[str]:
        problems = await self._run("checks")
        if not isinstance(problems, list | tuple | None):
            raise self._returned("checks", problems, "a list of sentences, perhaps an empty one")
        return list(map(str, problems or ()))

    def show(self, rollout: Rollout) -> str:
        show = getattr(self._module, "show", super().show)
        return str(show(rollout))

    async def open(self) -> None:
        await self._run("open")
        try:
            await super().open()
        except BaseException:  # workers that can't be opened, say
            try:
                await self._run("close")
            except PrecisError as error:
                _log.warning("%s", error)
            raise

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self._run("close")

    async def _run(self, name: str, *given: Any) -> Any:
        """Return the result of an optional function of the file, or None without one; a
        RolloutError says that it raised, or did not end."""
        if not hasattr(self._module, name):
            return None
        deadline = asyncio.timeout(_OPTIONAL_S)
        with self._named(name):
            try:
                async with deadline:
                    return await self._threads.run(getattr(self._module, name), *given)
            except TimeoutError as error:
                if not deadline.expired():
                    raise
                raise RolloutError(
                    f"{self._where}: {name} did not end within {_OPTIONAL_S / 60:g} minutes.",
                    "Give whatever it waits for a timeout.",
                ) from error

    def _returned(self, function: str, found: object, wanted: str) -> RolloutError:
        said = f"{self._where}: {function} returned {repr(found)[:_SHOWN]}."
        return RolloutError(said, f"Have it return {wanted}.")

    @contextmanager
    def _named(self, function: str) -> Iterator[None]:
        """Name a function of the file in a RolloutError for what it raises."""
        try:
            yield
        except PrecisError:
            raise
        except (Exception, SystemExit) as error:
            said = f"{self._where}: {function} failed: {describe_error(error)}."
            raise RolloutError(said) from error


def load_python(file: str, score: str = "", rubric: str = "") -> PythonEnvironment:
    """Return the environment of a file; `score` and `rubric` default to the file's own. Raises
    ConfigError if it can't be imported, or lacks a required function."""
    path = Path(os.path.expanduser(file)).resolve()
    module = _import(path, file)
    for name, *arguments in (("scenarios", "split"), ("rollout", "model", "scenario")):
        try:
            inspect.signature(getattr(module, name)).bind(*arguments)
        except (AttributeError, TypeError) as error:
            raise ConfigError(
                f"The environment {file} has no function `{name}({', '.join(arguments)})`.",
                "Define `scenarios(split)` and `rollout(model, scenario)`.",
            ) from error
    for name in _FUNCTIONS:
        if not callable(getattr(module, name, len)):
            raise ConfigError(f"The environment {file} has a {name} that is not a function.")
    nouns = getattr(module, "nouns", Nouns())
    if not isinstance(nouns, Nouns):
        raise ConfigError(
            f"The environment {file} has the nouns {nouns!r}.",
            'Write them as `Nouns("game", "games", "board", "boards")`.',
        )
    rubric = _rubric_of(module, file, score, rubric)
    digest = hashlib.sha256()
    for needed in files_of(path):
        found = "__main__" if needed == path else needed.relative_to(path.parent)
        content = hashlib.sha256(needed.read_bytes()).hexdigest()
        digest.update(f"{found} {content}\n".encode())
    return PythonEnvironment(module, file, digest.hexdigest(), rubric)


def _rubric_of(module: ModuleType, file: str, score: str, rubric: str) -> str:
    """Return the rubric for a judge; empty if none scores."""
    score = score or getattr(module, "score", "own")
    if score not in ("own", "ruler"):
        raise ConfigError(f"{file}: score is {score!r}.", "Set it to 'ruler', or leave it out.")
    if score == "own":
        return ""
    if hasattr(module, "rank"):
        raise ConfigError(
            f"{file} has a function `rank`, and score 'ruler', which ranks too.",
            "Leave one of them out.",
        )
    rubric = rubric or getattr(module, "rubric", "")
    if not isinstance(rubric, str) or not rubric.strip():
        raise ConfigError(
            f"{file}: score is 'ruler', and nothing says what is good.",
            "Set `rubric` to a sentence, such as 'The question is answered, in few calls.'",
        )
    return " ".join(rubric.split())


def files_of(path: Path) -> list[Path]:
    """Return a file, the modules that it imports from its folder, and its `files`. Raises
    ConfigError if a listed file does not exist, or a package of the checkout hides a module."""
    folder = path.parent
    trees: dict[Path, ast.Module] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file in trees or not file.is_file() or not file.is_relative_to(folder):
            continue
        try:
            trees[file] = _parse(file)
        except (SyntaxError, ValueError):
            if file == path:
                raise
            trees[file] = ast.Module([], [])  # it is compiled, or another Python's
        for node in ast.walk(trees[file]):
            place = folder
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                place = Path(*file.parts[: -node.level]) if node.level else folder
                names = [f"{node.module or ''}.{one.name}" for one in node.names]
            for name in names:
                parts = [part for part in name.split(".") if part]
                if parts[0] == "precis":
                    continue
                for depth, part in enumerate(parts):
                    within = place.joinpath(*parts[:depth])
                    waiting.append(within / part / "__init__.py")
                    for suffix in all_suffixes():
                        # All modules of a package are imported by `*`.
                        waiting += within.glob(f"{part}{suffix}")
    found = [path, *sorted(trees.keys() - {path})]
    for module in found[1:]:
        package = module.relative_to(folder).parts[0].removesuffix(".py")
        if package in _OF_CHECKOUT:
            raise ConfigError(
                f"{path.name} imports {package!r} of its folder, and Précis has a package of that "
                "name too.",
                "Give yours another name.",
            )
    for statement in trees[path].body:
        match statement:
            case ast.Assign([ast.Name("files"), *_], ast.expr() as value) | ast.AnnAssign(
                ast.Name("files"), _, ast.expr() as value
            ):
                found += [folder / name for name in _names_in(value, path)]
    return found


def _parse(file: Path) -> ast.Module:
    """Parse a file. Before Python 3.11.8 another thread that parses, as pydantic does while it is
    imported, may make `ast.parse` fail with SystemError."""
    for _ in range(20):
        with suppress(SystemError):
            return ast.parse(file.read_bytes(), str(file))
    raise ConfigError(f"{file} can't be parsed beside other threads.", "Try again.")


def _names_in(value: ast.expr, path: Path) -> list[str]:
    """Return the names in a file's `files` list, each of a file in or below its folder."""
    try:
        names = [Path(name) for name in ast.literal_eval(value)]
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{path.name}: `files` is not a list of names.", "Write them out: ['data.jsonl']."
        ) from error
    for name in names:
        if name.is_absolute() or ".." in name.parts or not (path.parent / name).is_file():
            raise ConfigError(
                f"{path.name} lists {str(name)!r} in `files`, and its folder has no such file.",
                "Name files by their paths below the folder.",
            )
    return list(map(str, names))


def _import(path: Path, file: str) -> ModuleType:
    """Run the file as a module, which may import others in its folder."""
    name = f"precis_environment_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"{file} is not there, or is not a Python file.", "Name one, `….py`.")
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        files_of(path)  # raises if it imports a module that a package of the checkout hides
        with chdir(os.curdir):  # a file may change it, which the run and others share
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        if isinstance(error, PrecisError):
            raise
        said = f"The environment {file} can't be imported: {describe_error(error)}."
        raise ConfigError(said) from error
    return module
