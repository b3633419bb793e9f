"""Weights & Biases: offline it keeps its files; whatever happens to it, nobody waits."""

import time
from pathlib import Path

import pytest

from precis.observe import wandb
from precis.observe.wandb import wandb_log

KEY = "0123456789012345678901234567890123456789"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_API_KEY", KEY)


async def test_without_a_key_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY")
    async with wandb_log("m", "id1", {}, tmp_path / "w") as log:
        assert log is None
    assert not (tmp_path / "w").exists()


async def test_offline_the_run_is_kept_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    async with wandb_log("m", "id1", {"steps": 2}, tmp_path / "w") as log:
        assert log is not None
        log.log(0, {"reward": 0.25})
        log.log(1, {"reward": 0.5})
    assert list((tmp_path / "w").rglob("run-id1.wandb"))
    kept = b"".join(path.read_bytes() for path in (tmp_path / "w").rglob("*") if path.is_file())
    assert KEY.encode() not in kept


async def test_without_a_network_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(wandb, "_FINISH_TIMEOUT_S", 2)
    start = time.monotonic()
    async with wandb_log("m", "id1", {}, tmp_path / "w") as log:
        assert log is not None
        log.log(0, {"reward": 0.25})
        logged_s = time.monotonic() - start
    assert logged_s < 1
    assert time.monotonic() - start < 10
