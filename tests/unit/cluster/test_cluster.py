"""What a rented machine is asked for, called, reached with and charged."""

import os
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from precis.checks import CheckResult, raise_failures
from precis.cluster import gpus, local
from precis.cluster.gpus import gpus_suffice
from precis.cluster.keys import Keys, cluster_name, forget_keys, read_keys, write_keys
from precis.cluster.site import HourlyPrice, Meter
from precis.cluster.task import candidates, s3_variables
from precis.errors import ConfigError, NoCapacity
from precis.settings.cluster import ClusterConfig
from precis.store.s3_client import client_for
from tests.support.programs import put_program


def test_the_name_of_a_cluster_follows_from_model_and_store_and_fits_every_cloud() -> None:
    one = cluster_name("Sum_marizer.v2", "s3://bucket/runs")
    assert one == cluster_name("Sum_marizer.v2", "s3://bucket/runs")
    assert one.startswith("precis-sum-marizer-v2-")
    others = {cluster_name("Sum_marizer.v2", "s3://b"), cluster_name("sum-marizer-v2", "s3://b")}
    assert len({one, *others}) == 3
    assert len(cluster_name("x" * 64, "s3://bucket")) <= 40


def test_keys_are_found_again_and_readable_by_nobody_else(tmp_path: Path) -> None:
    keys = Keys.new()
    assert keys.token not in repr(keys)
    write_keys("precis-a", keys)
    assert read_keys("precis-a") == keys
    file = tmp_path / "home" / "clusters" / "precis-a.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    forget_keys("precis-a")
    forget_keys("precis-a")
    assert read_keys("precis-a") is None
    for damaged in ("", "[1]", '{"token": "t"}'):
        file.write_text(damaged)
        assert read_keys("precis-a") is None


@pytest.mark.parametrize(
    ("spot", "asked"),
    [
        ("never", [("runpod", False), ("aws", False)]),
        ("first", [("runpod", True), ("aws", True), ("runpod", False), ("aws", False)]),
        ("only", [("runpod", True), ("aws", True)]),
    ],
)
def test_places_are_asked_in_order(spot: Any, asked: list[tuple[str, bool]]) -> None:
    config = ClusterConfig(infra=("runpod", "aws"), spot=spot)
    assert [(one["infra"], one["use_spot"]) for one in candidates(config)] == asked


