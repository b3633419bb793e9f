"""The lock of a GPU's machine, and uv, for the tests that read and resolve it."""

import re
import subprocess
import sys
from pathlib import Path

from tests.services.conftest import ROOT

LOCK = ROOT / "requirements-gpu.lock"
OVERRIDES = ROOT / "requirements-gpu-overrides.txt"
RUN = ROOT / "requirements-gpu-run.txt"
MACHINE = ("--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_35")
"""vLLM's wheel wants glibc 2.35."""
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_UV = Path(sys.executable).with_name("uv")


def pins(file: Path) -> dict[str, str]:
    """The release of each package that a file pins, by the name that the index compares."""
    return {normal(name): release for name, release in _PIN.findall(file.read_text())}


def normal(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def fetch(into: Path, *requirements: str) -> Path:
    """Unpack wheels for a GPU's machine into a folder, without what they need."""
    target = ("--python", sys.executable, "--no-deps", "--only-binary", ":all:")
    uv("pip", "install", "--quiet", *target, *MACHINE, "--target", str(into), *requirements)
    return into


def resolve(lock: Path, overrides: Path = OVERRIDES) -> "subprocess.CompletedProcess[str]":
    """Resolve the group `gpu` as `make lock` does; what the file pins is preferred."""
    held = ("--constraint", str(RUN), "--overrides", str(overrides))
    command = ("pip", "compile", "--quiet", "--group", "gpu", *MACHINE, *held)
    return _run(*command, "--output-file", str(lock))


def uv(*arguments: str) -> None:
    done = _run(*arguments)
    assert done.returncode == 0, done.stderr


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(_UV), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
