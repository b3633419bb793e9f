"""The files for whoever works on Précis fit the programs that read them, and what they install."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import check_jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from click.testing import CliRunner
from hatchling.builders.wheel import WheelBuilder
from packaging.specifiers import SpecifierSet

from tests.support.programs import put_program
from tests.support.repository import README, ROOT
from tests.support.wheel import refused_packages
from tools.outdated import FILES, pins_in

GITHUB = ROOT / ".github"
TEMPLATES = GITHUB / "ISSUE_TEMPLATE"
WORKFLOW: dict[str, Any] = yaml.safe_load((GITHUB / "workflows" / "test.yml").read_text())


@pytest.mark.filterwarnings("ignore:The metaschema specified:DeprecationWarning")
@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", [GITHUB / "workflows" / "test.yml"]),
        ("github-issue-config", [TEMPLATES / "config.yml"]),
        ("github-issue-forms", [TEMPLATES / "bug.yml", TEMPLATES / "wish.yml"]),
        ("compose-spec", [ROOT / "deployments" / "compose.yaml"]),
    ],
    ids=["workflows", "issue-config", "issue-forms", "compose"],
)
def test_a_file_of_others_fits_its_schema(schema: str, files: list[Path]) -> None:
    arguments = ["--builtin-schema", f"vendor.{schema}", *map(str, files)]
    done = CliRunner().invoke(check_jsonschema.main, arguments)
    assert done.exit_code == 0, done.output


def test_every_python_that_may_be_installed_on_is_named_and_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = SpecifierSet(project["requires-python"])
    minors = [minor for minor in range(30) if wanted.contains(f"3.{minor}.0")]
    pythons = [f"3.{minor}" for minor in minors]
    job = WORKFLOW["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == pythons
    prefix = "Programming Language :: Python :: 3."
    classified = [name for name in project["classifiers"] if name.startswith(prefix)]
    assert classified == [f"Programming Language :: Python :: {python}" for python in pythons]
    assert job["steps"][-1]["run"] == ".ci/run"
    assert (ROOT / ".ci" / "run").read_text().endswith("exec make test\n")
    named = f"Python {', '.join(pythons[:-1])} or {pythons[-1]}"
    for page in (README, ROOT / "docs" / "first-rehearsal.md", ROOT / "Makefile"):
        assert named in page.read_text(), page
    compared = f"(3, {minors[0]}) <= sys.version_info < (3, {minors[-1] + 1})"
    assert compared in (ROOT / "Makefile").read_text()


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


def test_the_environment_that_uv_makes_has_pip(tmp_path: Path) -> None:
    """Messages and pages tell users to install packages by it."""
    tools = tmp_path / "my tools"  # as where a clone with a space is activated, and has its uv
    tools.mkdir()
    uv = put_program(tools, "uv", f'echo "$@" > {tmp_path}/asked')
    venv = tmp_path / "venv"
    command = ["make", f"UV={uv}", f"VENV={venv}", f"{venv}/bin/python"]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert "--seed" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(("given", "is_yes"), [("1", True), ("0", False), ("no", False)])
def test_a_rehearsal_is_forgotten_only_by_a_yes(given: str, is_yes: bool) -> None:
    shown = show_rehearsal(f"FRESH={given}", f"TAKE_OVER={given}")
    assert ("--fresh" in shown, "--take-over" in shown) == (is_yes, is_yes)


def test_a_rehearsal_takes_nothing_from_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = show_rehearsal()
    for name in ("ENVIRONMENT", "MODEL", "STORE", "DOCUMENTS", "STEPS", "SEED"):
        assert "other" in show_rehearsal(f"{name}=other")
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("FRESH", "1")
    assert show_rehearsal() == usual


def show_rehearsal(*variables: str) -> str:
    """Return the command of `make rehearse` with some variables."""
    command = ["make", "--dry-run", "rehearse", *variables]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_locks_name_no_registry_and_the_image_takes_its_packages_by_their_hashes() -> None:
    dockerfile = (ROOT / "deployments" / "Dockerfile").read_text()
    assert "--require-hashes -r requirements.lock" in dockerfile
    for lock in Path(ROOT).glob("requirements*.lock"):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text
        assert "--index" not in text


def test_every_pin_of_ours_has_a_reason() -> None:
    pins = [pin for name in FILES for pin in pins_in(ROOT / name)]
    assert {"prefect", "openpipe-art", "vllm"} <= {pin.requirement.name for pin in pins}
    assert [str(pin.requirement) for pin in pins if not pin.reason] == []


def test_a_wheel_holds_the_library_with_its_licence_and_types_alone(tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(built) as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} == {"precis", "precis-0.1.0.dist-info"}
    assert "precis/data/fictional.parquet" in names
    assert "precis/report/template/report.css" in names
    assert "precis/py.typed" in names
    assert "precis-0.1.0.dist-info/licenses/LICENSE" in names


def test_a_trained_model_can_be_used_without_the_pipelines_packages() -> None:
    refused = refused_packages()
    assert {"prefect", "art", "matplotlib", "datasets"} <= set(refused)
    program = f"""
import sys
sys.modules.update(dict.fromkeys({refused}))  # importing one of them fails
import precis.inference.summarizer, precis.inference.texts, precis.questions.make
import precis.models.card, precis.models.export, precis.models.serving, precis.store.s3
import precis.environments.summaries.judge.audit, precis.inference.facts, precis.inference.reader
import precis.environments.python, precis.environments.recorded_client, precis.questions.rules
from precis.commands.main import COMMANDS, load, module_of
for name in COMMANDS:
    if module_of(name).startswith("precis."):
        load(name)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
