"""What `precis rehearse` and `precis train FILE` make of their arguments, what they say before
anything is started, and what while they work."""

import asyncio
import io
import logging
import re
import shlex
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from prefect.utilities import engine
from pydantic import ValidationError
from rich.console import Console
from rich.progress import Progress
from typer.testing import CliRunner

from cli import prefect_server, rehearsal
from cli.agent import agent_config
from cli.deployments import read_deployment
from cli.rehearsal import next_steps, rehearsal_config
from precis.commands.main import app
from precis.config import BenchmarkConfig, DocumentsConfig, TrainConfig
from precis.environments.summaries.judge import cache
from precis.errors import ConfigError, LeaseHeld
from precis.processes.signals import cancel_on_sigterm
from precis.runs.lease import leased
from precis.settings.environment import (
    CommandSettings,
    PythonSettings,
    ReasoningGymSettings,
    TextArenaSettings,
)
from precis.settings.overrides import lay_over
from precis.store import FolderStore
from tests.support.corpora import rows, write_jsonl

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


def test_a_file_has_the_same_path_however_it_is_given(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path / "beside")
    assert agent_config("../my_agent.py", {}).environment == PythonSettings(file=file)
    given = "{kind: python, file: ../my_agent.py, score: ruler, rubric: It is polite.}"
    config = agent_config(given, {})
    assert config.model == "rehearsal-my_agent-seed1"
    assert config.environment == PythonSettings(file=file, score="ruler", rubric="It is polite.")
    given = "{kind: command, command: [python, -u, ../my_agent.py], scenarios: a.jsonl}"
    command = agent_config(given, {})
    assert command.model == "rehearsal-my_agent-seed1"
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
            "{kind: command, command: [./agent], scenarios: tasks.jsonl}",
            "rehearsal-agent-seed1",
            CommandSettings(command=("./agent",), scenarios="tasks.jsonl"),
        ),
    ],
)
def test_other_environments_are_given_by_settings(given: str, model: str, settings: Any) -> None:
    config = agent_config(given, {})
    assert (config.model, config.environment) == (model, settings)
    assert config.trainer.kind == "tool_calls"


def test_it_takes_a_deployments_settings(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    ("command", "said", "code"),
    [
        ("train idle.py", "gives no scenarios for the split 'train'", 1),
        ("train no.py", "no.py is not there", 1),
        ("rehearse --documents no.csv", "no.csv is neither a file or folder here", 1),
        ("rehearse --environment no.py", "no.py is not there", 1),
        ("rehearse --documents a.csv --environment FILE", "takes the place of --documents", 1),
        ("train FILE -p steps", "-p 'steps' is not of the form name=value", 1),
        ("train FILE -p steps=0", "steps: Input should be greater than or equal to 1", 2),
        (
            "train FILE -p trainer.learning_rate=0.1",
            "within its group. Write -p 'trainer={\"learning_rate\": 0.1}'.",
            1,
        ),
        ("train FILE -p environment=b.py", "environment=b.py names another environment than", 1),
        ("train FILE -p config=5", "The parameter `config` is 5. Give it an object", 1),
        ("train FILE --deployment train/managed", "does not train in the flow's own process", 1),
        ("train FILE --deployment h100", "has no deployment 'h100'", 1),
        ("train '{kind: 2020-13-45}'", "is not YAML: month must be in 1", 1),
        ("train '{kind: textarena'", "but got '<stream end>'. Write it as {kind: textarena,", 1),
        ("train '{kind: python}'", "environment.file: Field required", 2),
        ("train '{game: Nim-v0}'", "environment: its `kind` is missing", 2),
        ("train '{}'", "environment: its `kind` is missing", 2),
    ],
)
def test_what_can_t_work_gets_a_sentence_before_anything_is_started(
    command: str, said: str, code: int, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(prefect_server, "find_or_start")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "idle.py").write_text(AGENT.replace("[{", "[] and [{"))
    done = CliRunner().invoke(app, shlex.split(command.replace("FILE", file)))
    assert done.exit_code == code
    assert said in re.sub(r"\s+", " ", done.output)
    assert "Traceback" not in done.output


def test_a_sixth_is_held_out_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = write_jsonl(tmp_path / "own.jsonl", rows(12))

    def sizes() -> tuple[int | None, int | None]:
        given = rehearsal_config(30, str(documents), 1, str(tmp_path / "store")).documents
        return given.train_size, given.val_size

    assert sizes() == (10, 2)
    monkeypatch.setenv("VAL_SIZE", "5")
    assert sizes() == (7, 5)
    monkeypatch.setenv("TRAIN_SIZE", "3")
    assert sizes() == (3, 5)


def test_each_rehearsal_leads_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PRECIS_STORE", str(tmp_path / "store"))
    found = prefect_server.PrefectServer("", ours=False)
    bundled = rehearsal_config(30, "bundled", 1, str(tmp_path / "store"))
    assert bundled.model == "rehearsal-seed1"
    assert rehearsal_config(30, "bundled", 1, "store", model="another").model == "another"
    assert list(next_steps(bundled, found)) == [
        ".venv/bin/precis summarize report.pdf",
        "make rehearse DOCUMENTS=my-documents/",
    ]
    elsewhere = str(tmp_path / "my store")
    own = bundled.model_copy(
        update={"documents": DocumentsConfig(source="own.csv"), "store": elsewhere}
    )
    assert list(next_steps(own, found)) == [
        f".venv/bin/precis summarize report.pdf --store '{elsewhere}'",
        "make rehearse ENVIRONMENT=examples/tic_tac_toe.py",
        ".venv/bin/precis doctor train/h100",
    ]
    agent = TrainConfig.model_validate(
        {"trainer": {"kind": "tool_calls"}, "environment": "my agent.py", "store": bundled.store}
    )
    assert list(next_steps(agent, prefect_server.PrefectServer("", ours=True))) == [
        ".venv/bin/precis play 'my agent.py'",
        ".venv/bin/precis doctor train/h100",
        ".venv/bin/precis stop",
    ]


