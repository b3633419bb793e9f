"""What the README, the documentation and the locks say is what the code does."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.support.repository import PAGES, README, ROOT
from tools.reference import PAGE, with_reference


def test_the_configuration_reference_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert with_reference(text) == text, "run: python -m tools.reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_and_target_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    folders = "flows|tasks|precis|bench|docs|deployments|tests"
    for name in re.findall(rf"`((?:{folders})/[\w./-]*)`", text):
        assert (ROOT / name).exists(), name
    links = re.findall(r"\]\(([^)#:]+)[)#]", text)
    for name in (*links, *re.findall(r'(?:src|srcset)="([^"]+)"', text)):
        assert (page.parent / name).exists(), name
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\bmake (\w+)" if page == README else r"`make (\w+)", text):
        assert f"\n{target}:" in makefile, target


def test_the_pythons_that_are_named_are_those_that_may_be_installed_on() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    minors = [minor for minor in range(30) if SpecifierSet(wanted).contains(f"3.{minor}.0")]
    *others, last = (f"3.{minor}" for minor in minors)
    named = f"Python {', '.join(others)} or {last}"
    for page in (README, ROOT / "docs" / "first-rehearsal.md", ROOT / "Makefile"):
        assert named in page.read_text(), page
    assert (
        f"(3, {minors[0]}) <= sys.version_info < (3, {minors[-1] + 1})"
        in (ROOT / "Makefile").read_text()
    )


def test_the_locks_name_no_registry() -> None:
    for lock in Path(ROOT).glob("requirements*.lock"):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text
        assert "--index" not in text
