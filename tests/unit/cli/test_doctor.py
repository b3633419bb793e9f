"""What `precis doctor` examines, and what it says of deployments that it can't."""

from pathlib import Path

import pytest
import yaml
from prefect.settings import PREFECT_API_URL, temporary_settings
from typer.testing import CliRunner

from cli import doctor
from cli import main as cli
from precis.config import ManagedConfig
from precis.errors import ConfigError
from tests.support.repository import ROOT


def test_a_deployment_that_only_starts_others_is_not_said_to_be_missing() -> None:
    said = CliRunner().invoke(cli.app, ["doctor", "sweep/rehearsal"])
    assert said.exit_code == 1
    assert "'sweep/rehearsal' of training or a benchmark; it has train/rehearsal, " in said.output


def test_a_managed_job_is_examined_with_the_settings_that_it_alone_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    (managed,) = (one for one in given["deployments"] if one["name"] == "managed")
    managed["parameters"] |= {"prefect_api_url": "https://p/api", "store": "s3://bucket/runs"}
    (tmp_path / "prefect.yaml").write_text(yaml.safe_dump(given))
    monkeypatch.setattr(doctor, "ROOT", tmp_path)
    config = doctor._config_of("train/managed")
    assert isinstance(config, ManagedConfig)
    assert config.prefect_api_url == "https://p/api"
    assert "reach" in doctor.checks_of(config)


async def test_a_managed_job_is_not_to_report_to_the_loopback() -> None:
    parameters = {"store": "s3://bucket/runs", "cluster": {"where": "sky"}}
    config = ManagedConfig.model_validate(parameters)
    reach = doctor.checks_of(config)["reach"]
    here = temporary_settings({PREFECT_API_URL: "http://127.0.0.1:4200/api"})
    with here, pytest.raises(ConfigError, match="PREFECT_API_URL is http://127"):
        await reach()


def test_a_store_that_a_rented_machine_cannot_reach_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BACKUP_BUCKET", raising=False)
    monkeypatch.setenv("PRECIS_STORE", "folder")
    said = CliRunner().invoke(cli.app, ["doctor", "train/h100"])
    assert said.exit_code == 2
    assert said.output.startswith("cluster.where is 'sky', but a rented machine can't reach")
