"""`precis train FILE`: whose settings it takes, and what it says before anything is started."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from cli import prefect_server
from cli.agent import agent_config
from cli.deployments import read_deployment
from precis.commands.main import app
from precis.config import TrainConfig
from precis.errors import ConfigError
from precis.settings.environment import (
    CommandSettings,
    PythonSettings,
    ReasoningGymSettings,
    TextArenaSettings,
)
from precis.settings.overrides import lay_over

AGENT = """
def scenarios(split): return [{"id": split}]
def rollout(model, scenario): return 1.0
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "my_agent.py"
    path.write_text(AGENT)
    return str(path)


def test_by_default_it_is_a_rehearsal_named_after_its_file(file: str) -> None:
    config = agent_config(file, {"steps": 5, "seed": 2})
    assert (config.model, config.steps, config.seed) == ("rehearsal-my_agent-seed2", 5, 2)
    assert config.environment == PythonSettings(file=file)
    assert config.trainer.kind == "tool_calls"
    assert agent_config(file, {"model": "mine"}).model == "mine"
    assert agent_config(file, {"store": "runs"}).store == str(Path("runs").resolve())


def test_a_file_may_be_given_by_its_settings(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(file).parent)
    given = "{kind: python, file: my_agent.py, score: ruler, rubric: It is polite.}"
    config = agent_config(given, {})
    assert config.model == "rehearsal-my_agent-seed1"
    assert config.environment == PythonSettings(file=file, score="ruler", rubric="It is polite.")
    with pytest.raises(ValidationError, match="file"):
        agent_config("{kind: python}", {})


def test_a_file_has_the_same_path_however_it_is_spelled(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path / "beside")
    for given in ("../my_agent.py", "{kind: python, file: ../my_agent.py}"):
        assert agent_config(given, {}).environment == PythonSettings(file=file)
    (tmp_path / "beside" / "my_link.py").symlink_to(file)
    linked = PythonSettings(file=str(tmp_path / "beside" / "my_link.py"))
    assert agent_config("my_link.py", {}).environment == linked


@pytest.mark.parametrize(
    ("given", "model", "settings"),
    [
        (
            "{kind: textarena, game: 2048-v0-ultra-easy, size: 8}",
            "rehearsal-2048-v0-ultra-easy-seed1",
            TextArenaSettings(game="2048-v0-ultra-easy", size=8, show_moves=True),
        ),
        (
            '{"kind": "reasoning_gym", "dataset": "countdown", "parameters": {"min_numbers": 3}}',
            "rehearsal-countdown-seed1",
            ReasoningGymSettings(dataset="countdown", parameters={"min_numbers": 3}),
        ),
        (
            "{kind: command, command: [./agent]}",
            "rehearsal-agent-seed1",
            CommandSettings(command=("./agent",)),
        ),
    ],
)
def test_an_environment_of_another_kind_is_given_by_its_settings(
    given: str, model: str, settings: Any
) -> None:
    config = agent_config(given, {})
    assert (config.model, config.environment) == (model, settings)
    assert config.trainer.kind == "tool_calls"


def test_it_takes_the_settings_of_a_deployment_but_those_of_summaries(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_STORE", "s3://bucket")
    given = {"steps": 7, "trainer": {"learning_rate": 1e-4}}
    config = agent_config(file, given, "train/h100")
    assert (config.model, config.steps, config.budget_usd) == ("my_agent", 7, 60)
    assert config.trainer.kind == "art"
    assert config.trainer.base_model == "Qwen/Qwen2.5-3B-Instruct"
    assert config.trainer.learning_rate == 1e-4
    assert config.cluster.where == "sky"
    assert config.second_judge is None
    assert config.judge == TrainConfig(store="s").judge
    nim = "{kind: textarena, game: Nim-v0, size: 8}"
    config = agent_config(nim, {"environment": {"val_size": 9}}, "train/h100")
    assert config.environment == TextArenaSettings(game="Nim-v0", size=8, val_size=9)
    assert config.model == "Nim-v0"


def test_the_model_of_a_deployments_summaries_is_never_an_agents(file: str) -> None:
    _, parameters = read_deployment("train/rehearsal")
    for given in (file, {"kind": "python", "file": file}):
        with pytest.raises(ConfigError, match=r"rehearsal-seed1, is one of summaries.*-p model="):
            lay_over(TrainConfig, parameters, {"environment": given})
    agents = {**parameters, "environment": file}
    assert lay_over(TrainConfig, agents, {"environment": file})["model"] == "rehearsal-seed1"
    judge = {"second_judge": {"provider": "lexical"}}
    own: dict[str, Any] = {**judge, "environment": file}
    with pytest.raises(ValidationError, match="second_judge is a setting of summaries"):
        TrainConfig.model_validate(lay_over(TrainConfig, judge, own))


@pytest.mark.parametrize(
    ("given", "deployment", "said"),
    [
        (None, "train/managed", "train/managed does not train in the flow's own process"),
        (None, "h100", "has no deployment 'h100'"),
        ("{kind: textarena", "", r"is not YAML: expected .*'<stream end>'\. Write it as"),
        ("{game: Nim-v0}", "", "names no kind"),
        ("{}", "", "names no"),
    ],
)
def test_what_is_neither_an_agent_nor_its_deployment_is_refused(
    file: str, given: str | None, deployment: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        agent_config(given or file, {}, deployment)


@pytest.mark.parametrize(
    ("command", "text", "said", "code"),
    [
        ("train", AGENT.replace("[{", "[] and [{"), "gives no scenarios for the split 'train'", 1),
        ("train", None, "can't be read: No such file or directory", 1),
        ("rehearse --environment", None, "can't be read: No such file or directory", 1),
        ("rehearse --documents a.csv --environment", AGENT, "takes the place of --documents", 1),
        ("train -p steps", AGENT, "-p 'steps' is not of the form name=value", 1),
        ("train -p steps=0", AGENT, "steps", 2),
        (
            "train -p trainer.learning_rate=0.1",
            AGENT,
            "within its group. Write -p 'trainer={\"learning_rate\": 0.1}'.",
            1,
        ),
        ("train -p environment=b.py", AGENT, "environment=b.py names another environment than", 1),
        ("train -p config=5", AGENT, "The parameter `config` is 5. Give it an object", 1),
    ],
)
def test_what_can_t_work_gets_a_sentence_before_anything_is_started(
    command: str,
    text: str | None,
    said: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(prefect_server, "find_or_start")
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text)
    done = CliRunner().invoke(app, [*command.split(), str(path)])
    assert done.exit_code == code
    assert said in re.sub(r"\s+", " ", done.output)
    assert "Traceback" not in done.output
