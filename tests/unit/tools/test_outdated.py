"""The program that prints which pins shut a newer release out, asked of an index made here."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.repository import ROOT
from tools.outdated import FILES, pins_in

PYPROJECT = """\
[project]
requires-python = ">=3.11,<3.14"
dependencies = [
    # Nothing.
    "free>=1",
    # Its second release forgets
    # what the first one knew.
    "held>=1,<2",
    "twin==1.0",
    "roomy<3",
    "end>=1,<2",  # its clock is wrong
]
"""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder of wheels: releases 1.0 and 2.0 of each package."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in ("free", "held", "twin", "roomy", "end"):
        for version in ("1.0", "2.0"):
            with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
                about = f"{name}-{version}.dist-info"
                metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                wheel.writestr(f"{about}/METADATA", metadata)
                wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
                wheel.writestr(f"{about}/RECORD", "")
    return folder


def outdated(index: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run the program on a pyproject.toml with this text."""
    file = index.parent / "pyproject.toml"
    file.write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "tools.outdated", str(file)],
        cwd=ROOT,
        env={**os.environ, "UV_FIND_LINKS": str(index), "UV_NO_INDEX": "1", "UV_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )


def test_each_pin_that_shuts_the_newest_release_out_is_printed_with_its_reason(
    index: Path,
) -> None:
    done = outdated(index, PYPROJECT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "pyproject.toml:8: held<2,>=1 shuts out 2.0.",
        "    Its second release forgets what the first one knew.",
        "pyproject.toml:9: twin==1.0 shuts out 2.0.",
        "    Its second release forgets what the first one knew.",
        "pyproject.toml:11: end<2,>=1 shuts out 2.0.",
        "    its clock is wrong",
    ]
    done = outdated(index, 'dependencies = [\n    "held<2",\n]\n')
    assert done.returncode == 1
    assert "No reason stands beside it." in done.stdout
    done = outdated(index, 'dependencies = [\n    "unknown<2",  # it is not there\n]\n')
    assert done.returncode == 1
    assert done.stderr.startswith("The newest releases can't be found: ")
    assert "Traceback" not in done.stderr


def test_every_pin_of_ours_has_a_reason() -> None:
    pins = [pin for name in FILES for pin in pins_in(ROOT / name)]
    assert {"prefect", "openpipe-art", "vllm"} <= {pin.requirement.name for pin in pins}
    assert [str(pin.requirement) for pin in pins if not pin.reason] == []
