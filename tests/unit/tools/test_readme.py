"""What the README, the documentation and the locks say is what the code does."""

import re
from pathlib import Path

import pytest

from tests.support.repository import PAGES, README, ROOT
from tools.reference import PAGE, with_reference


def test_the_configuration_reference_is_up_to_date() -> None:
    text = PAGE.read_text()
    assert with_reference(text) == text, "run: python -m tools.reference"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = page.read_text()
    for name in re.findall(r"`((?:flows|tasks|precis|bench|docs)/[\w./-]*)`", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r'(?:src|srcset)="([^"]+)"', text):
        assert (page.parent / name).exists(), name


def test_every_page_that_the_readme_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)", README.read_text())
    assert links
    for link in links:
        assert (ROOT / link).exists(), link


def test_every_make_target_that_a_page_names_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {target for page in PAGES for target in re.findall(r"`make (\w+)", page.read_text())}
    targets |= set(re.findall(r"\bmake (\w+)", README.read_text()))
    for target in targets:
        assert f"\n{target}:" in makefile, target


def test_the_locks_name_no_registry() -> None:
    for lock in Path(ROOT).glob("requirements*.lock"):
        text = lock.read_text()
        assert "--hash=sha256:" in text
        assert "://" not in text
        assert "--index" not in text
