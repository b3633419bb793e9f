"""The pins that exclude a newer release, with their reasons.

`make outdated` prints them, for the requirements of `pyproject.toml` and the overrides of its
locks, by what uv finds on the index. A pin's reason is the comment at the end of its line, or else
the nearest one above it in its list. The exit status is 1 if a pin has none.
"""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FILES = ("pyproject.toml", "requirements-overrides.txt", "requirements-gpu-overrides.txt")
PYTHON = "3.12"
"""The version whose releases are asked for: the one that the GPU's packages and ours share."""


class Pin(NamedTuple):
    """A requirement that can shut a release out."""

    requirement: Requirement
    file: str
    line: int
    reason: str


def pins_in(file: Path) -> Iterator[Pin]:
    """Yield the requirements of a file that name an upper bound or one release."""
    reason: list[str] = []
    above = ""
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        code, _, comment = (part.strip() for part in line.partition("#"))
        if comment and not code:
            # A comment below a requirement begins another reason.
            reason = [*reason, comment] if above == "comment" else [comment]
            above = "comment"
            continue
        above = "code"
        if not code or code == "]":
            reason = []
        for text in re.findall(r'"([^"]+)"', code) if file.suffix == ".toml" else [code]:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            if any(part.operator in {"<", "<=", "==", "~="} for part in requirement.specifier):
                yield Pin(requirement, file.name, number, comment or " ".join(reason))


def newest_releases(names: set[str]) -> dict[str, str]:
    """Return the newest release of each package for Python 3.12; exit if uv finds none."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--no-deps", "--quiet"]
    command += ["--no-header", "--no-annotate", "--upgrade", "--python-version", PYTHON]
    asked = subprocess.run(command, input="\n".join(names), capture_output=True, text=True)
    if asked.returncode:
        sys.exit(f"The newest releases can't be found: {asked.stderr.strip()}")
    found = (line.split("==") for line in asked.stdout.split())
    return {canonicalize_name(name): version for name, version in found}


def main(files: list[Path]) -> int:
    """Print each pin that shuts the newest release out; return 1 if one has no reason."""
    pins = [pin for file in files for pin in pins_in(file)]
    newest = newest_releases({pin.requirement.name for pin in pins})
    unexplained = False
    for pin in pins:
        release = newest[canonicalize_name(pin.requirement.name)]
        if pin.requirement.specifier.contains(release, prereleases=True):
            continue
        unexplained |= not pin.reason
        print(f"{pin.file}:{pin.line}: {pin.requirement} shuts out {release}.")
        reason = textwrap.fill(pin.reason or "No reason stands beside it.", 96)
        print(textwrap.indent(reason, "    "))
    return int(unexplained)


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]] or [ROOT / name for name in FILES]))
