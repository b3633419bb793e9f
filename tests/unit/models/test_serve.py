"""Serving: which checkpoint, by which command of vLLM, and the embedded policy behind its key."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import Result

from precis.benchmark.lineup import line_up_trained
from precis.config import BenchmarkConfig, TrainConfig
from precis.environments.summaries.prompt import summary_messages
from precis.models.record import training_record
from precis.models.reference import Reference, find_model
from precis.processes.child import free_port, is_running
from precis.records.ledger import ledger_key, load_ledger, write_ledger
from precis.store import FolderStore
from tests.services.patience import patience_s, wait_until
from tests.support.command import run_precis
from tests.support.corpora import corpus
from tests.support.environments import summaries
from tests.support.programs import put_vllm
from tests.support.runs import train_policy
from tests.support.tiny_model import AN_AGENT, AS_TRAINED, put_run, store_with_adapter, write_base

TOOLS = ["--enable-auto-tool-choice", "--tool-call-parser", "llama3_json"]
NO_THINKING = {**AS_TRAINED, "enable_thinking": False}
THE_KEY = {"Authorization": "Bearer the-key"}
PRECIS = str(Path(sys.executable).with_name("precis"))


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return store_with_adapter(tmp_path, rank=12)


def serve(*arguments: object, store: FolderStore, **options: Any) -> Result:
    return run_precis("model", "serve", *arguments, store=store, COLUMNS="400", **options)


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which the stand-in for vLLM names its processes."""
    put_vllm(tmp_path / "bin", tmp_path / "vllm")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return tmp_path / "vllm"


def words_in(shown: str) -> list[str]:
    """A command as a shell reads it, which goes on where a line ends in a backslash."""
    return shlex.split(shown.replace("\\\n", ""))


def test_an_adapter_is_served_beside_its_base(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = serve("mine@best", store=store)
    command = words_in(done.stdout)
    folder = Path(command[-1].partition("=")[2])
    assert command == [
        *("vllm", "serve", "owner/tiny", "--max-model-len", "2048"),
        *("--generation-config", "vllm"),
        *("--host", "127.0.0.1", "--port", "8000"),
        *("--enable-lora", "--max-lora-rank", "16", "--lora-modules", f"mine@1={folder}"),
    ]
    assert {file.name for file in folder.iterdir()} == {
        *("adapter_config.json", "adapter_model.safetensors", "prompt.json")
    }
    assert "--url http://127.0.0.1:8000/v1 --model mine@1" in done.stderr
    (tmp_path / "adapter" / "adapter_model.safetensors").write_bytes(b"trained anew")
    put_run(store, "mine", tmp_path / "adapter")
    anew = Path(words_in(serve("mine@1", store=store).stdout)[-1][7:])
    assert (anew / "adapter_model.safetensors").read_bytes() == b"trained anew"
    again = serve("mine@1", "--base", "/models/tiny", store=store)
    assert words_in(again.stdout)[2] == "/models/tiny"
    unset = serve("mine@1", "--host", "", store=store)
    assert "--url http://127.0.0.1:8000/v1 " in unset.stderr, "it would listen at all addresses"
    at_ipv6 = serve("mine@1", "--host", "::1", store=store)
    assert "--url http://[::1]:8000/v1 " in at_ipv6.stderr
    # The command holds wherever it is pasted.
    monkeypatch.chdir(tmp_path)
    shown = words_in(serve("mine@1", store=store, PRECIS_HOME="relative").stdout)
    folder = Path(shown[-1].partition("=")[2])
    assert folder.is_absolute() and folder.is_dir()
    assert (tmp_path / "relative").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("record", "options", "last"),
    [
        (AS_TRAINED, (), ["--served-model-name", "mine@2"]),
        (AS_TRAINED, ("--dtype", "float32"), ["--dtype", "float32"]),
        (AN_AGENT, (), TOOLS),
        (NO_THINKING, (), ["--default-chat-template-kwargs", '{"enable_thinking": false}']),
    ],
)
def test_merged_weights_are_served_from_their_folder_as_they_are(
    record: Any, options: tuple[str, ...], last: list[str], tmp_path: Path
) -> None:
    store = store_with_adapter(tmp_path, record)
    write_base(tmp_path / "base")
    merged = tmp_path / "merged"
    asked = ("mine", "--format", "merged", "--base", tmp_path / "base", "--to", merged)
    run_precis("model", "export", *asked, *options, store=store)
    shown = words_in(serve(merged, store=store).stdout)
    assert shown[:3] == ["vllm", "serve", str(merged)]
    assert shown[-len(last) :] == last
    # A base of 32 bits, as newer transformers write it.
    (merged / "config.json").write_text('{"dtype": "float32"}')
    assert words_in(serve(merged, store=store).stdout)[-2:] == ["--dtype", "float32"]


