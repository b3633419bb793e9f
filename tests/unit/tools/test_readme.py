"""What the README and the deployments say is what the code does."""

import re
from pathlib import Path

from tools.reference import README, with_reference

ROOT = README.parent


def test_the_configuration_reference_is_up_to_date() -> None:
    text = README.read_text()
    assert with_reference(text) == text, "run: python -m tools.reference"


def test_every_file_that_the_readme_names_is_there() -> None:
    named = re.findall(r"`((?:flows|tasks|precis|bench|docs)/[\w./-]*)`", README.read_text())
    named += re.findall(r'(?:src|srcset)="([^"]+)"', README.read_text())
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


def test_every_make_target_that_the_readme_names_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake (\w+)", README.read_text())):
        assert f"\n{target}:" in makefile, target


def test_the_locks_name_no_registry() -> None:
    for lock in Path(ROOT).glob("requirements*.lock"):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text
        assert "--index" not in text
