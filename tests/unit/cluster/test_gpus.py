"""Which GPUs a trainer on this machine would see, by a stand-in for NVIDIA's command."""

from pathlib import Path

import pytest

from precis.cluster import gpus
from precis.cluster.gpus import gpus_suffice
from precis.errors import ConfigError
from tests.support.programs import put_program

TWO = """0, GPU-aaaa, NVIDIA H200, 143771 MiB
1, GPU-bbbb, NVIDIA H200, 143771 MiB
"""
ONE = TWO.splitlines()[0]
BOTH = "GPU 0: NVIDIA H200, 143771 MiB; GPU 1: NVIDIA H200, 143771 MiB"


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither GPUs nor the choice of them are this machine's."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(
    ("visible", "asked", "found"),
    [
        (None, 2, BOTH),
        (None, 1, BOTH),
        ("1", 1, "GPU 1: NVIDIA H200, 143771 MiB"),
        ("GPU-b", 1, "GPU 1: NVIDIA H200, 143771 MiB"),
        ("MIG-1234", 1, "a part of a GPU"),
    ],
)
async def test_the_gpus_that_a_trainer_would_see_are_named(
    visible: str | None,
    asked: int,
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put_program(tmp_path, "nvidia-smi", f"printf '%s' '{TWO}'")
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert found in await gpus_suffice(asked)


@pytest.mark.parametrize(
    ("script", "visible", "said"),
    [
        (f"printf '%s' '{ONE}'", None, r"gpus is 2, and the trainer would see 1 here \(GPU 0"),
        (f"printf '%s' '{TWO}'", "GPU-b", "CUDA_VISIBLE_DEVICES=GPU-b"),
        (f"printf '%s' '{TWO}'", "", "would see 0 here"),
        (None, None, "nvidia-smi can't be run"),
        ("echo 'No devices were found'; exit 6", None, "finds no GPU here"),
        ("exec /bin/sleep 600", None, "nvidia-smi does not answer"),
    ],
)
async def test_too_few_gpus_are_refused_with_the_cause(
    script: str | None,
    visible: str | None,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if script is not None:
        put_program(tmp_path, "nvidia-smi", script)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(gpus, "_ANSWER_S", 0.2 if "sleep" in str(script) else 60)
    with pytest.raises(ConfigError, match=said):
        await gpus_suffice(2)
