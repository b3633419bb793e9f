"""How a run ends when it is told to, or when its store is gone: never inside a commit."""

import secrets
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.conftest import Precis
from tests.services.crash_points import Kill, Kills
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.lives import Life, first_life, nobody
from tests.services.prefect_api import client_of, runs_in
from tests.services.s3_server import s3_server


@pytest.fixture(scope="module")
def weather() -> Iterator[FaultProxy]:
    with s3_server() as url, FaultProxy(url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def first(precis: Precis, weather: FaultProxy) -> Iterator[Life]:
    with first_life(precis, weather.url) as life:
        yield life


def test_a_run_that_is_told_to_end_ends_after_its_commit(
    first: Life, precis: Precis, tmp_path: Path
) -> None:
    life = first.named(f"told-{secrets.token_hex(2)}")
    kills = Kills(tmp_path, [Kill("first file uploaded", ("flow",), by=signal.SIGTERM)])
    assert life.live(kills) != 0
    assert kills.done
    assert life.ledger.next_step == 2, "the commit in hand was not finished"
    with client_of(precis.api) as api:
        (told,) = runs_in(api, life.config["store"])
    assert told["state_type"] == "CRASHED", told["state"]
    assert life.live(nobody(tmp_path)) == 0
    assert set(life.trainings.values()) == {1}


def test_what_cannot_be_uploaded_is_kept_and_goes_up_with_the_next_start(
    first: Life, weather: FaultProxy, tmp_path: Path
) -> None:
    life = first.named("kept")
    weather.spoil(Fault.SERVER_ERROR, method="PUT", path="checkpoints/0002", times=1000)
    assert life.live(nobody(tmp_path)) == 1
    weather.clear()
    [kept] = life.work.glob("kept-*")
    assert "goes to the store when the run is started again" in life.log.read_text()
    assert life.ledger.next_step == 1
    assert set(life.trainings.values()) == {1}
    shutil.rmtree(life.work / "trainer")  # as when the machine was rented
    assert life.live(nobody(tmp_path)) == 0
    assert life.ledger.next_step == 2
    assert not kept.exists()