async def test_to_begin_afresh_takes_nothing_from_a_run_at_work(tmp_path: Path) -> None:
    config = rehearsal_config(1, "bundled", 1, str(tmp_path / "store"))
    store = FolderStore(tmp_path / "store")
    key = f"{config.model}/ledger.json"
    async with leased(store, config.model, "another"):
        store.put(key, b"{}")
        with pytest.raises(LeaseHeld, match="the run another"):
            rehearsal.forget(config)
        assert store.get(key) is not None
        rehearsal.forget(config.model_copy(update={"take_over": True}))
        assert store.get(key) is None
    store.put(key, b"{}")
    rehearsal.forget(config)
    assert store.get(key) is None


@pytest.mark.parametrize("block", [nullcontext, cancel_on_sigterm])
def test_sigterm_ends_a_rehearsal_as_ctrl_c_does_where_prefect_would_raise(
    block: Callable[[], AbstractContextManager[None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_prefect_sigterm_handler", engine._prefect_sigterm_handler)
    monkeypatch.setattr(rehearsal, "_leave", lambda *_: None)
    config = rehearsal_config(1, "bundled", 1, str(tmp_path / "store"))
    server = prefect_server.PrefectServer("", ours=False)
    ends: list[str] = []

    async def train(**settings: Any) -> None:
        with engine.capture_sigterm():
            try:
                with block():
                    asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
                    await asyncio.sleep(60)
            finally:
                for _ in range(10):
                    await asyncio.sleep(0)
                ends.append("in order")

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a script's background job
    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(rehearsal._watch(train, config, server, Progress()))
    finally:
        signal.signal(signal.SIGINT, before)
    assert ends == ["in order"]


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_that_does_not_fit_into_64_bits_is_refused(seed: int) -> None:
    said = CliRunner().invoke(app, ["rehearse", f"--seed={seed}"])
    assert said.exit_code == 2
    assert "--seed" in said.output and "equal to" in said.output
    for config in (TrainConfig, BenchmarkConfig, DocumentsConfig):
        with pytest.raises(ValidationError, match="seed"):
            config.model_validate({"seed": seed})


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("logger", ["prefect.flow_runs", "prefect.task_runs"])
def test_a_run_s_steps_and_what_it_warns_of_and_waits_for_are_shown(
    logger: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Prefect's own handler sends to a server, which no flow has here.
    monkeypatch.setattr(logging.getLogger(logger), "handlers", [])
    logging.getLogger(logger).setLevel(logging.INFO)
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=200, markup=False)

    def log(level: int, file: str, sentence: str, logged_by: str = "") -> None:
        record = logging.LogRecord(logger, level, file, 1, sentence, None, None)
        if logged_by:
            record.logged_by = logged_by
        logging.getLogger(logger).handle(record)

    def bar_of() -> str:
        with console.capture() as shown:
            console.print(bar)
        return shown.get()

    with rehearsal._shown(console, 3) as bar:
        log(logging.WARNING, "precis/training/preflight.py", "The judge reads [40%] of it.")
        log(logging.INFO, "precis/training/preflight.py", "All is well.")
        log(logging.WARNING, "tasks/policy.py", "It is tried again.")
        said = "The judge has answered no request for 10 s."
        log(logging.WARNING, "tasks/states.py", said, "precis.llm.silence")
        log(logging.WARNING, "tasks/states.py", "Its reward flatters it.", "precis.benchmark.run")
        log(logging.WARNING, "tasks/states.py", "W&B has ended.", "precis.observe.wandb")
        log(logging.WARNING, "tasks/states.py", "Replies are asked for again.", cache.__name__)
        for step in (1, 2, 3):
            figures = f"step {step} of 3, reward 0.50, held-out [won] games [/] 25.0%"
            log(logging.INFO, "tasks/states.py", figures, "precis.training.loop")
        if is_terminal:
            assert "3/3" in bar_of() and "reward 0.50, held-out [won] games [/]" in bar_of()
        monkeypatch.setattr(rehearsal, "_LINE_S", 0.0)
        log(logging.INFO, "tasks/states.py", "Measured trained@3.", "precis.training.serving")
        if is_terminal:
            assert "benchmarking" in bar_of()
        log(logging.WARNING, "tasks/states.py", "This is printed in the end.")
    log(logging.WARNING, "precis/training/preflight.py", "Nobody listens any more.")
    assert isinstance(console.file, io.StringIO)
    if not is_terminal:
        assert console.file.getvalue().splitlines() == [
            "The judge reads [40%] of it.",
            "It is tried again.",
            "The judge has answered no request for 10 s.",
            "Its reward flatters it.",
            "W&B has ended.",
            "Replies are asked for again.",
            "step 1 of 3, reward 0.50, held-out [won] games [/] 25.0%",
            "step 3 of 3, reward 0.50, held-out [won] games [/] 25.0%",
            "Measured trained@3.",
        ]
