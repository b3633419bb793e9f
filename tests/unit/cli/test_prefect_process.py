"""Starting and stopping a Prefect server of our own, one at a time."""

import asyncio
from pathlib import Path

import pytest

from cli import prefect_process
from cli.prefect_server import PrefectServer, keep_running
from cli.prefect_settings import find_api_url
from precis.environment import Variables
from precis.errors import ConfigError, LockHeld
from tests.support.stopped import stopped_process

HOLD = """
import os, signal
from cli import prefect_process

with prefect_process._alone():
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_stop_does_not_wait_for_ever_for_a_process_that_is_stopped_while_it_starts_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prefect_process, "_LOCK_PATIENCE_S", 0.2)
    (home / "prefect").mkdir(parents=True)
    with (
        stopped_process(HOLD) as holder,
        pytest.raises(LockHeld, match=f"prefect/lock is held by process {holder.pid} on "),
    ):
        prefect_process.stop()


async def test_a_server_that_ends_at_once_is_not_started_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = 0

    def start_again() -> bool:
        nonlocal started
        started += 1
        return True

    # Nothing listens at the address of what was started, and its process is not there any more.
    monkeypatch.setattr(prefect_process, "start_again", start_again)
    said: list[str] = []
    async with keep_running(PrefectServer("http://127.0.0.1:9/api", ours=True), said.append):
        async with asyncio.timeout(60):
            while len(said) < 2:
                await asyncio.sleep(0.05)
        await asyncio.sleep(1)
    assert started == 1
    assert said[0] == "The Prefect server had died, and was restarted."
    assert "can't be restarted" in said[1] and "server.log" in said[1]


@pytest.mark.parametrize("written", ["not [toml", "profiles = 5", "[profiles]\nmine = 1"])
def test_profiles_of_prefect_that_can_not_be_read_are_named(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_PROFILE", "mine")
    (tmp_path / "profiles.toml").write_text(written)
    with pytest.raises(ConfigError, match=r"profiles in .*profiles\.toml can't be read"):
        find_api_url()
    (tmp_path / "profiles.toml").write_text('[profiles.mine]\nPREFECT_API_URL = "http://a/api/"')
    assert find_api_url() == "http://a/api"


def test_a_server_named_in_the_file_of_variables_is_the_one_that_prefect_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(Variables.model_config, "env_file", ".env")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_API_URL", "")
    (tmp_path / ".env").write_text("PREFECT_API_URL=http://team/api\n")
    (tmp_path / "profiles.toml").write_text(
        'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "http://a/api"'
    )
    assert find_api_url() == "http://team/api"
    monkeypatch.setenv("PREFECT_API_URL", "http://here/api")
    assert find_api_url() == "http://here/api"
