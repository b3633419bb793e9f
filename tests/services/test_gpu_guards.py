"""The minimum releases that packages of a GPU's machine ask for in their code, not their metadata.

A resolver can't see them: peft 0.21.2 installs beside torchao 0.15.0, and refuses it when the first
model is registered.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.services.gpu_lock import LOCK, fetch, normal, pins

_GUARDED = ("peft", "transformers", "unsloth")
_MINIMUM = re.compile(r"(\w+?)_MIN(?:IMUM)?_VERSION")
_ZOO = re.compile(r'Version\(unsloth_zoo_version\) < Version\("([^"]+)"\)')


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The locked packages that have guards."""
    locked = pins(LOCK)
    folder = tmp_path_factory.mktemp("guarded")
    return fetch(folder, *(f"{name}=={locked[name]}" for name in _GUARDED))


def test_the_locked_packages_take_each_other(sources: Path) -> None:
    guards = list(guards_in(sources))
    guarded = {guard.name for guard in guards}
    assert {"torchao", "accelerate", "huggingface-hub", "tokenizers", "unsloth-zoo"} <= guarded
    assert clashes(guards, pins(LOCK)) == []


def test_a_peft_that_refuses_the_locked_torchao_is_found(tmp_path: Path) -> None:
    newer = fetch(tmp_path, "peft==0.21.2")
    guards = list(minimums(newer / "peft/import_utils.py"))
    assert clashes(guards, {"torchao": "0.15.0"}) == ["torchao 0.15.0 is not >=0.16.0"]


def clashes(guards: list[Requirement], locked: Mapping[str, str]) -> list[str]:
    """What a guard would refuse of what is locked."""
    return [
        f"{guard.name} {locked[guard.name]} is not {guard.specifier}"
        for guard in guards
        if guard.name in locked and not guard.specifier.contains(Version(locked[guard.name]))
    ]


def guards_in(sources: Path) -> Iterator[Requirement]:
    yield from minimums(sources / "peft/import_utils.py")
    yield from minimums(sources / "transformers/utils/import_utils.py")
    yield from checked_at_import(sources / "transformers")
    (zoo,) = _ZOO.findall((sources / "unsloth/__init__.py").read_text())
    yield Requirement(f"unsloth-zoo>={zoo}")


def minimums(source: Path) -> Iterator[Requirement]:
    """Each `NAME_MIN_VERSION = "1.2"` or `NAME_MINIMUM_VERSION = parse("1.2")` of a module."""
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Assign) and (
            name := _MINIMUM.fullmatch(ast.unparse(node.targets[0]))
        ):
            value = node.value.args[0] if isinstance(node.value, ast.Call) else node.value
            yield Requirement(f"{normal(name[1])}>={ast.literal_eval(value)}")


def checked_at_import(transformers: Path) -> Iterator[Requirement]:
    """What `import transformers` compares with what is installed."""
    wanted = assigned(transformers / "dependency_versions_table.py", "deps")
    for package in assigned(
        transformers / "dependency_versions_check.py", "pkgs_to_check_at_runtime"
    ):
        guard = Requirement(wanted[package])
        guard.name = normal(guard.name)
        yield guard


def assigned(source: Path, name: str) -> Any:
    """The literal that a module assigns to a name."""
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{source} has no {name}")
