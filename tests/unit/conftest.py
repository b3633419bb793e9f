"""What unit tests begin with."""

import io
from pathlib import Path

import pytest
from PIL import Image

from precis.environment import S3Environment, Variables, key_variables
from precis.store import FolderStore

KEYS = key_variables()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of Précis of each test's own, which is not there yet, and none of this machine's
    keys, nor its server of buckets."""
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "home"))
    for settings in (Variables, S3Environment):
        monkeypatch.setitem(settings.model_config, "env_file", None)
    for name in (*KEYS, "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charts without a line: to draw one takes longer than all else that such a test does."""
    from precis.report.charts import Chart  # matplotlib takes long to import

    empty = io.BytesIO()
    Image.new("P", (1, 1)).save(empty, "PNG")

    def render(_chart: Chart, _theme: object, kind: str, **_: object) -> bytes:
        return b"<svg/>" if kind == "svg" else empty.getvalue()

    monkeypatch.setattr(Chart, "_render", render)


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """An empty store; a file whose runs lie in one has a fixture of its own."""
    return FolderStore(tmp_path / "store")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no process is at work on them when the others are done."""
    items.sort(key=lambda item: item.path.name != "test_kills.py")
