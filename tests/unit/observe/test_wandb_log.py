"""What is logged to W&B after its process has ended."""

import subprocess
from pathlib import Path

import pytest

from precis.observe.wandb import WandbLog


def test_after_its_end_nothing_more_is_kept_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with subprocess.Popen(["false"], stdin=subprocess.PIPE) as process:
        process.wait()
        log = WandbLog(process, tmp_path, {"name": "m"}, lambda: "it is full")
        log._feeder.join()
        log.table(0, "samples", ["text"], [["long"]])
        assert log._lines.empty()
    assert "W&B has ended: it is full." in caplog.text
