"""What `precis doctor` says of deployments that it can't examine."""

import pytest
from typer.testing import CliRunner

from cli import main as cli


def test_a_deployment_that_only_starts_others_is_not_said_to_be_missing() -> None:
    said = CliRunner().invoke(cli.app, ["doctor", "sweep/rehearsal"])
    assert said.exit_code == 1
    assert "'sweep/rehearsal' of training or a benchmark; it has train/rehearsal, " in said.output


def test_a_store_that_a_rented_machine_cannot_reach_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BACKUP_BUCKET", raising=False)
    monkeypatch.setenv("PRECIS_STORE", "folder")
    said = CliRunner().invoke(cli.app, ["doctor", "train/h100"])
    assert said.exit_code == 2
    assert said.output.startswith("cluster.where is 'sky', but a rented machine can't reach")
