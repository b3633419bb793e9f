"""The files for whoever works on Précis fit the programs that read them."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.support.programs import put_program
from tests.support.repository import ROOT

GITHUB = ROOT / ".github"
TEMPLATES = GITHUB / "ISSUE_TEMPLATE"
WORKFLOW: dict[str, Any] = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text())


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("github-workflows", GITHUB / "workflows" / "test.yml"),
        ("github-issue-config", TEMPLATES / "config.yml"),
        ("github-issue-forms", TEMPLATES / "bug.yml"),
        ("github-issue-forms", TEMPLATES / "wish.yml"),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else value,
)
def test_a_file_for_github_fits_its_schema(schema: str, file: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_workflow_runs_the_tests_on_every_python_that_may_be_installed_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = SpecifierSet(project["requires-python"])
    pythons = [f"3.{minor}" for minor in range(30) if wanted.contains(f"3.{minor}.0")]
    job = WORKFLOW["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == pythons
    prefix = "Programming Language :: Python :: 3."
    classified = [name for name in project["classifiers"] if name.startswith(prefix)]
    assert classified == [f"Programming Language :: Python :: {python}" for python in pythons]
    assert job["steps"][-1]["run"] == ".ci/run"
    assert (ROOT / ".ci" / "run").read_text().endswith("exec make test\n")


@pytest.mark.parametrize(("has_compiler", "status"), [(True, 2), (False, 0)])
def test_only_for_want_of_a_compiler_the_environments_packages_are_left_out(
    has_compiler: bool, status: int, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("make", "sh", "grep", "touch"):
        (programs / name).symlink_to(str(shutil.which(name)))
    put_program(programs, "uv", 'case "$*" in *environments*) exit 1; esac')
    if has_compiler:
        put_program(programs, "cc", "exit")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    for name in ("bin/python", ".installed"):
        (venv / name).touch()
    done = subprocess.run(
        ["make", f"VENV={venv}", f"{venv}/.installed-dev"],
        cwd=ROOT,
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    assert ("needs a C compiler" in done.stdout) == (not has_compiler)
    assert (venv / ".installed-dev").exists() == (not has_compiler)
