"""`precis summarize` with a LoRA adapter: a server that is up, or one started for the occasion."""

import json
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from typer.testing import Result

from precis.environments.summaries.prompt import request_in
from precis.errors import ModelError
from precis.inference import local_server
from precis.inference.local_server import serve_model, server_at
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from precis.models.own_servers import Server, announced, own_servers
from precis.models.reference import Reference, find_model
from precis.models.serving import ServerAddress
from precis.processes.child import is_running
from precis.store import FolderStore
from tests.services.patience import wait_until
from tests.support.command import run_precis
from tests.support.local_server import served
from tests.support.programs import put_gpu, put_program, put_vllm
from tests.support.tiny_model import store_with_adapter

MINE = Reference.parse("mine@1")
STORY = Path("story.txt")
TEXT = "The mill was built in 1784 by Thomas Aldery. It closed in 1967."


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither servers nor GPUs nor programs are this machine's, and the current folder has a story;
    gives the folder on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PRECIS_API_KEY", "the-key")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.chdir(tmp_path)
    STORY.write_text(TEXT)
    return tmp_path / "bin"


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return store_with_adapter(tmp_path)


@pytest.fixture
def pids(bare: Path, tmp_path: Path) -> Path:
    """The file in which the stand-in for vLLM names its processes; there is a GPU for it."""
    put_gpu(bare)
    put_vllm(bare, tmp_path / "pids")
    return tmp_path / "pids"


def summarize(*arguments: object, store: FolderStore, code: int = 0) -> Result:
    return run_precis("summarize", *arguments, store=store, code=code)


def started(pids: Path) -> list[int]:
    """The stand-in's processes; none before they are there."""
    text = pids.read_text() if pids.exists() else ""
    return list(json.loads(text)) if text else []


def alive(pids: Path) -> list[int]:
    return [pid for pid in started(pids) if is_running(pid)]


def test_a_server_is_used_for_the_best_checkpoint_that_it_has(store: FolderStore) -> None:
    models = ["owner/tiny", "mine@1", "mine@2"]
    seen: list[ChatRequest] = []

    async def complete(asked: ChatRequest) -> Completion:
        seen.append(asked)
        return Completion(asked.model, [Choice("It was built in 1784.")])

    with served(completions_app(complete, lambda: models, "its-key")) as address:
        server = f"{address}/v1"
        with announced(Server(url=server, key="its-key")):
            done = summarize(STORY, "--model", "mine@best", store=store)
            assert done.stdout == "It was built in 1784.\n"
            told = f"mine@1 is asked of the server at {server}.\nWritten by mine@1.\n"
            assert done.stderr == told
            assert [asked.model for asked in seen] == ["mine@1"]
            assert request_in(seen[0].messages).words_max == 120  # as in training
            summarize(STORY, "--url", server, "--model", "mine@1", store=store)
            assert server_at(f"{server}/") == Server(url=server, key="its-key")
            seen.clear()
            models.remove("mine@1")
            done = summarize(STORY, store=store)
            assert "Written by mine@2 (held-out accuracy 50.0%), the best that can" in done.stderr
            assert [asked.model for asked in seen] == ["mine@2"]
            models[:] = ["owner/tiny", "mine@0"]
            done = summarize(STORY, store=store, code=1)
            assert f"the server at {server} has owner/tiny, mine@0. None can be" in done.stderr
            assert len(seen) == 1


def test_what_does_not_list_its_models_is_passed_over(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def page(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("<html>")(scope, receive, send)

    async def complete(asked: ChatRequest) -> Completion:
        raise AssertionError("Nobody is to be asked for a summary.")

    monkeypatch.setattr(local_server, "_ANSWER_TIMEOUT_S", 60.0)
    with served(page) as url, announced(Server(url=f"{url}/v1", key="its-key")):
        done = summarize(STORY, store=store, code=1)
    assert f"what answers at {url}/v1 lists no models" in done.stderr
    app = completions_app(complete, lambda: ["mine@2"], "its-key")
    with served(app) as url, announced(Server(url=f"{url}/v1", key="another-key")):
        done = summarize(STORY, store=store, code=1)
    assert f"the server at {url}/v1 rejects the key. None can be started" in done.stderr
    assert "another-key" not in done.stderr
    monkeypatch.setattr(local_server, "_ANSWER_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with announced(Server(url=url, key="its-key")):
            done = summarize(STORY, store=store, code=1)
    assert "does not list its models within" in done.stderr


def test_a_stranger_at_our_old_port_is_told_nothing(store: FolderStore, tmp_path: Path) -> None:
    """Whoever listened there got the key of the environment, and the document."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        address = ServerAddress("127.0.0.1", stranger.getsockname()[1])
        done = summarize(STORY, store=store, code=1)
        assert "`precis model serve` runs none here" in done.stderr
        with announced(Server(url=f"http://127.0.0.1:{address.port}/v1", key="its-key")):
            (file,) = (tmp_path / "home" / "servers").iterdir()
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            left = file.read_text()
            assert "its-key" in left and "its-key" not in repr(own_servers())
        assert not file.exists()
        file.write_text(left)  # as one leaves it that was killed
        assert "runs none here" in summarize(STORY, store=store, code=1).stderr
        assert not file.exists()
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()


def test_without_a_server_or_a_gpu_it_says_what_to_do(store: FolderStore, bare: Path) -> None:
    done = summarize(STORY, store=store, code=1)
    assert "None can be started here: vLLM is not on PATH. Start one with" in done.stderr
    assert "`precis model serve mine@1 --run`" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    put_program(bare, "vllm", "exit 1")
    assert "nvidia-smi finds no GPU" in summarize(STORY, store=store, code=1).stderr


def test_vllm_is_started_used_and_stopped(store: FolderStore, pids: Path, tmp_path: Path) -> None:
    done = summarize(STORY, "--json", "--context", 1024, store=store)
    assert json.loads(done.stdout)["model"] == "mine@1"
    assert json.loads(done.stdout)["summary"] == TEXT
    log = tmp_path / "home" / "vllm.log"
    assert done.stderr == (
        f"vLLM is started to serve mine@1, which takes a minute or so; its log is {log}.\n"
        "Written by mine@1 (held-out accuracy 60.0%), the best that can be used here; --model "
        "names another.\n"
    )
    assert alive(pids) == []
    assert "serving mine@1 with 1024 tokens" in log.read_text()
    assert "the-key" not in log.read_text()


def test_vllm_that_fails_says_why(store: FolderStore, pids: Path, bare: Path) -> None:
    put_program(
        bare, "vllm", "echo 'ValueError: Free memory on device cuda:0 is less.' >&2\nexit 1"
    )
    done = summarize(STORY, store=store, code=1)
    started, failed = done.stderr.splitlines()
    assert started.startswith("vLLM is started")
    assert failed.startswith(
        "The server of mine@1 ended before it was up: ValueError: Free memory on device cuda:0 is "
        "less. All that it printed is in "
    )


async def test_vllm_that_does_not_come_up_is_given_up(
    store: FolderStore, pids: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unfit(server: Server, _: str) -> str:
        # The deadline passes meanwhile.
        wait_until(lambda: server.key == "the-key" or len(started(pids)) == 2, "the stand-in")
        return "it never is."

    monkeypatch.setattr(local_server, "_why_unfit", unfit)
    monkeypatch.setattr(local_server, "_START_TIMEOUT_S", 0.1)
    with pytest.raises(ModelError, match="mine@1 was not up after 0 minutes"):
        async with serve_model(find_model(store, MINE), None, print):
            raise AssertionError("it is up")
    assert len(started(pids)) == 2
    assert alive(pids) == []
