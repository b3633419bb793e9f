"""`.env.example` names every variable that Précis reads, with a sentence, and no other."""

import re
import sys
from pathlib import Path

import pytest
from prefect.settings import Settings
from pydantic import AliasChoices
from pydantic_settings import BaseSettings
from typer.testing import CliRunner

from precis.commands.main import app
from precis.environment import S3Environment, Variables, key_variables, private_home
from tests.support.repository import ROOT

EXAMPLE = (ROOT / ".env.example").read_text()


def variables(settings: type[BaseSettings]) -> list[set[str]]:
    """For each setting, the names that it may be given under."""
    found = []
    for name, field in settings.model_fields.items():
        alias = field.validation_alias
        if isinstance(alias, AliasChoices):
            found.append({str(choice) for choice in alias.choices})
        else:
            found.append({str(alias or name.upper())})
    return found


def test_every_variable_is_in_the_example_once_with_a_sentence_and_no_other_is() -> None:
    listed = re.findall(r"^# \S.+\n(?:# )?([A-Z0-9_]+)=$", EXAMPLE, re.MULTILINE)
    read = [*variables(Variables), *variables(S3Environment)]
    assert len(listed) == len(set(listed)) == len(read)
    for names in read:
        assert len(names & set(listed)) == 1, names


def test_the_example_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads `.env` itself; an empty address of its database keeps its server from starting."""
    monkeypatch.chdir(tmp_path)
    without = Settings().model_dump()
    (tmp_path / ".env").write_text(EXAMPLE)
    assert Settings().model_dump() == without


def test_a_key_that_is_set_is_not_looked_for_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "here")
    assert key_variables()["GEMINI_API_KEY"] is not None
    assert key_variables()["JUDGE_API_KEY"] is None
    assert {"GEMINI_API_KEY", "AWS_SECRET_ACCESS_KEY"} <= set(key_variables())
    of_a_server = [name for name in key_variables() if "PREFECT" in name or "NOTIFY" in name]
    assert not of_a_server


@pytest.mark.parametrize("command", [["judge", "cache"], ["doctor", "train/rehearsal"]])
@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"WANDB_API_KEY=caf\xe9\n", 1, "The file .env can't be read: it is not UTF-8."),
        (b'# W&B\nWANDB_API_KEY="k\n', 1, "The file .env can't be read: line 2 is not NAME=value"),
        (b"TRAIN_SIZE=many\n", 2, "train_size: Input should be a valid integer"),
    ],
)
def test_a_mistake_in_the_file_of_variables_is_said_in_a_sentence(
    command: list[str],
    content: bytes,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(Variables.model_config, "env_file", ".env")
    monkeypatch.setitem(sys.modules, "cli.doctor", None)  # its Prefect would read the file first
    (tmp_path / ".env").write_bytes(content)
    done = CliRunner().invoke(app, command)
    assert done.exit_code == code and said in done.output, done.output


def test_a_home_below_the_users_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PRECIS_HOME", "~/precis")
    assert private_home() == tmp_path / "precis"
