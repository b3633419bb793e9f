"""What tests of services stand on: programs that may be missing, and tests that may hang."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.services import needs
from tests.support.programs import put_program
from tests.support.watchdog import interrupted_after

INSTALL = Path(needs.__file__).with_name("install.sh")


def test_what_hangs_without_a_limit_is_interrupted() -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="The end of a test did not come"),
        interrupted_after(0.01, "a test", look_s=0.05),
    ):
        threading.Event().wait()


def test_what_is_missing_is_named_and_fails_where_all_is_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(needs.COMPLETE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="the Debian package dash is not installed"):
        needs.need("dash", "sh", "no-such-program")
    monkeypatch.setenv(needs.COMPLETE, "1")
    assert needs.need("dash", "sh").endswith("/sh")
    with pytest.raises(pytest.fail.Exception, match="dash is not installed"):
        needs.need("dash", "no-such-program")


def test_without_root_nothing_is_installed_and_what_is_missing_is_said(tmp_path: Path) -> None:
    programs = {"id": "echo 1000", "dpkg-query": "exit 1", "apt-get": f"touch {tmp_path}/called"}
    for name, line in programs.items():
        put_program(tmp_path, name, line)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [str(INSTALL), "chromium", "postgresql"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0
    assert (
        done.stderr == "Tests that need these Debian packages are left out: chromium postgresql\n"
    )
    assert not (tmp_path / "called").exists()
