"""What is logged to W&B after its process has ended."""

from pathlib import Path

import pytest

from precis.observe.wandb import WandbLog


def test_after_its_end_nothing_more_is_kept_for_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environment = {"WANDB_API_KEY": "k", "PYTHONHOME": "/nowhere"}  # so that it ends at once
    log = WandbLog(tmp_path, {"name": "m"}, environment)
    log._process.wait()
    log.log(0, {})
    log._feeder.join()
    log.table(0, "samples", ["text"], [["long"]])
    assert log._lines.empty()
    assert "W&B has ended: ModuleNotFoundError: No module named 'encodings'." in caplog.text