def test_an_agent_is_served_with_the_tool_calls_of_its_training(tmp_path: Path) -> None:
    done = serve("mine", store=store_with_adapter(tmp_path, AN_AGENT))
    *_, modules, auto, option, parser = words_in(done.stdout)
    assert [auto, option, parser] == TOOLS
    assert "precis play AGENT.py --url http://127.0.0.1:8000/v1 --model mine@2" in done.stderr
    prompt = json.loads(Path(modules.partition("=")[2], "prompt.json").read_text())
    assert set(prompt) == {"environment", "tool_call_parser", "temperature"}


def test_an_unreadable_folder_is_refused(store: FolderStore, tmp_path: Path) -> None:
    assert "is too long" in serve("x" * 300, store=store, code=1).stderr
    for name in ("config.json", "prompt.json", "verification.json"):
        (tmp_path / name).write_text("[]")
    assert "is not a model's folder" in serve(tmp_path, store=store, code=1).stderr


def test_a_home_that_can_not_be_written_is_named(store: FolderStore, home: Path) -> None:
    home.mkdir()
    (home / "models").touch()
    done = serve("mine", store=store, code=1)
    assert done.stderr.startswith(f"Can't use {home}/models: ")
    assert "or choose another place (PRECIS_HOME for .precis)" in done.stderr


@contextmanager
def started(
    store: FolderStore, name: str, port: int
) -> Iterator[tuple["subprocess.Popen[bytes]", httpx.Client]]:
    """`precis model serve --run` as a process that is up, with who asks it; it has ended with the
    block, and says no key."""
    env = {**os.environ, "PRECIS_API_KEY": "the-key"}
    command = [PRECIS, "model", "serve", name, "--run", "--port", str(port), "--store", store.url]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def answers() -> bool:
        assert process.poll() is None, "it has ended"
        try:
            return http.get("/models", headers=THE_KEY).is_success
        except httpx.TransportError:
            return False

    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/v1", timeout=patience_s()) as http:
            wait_until(answers, "an answer of the server")
            yield process, http
    finally:
        process.terminate()
        said = b"".join(process.communicate(timeout=patience_s()))
        assert b"Traceback" not in said
        assert b"the-key" not in said


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_vllm_is_started_found_by_summarize_and_ended(
    sent: signal.Signals, store: FolderStore, vllm: Path, home: Path, tmp_path: Path
) -> None:
    port = free_port()
    with started(store, "mine@1", port) as (process, _):
        *before, modules = json.loads(Path(f"{vllm}.argv").read_text())
        assert before == [
            *("serve", "owner/tiny", "--max-model-len", "2048"),
            *("--generation-config", "vllm"),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--enable-lora", "--max-lora-rank", "16", "--lora-modules"),
        ]
        assert modules.startswith(f"mine@1={home}/models/")
        (tmp_path / "story.txt").write_text("It was built in 1784.")
        asked = ("summarize", tmp_path / "story.txt", "--model", "mine@1")
        key = "a-key-for-another-server"
        done = run_precis(*asked, store=store, PRECIS_API_KEY=key)
        assert done.stdout == "It was built in 1784.\n", done.stderr
        process.send_signal(sent)
        process.wait(patience_s())
    pids = json.loads(vllm.read_text())
    wait_until(lambda: not any(map(is_running, pids)), "the end of vLLM's processes")
    left = list((home / "servers").iterdir())
    assert len(left) == (sent is signal.SIGKILL)
    after = run_precis(*asked, store=store, code=1, PATH="", PRECIS_API_KEY=key)
    assert "runs none here" in after.stderr
    assert not list((home / "servers").iterdir())