@pytest.mark.parametrize(
    ("line", "endpoint"), [("endpoint_url = https://s3.example", "https://s3.example"), ("", None)]
)
def test_a_profile_of_awss_own_tools_goes_along_whole(
    line: str, endpoint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine would else ask AWS for the bucket of another server."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    keys = "aws_access_key_id = an-id\naws_secret_access_key = a-secret"
    (tmp_path / "config").write_text(f"[default]\nregion = eu-west-3\n{keys}\n{line}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    client_for.cache_clear()  # a profile is none of the settings, which another test may have used
    secrets, plain = s3_variables()
    assert secrets == {"AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret"}
    assert plain["AWS_REGION"] == "eu-west-3"
    assert plain.get("AWS_ENDPOINT_URL") == endpoint


async def test_a_gpu_here_needs_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "GPU_PYTHON", tmp_path / "python")
    site = local.LocalHost(tmp_path, 1, tmp_path / "log", "local")
    with pytest.raises(ConfigError, match="make install-gpu"):
        await site.up()


def test_a_meter_adds_up_machines_of_different_prices() -> None:
    clock = [0.0]
    meter = Meter(now=lambda: clock[0])
    meter.start(HourlyPrice(2.0, 2.0))
    clock[0] = 1800
    assert meter.unbooked_usd == pytest.approx(1.0)
    meter.stop()
    clock[0] = 2400
    meter.start(HourlyPrice(4.0, 7.0), held_s=600)
    clock[0] = 5400
    meter.stop()
    clock[0] = 90_000
    assert meter.unbooked_usd == pytest.approx(5.0)
    assert meter.hours == pytest.approx(1.5)
    assert meter.unbooked_saved_usd == pytest.approx(3.0)
    meter.book(3.0, 1.0)
    assert meter.unbooked_usd == pytest.approx(2.0)
    assert meter.unbooked_saved_usd == pytest.approx(2.0)


def test_a_rented_machine_costs_while_this_one_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {time.CLOCK_BOOTTIME: 0.0}
    monkeypatch.setattr(time, "clock_gettime", clocks.__getitem__)
    meter = Meter()
    meter.start(HourlyPrice(2.0, 2.0))
    clocks[time.CLOCK_BOOTTIME] = 3600
    assert meter.unbooked_usd == pytest.approx(2.0)


@pytest.mark.parametrize(("up_s", "usd"), [(90_000, 2.0), (1200, 1.0)])
def test_a_machine_that_was_up_before_costs_from_then_on_once(up_s: float, usd: float) -> None:
    clock = [0.0]
    meter = Meter(now=lambda: clock[0])
    meter.note_uptime(up_s)
    meter.start(HourlyPrice(2.0, 3.0))
    clock[0] = 600
    meter.note_uptime(90_000)  # when its connection was made again
    for _ in range(2):
        meter.count_before(600 + 3000)
        assert meter.unbooked_usd == pytest.approx(usd)
        assert meter.unbooked_saved_usd == pytest.approx(usd / 2)


def test_one_failing_check_is_raised_as_it_is_and_several_as_a_list() -> None:
    nobody, key = NoCapacity("Nobody has one."), ConfigError("No key.")
    fine, no_gpu = (
        CheckResult("documents", True, "3"),
        CheckResult("GPU", False, "Nobody", "", nobody),
    )
    raise_failures([fine])
    with pytest.raises(NoCapacity):
        raise_failures([fine, no_gpu])
    with pytest.raises(ConfigError, match=r"(?s)2 problems.*GPU: Nobody.*judge: No key"):
        raise_failures([no_gpu, CheckResult("judge", False, "No key", "", key)])


LISTS_TWO = """echo 'GPU 0: NVIDIA H200 (UUID: GPU-a)'
echo '  MIG 1g.18gb Device 0: (UUID: MIG-1)'
echo 'GPU 1: NVIDIA H200 (UUID: GPU-b)'"""


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither GPUs nor the choice of them are this machine's."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(
    ("script", "visible", "asked", "said"),
    [
        (LISTS_TWO, None, 2, r"^GPU 0: NVIDIA H200 .*; GPU 1: NVIDIA H200 \(UUID: GPU-b\)$"),
        (LISTS_TWO, "0, MIG-1", 2, "^0; MIG-1, by CUDA_VISIBLE_DEVICES=0, MIG-1$"),
        (LISTS_TWO, None, 3, r"No: .*gpus is 3, and the trainer would see 2 here \(GPU 0"),
        (LISTS_TWO, "GPU-b", 2, "No: .*would see 1 here .*CUDA_VISIBLE_DEVICES=GPU-b"),
        (LISTS_TWO, "-1", 1, "No: .*would see 0 here"),
        (LISTS_TWO, "0,2", 2, "No: .*would see 1 here"),
        (LISTS_TWO, "", 1, "No: .*would see 0 here"),
        (None, None, 1, "No: .*lists no GPU of this machine: .*No such file"),
        ("exit 6", None, 1, "No: .*lists no GPU of this machine: .* status 6"),
        ("exec /bin/sleep 600", None, 1, "No: .*lists no GPU .* timed out after 0.2 seconds"),
    ],
)
async def test_the_gpus_that_a_trainer_would_see_are_named_and_too_few_refused_with_the_cause(
    script: str | None,
    visible: str | None,
    asked: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if script is not None:
        put_program(tmp_path, "nvidia-smi", script)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(gpus, "_ANSWER_S", 0.2 if "sleep" in str(script) else 60)
    try:
        answer = await gpus_suffice(asked)
    except ConfigError as error:
        answer = f"No: {error}"
    assert re.search(said, answer)


def test_a_scratch_folder_sweeps_up_what_dead_processes_left(tmp_path: Path) -> None:
    """A file browser leaves files of its own in any folder, such as `.DS_Store`."""
    dead = tmp_path / f"{2**22 + 1}-x"
    dead.mkdir()
    foreign = tmp_path / ".DS_Store"
    foreign.touch()
    with local.scratch_folder(tmp_path) as folder:
        assert sorted(tmp_path.iterdir()) == sorted([foreign, folder])
    assert list(tmp_path.iterdir()) == [foreign]
