"""Which GPUs a trainer on this machine would see, by a stand-in for NVIDIA's command."""

from pathlib import Path

import pytest

from precis.cluster import gpus
from precis.cluster.gpus import gpus_suffice
from precis.errors import ConfigError

TWO = """0, GPU-aaaa, NVIDIA H200, 143771 MiB
1, GPU-bbbb, NVIDIA H200, 143771 MiB
"""
BOTH = "GPU 0: NVIDIA H200, 143771 MiB; GPU 1: NVIDIA H200, 143771 MiB"


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither GPUs nor the choice of them are this machine's."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def has(folder: Path, listing: str, status: int = 0) -> None:
    command = folder / "nvidia-smi"
    command.write_text(f"#!/bin/sh\nprintf '%s' '{listing}'\nexit {status}\n")
    command.chmod(0o755)


async def test_all_that_are_here_are_named(tmp_path: Path) -> None:
    has(tmp_path, TWO)
    assert await gpus_suffice(2) == BOTH
    assert await gpus_suffice(1) == BOTH


async def test_two_are_refused_where_there_is_one(tmp_path: Path) -> None:
    has(tmp_path, TWO.splitlines()[0])
    with pytest.raises(ConfigError, match=r"gpus is 2, and the trainer would see 1 here \(GPU 0"):
        await gpus_suffice(2)


@pytest.mark.parametrize("chosen", ["1", "GPU-b"])
async def test_a_gpu_that_is_hidden_does_not_count(
    chosen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(tmp_path, TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert await gpus_suffice(1) == "GPU 1: NVIDIA H200, 143771 MiB"
    with pytest.raises(ConfigError, match=f"CUDA_VISIBLE_DEVICES={chosen}"):
        await gpus_suffice(2)


async def test_a_part_of_a_gpu_counts_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(tmp_path, TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1234")
    assert "a part of a GPU" in await gpus_suffice(1)


async def test_none_are_seen_where_all_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(tmp_path, TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(ConfigError, match="would see 0 here"):
        await gpus_suffice(1)


async def test_a_machine_without_a_driver_is_refused() -> None:
    with pytest.raises(ConfigError, match="nvidia-smi can't be run"):
        await gpus_suffice(1)


async def test_a_driver_that_finds_none_is_refused(tmp_path: Path) -> None:
    has(tmp_path, "No devices were found", status=6)
    with pytest.raises(ConfigError, match="finds no GPU here"):
        await gpus_suffice(1)


async def test_a_driver_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\nexec /bin/sleep 600\n")
    command.chmod(0o755)
    monkeypatch.setattr(gpus, "_ANSWER_S", 0.2)
    with pytest.raises(ConfigError, match="nvidia-smi does not answer"):
        await gpus_suffice(1)