def test_vllm_starts_at_no_port_in_use(store: FolderStore, vllm: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = serve("mine", "--run", "--port", port, store=store, code=1)
    assert f"Can't listen at 127.0.0.1:{port}" in done.stderr
    assert "key" not in done.stderr
    assert not vllm.exists()
    path = str(tmp_path / "nothing")
    done = serve("mine", "--run", store=store, PATH=path, code=1)
    assert "vLLM is not on PATH" in done.stderr
    assert "key" not in done.stderr


def test_the_policy_answers_behind_its_key(home: Path, tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "policies")
    train_policy(store, "small", tmp_path / "trainer")
    port = free_port()
    with started(store, "small@1", port) as (_, http):
        listed = http.get("/models", headers=THE_KEY).json()["data"]
        assert [one["id"] for one in listed] == ["small@1"]
        asked = {"model": "small", "messages": summary_messages("It was built in 1784.", 20)}
        assert http.post("/chat/completions", json=asked).status_code == 401
        answer = http.post("/chat/completions", json=asked, headers=THE_KEY).json()
        assert answer["model"] == "small@1"
        assert answer["choices"][0]["message"]["content"] == "It was built in 1784."
        taken = serve(*("small", "--run", "--port", port), store=store, code=1)
        assert f"Can't listen at 127.0.0.1:{port}" in taken.stderr
        assert "key" not in taken.stderr
        assert len(list((home / "servers").iterdir())) == 1
    assert not list((home / "servers").iterdir())


@pytest.mark.parametrize("stopped_early", [None, 2])
def test_without_a_step_the_last_one_is_served(stopped_early: int | None, tmp_path: Path) -> None:
    """Of a run of two steps whose best checkpoint is step 1."""
    store = store_with_adapter(tmp_path)
    present = store.get(ledger_key("mine"))
    assert present is not None
    changes = {"stopped_early": stopped_early, "corpus": corpus().digest}
    ledger = load_ledger(store, "mine").model_copy(update=changes)
    write_ledger(store, ledger, present.version)
    steps = {"mine": 1 if stopped_early else 2, "mine@best": 1}
    assert {name: find_model(store, Reference.parse(name)).step for name in steps} == steps
    config = BenchmarkConfig(model="mine", store=store.url)
    lineup = line_up_trained(store, config, summaries(corpus(), judge=None), print)
    assert lineup is not None
    assert lineup.steps == ((0, 1) if stopped_early else (0, 1, 2))
    store.delete("mine/checkpoints/0001/")
    assert find_model(store, Reference.parse("mine@best")).step == 2, "the best of those left"


@pytest.mark.parametrize(
    ("trainer", "tokens_max", "enable_thinking"),
    [
        ({"kind": "extractive"}, None, None),
        ({"kind": "art", "engine": {"tokens_max": 2048}}, 2048, None),
        ({"kind": "tinker", "tokens_max": 16384}, 16384, False),
    ],
)
def test_the_record_says_how_much_the_model_read_at_once_and_whether_it_thought(
    trainer: dict[str, Any], tokens_max: int | None, enable_thinking: bool | None
) -> None:
    """`precis model serve` serves it so, and with 4096 tokens where nothing is said."""
    config = TrainConfig.model_validate({"store": "s", "trainer": trainer})
    record = training_record(config, "a-judge")
    assert (record.tokens_max, record.enable_thinking) == (tokens_max, enable_thinking)
