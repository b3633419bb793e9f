"""Whoever writes a store chooses no option, no folder and no other model for the programs that load
a checkpoint here."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import Result

from precis.models.record import read_record, record_key
from precis.store import FolderStore
from tests.support.command import run_precis
from tests.support.programs import put_gpu, put_vllm
from tests.support.tiny_model import BASE, put_run, store_with_adapter, write_adapter, write_base

NO_NAMES = [
    "--tool-parser-plugin=/tmp/evil.py",
    "--config=/tmp/evil.yaml",
    "--trust-remote-code",
    "-O3",
    "owner/tiny --trust-remote-code",
    "owner/tiny\n--trust-remote-code",
    "\x1b]0;owner/tiny\x07",
]
FOLDERS = ["/tmp/evil", "../evil", ".", "runs/evil/checkpoints"]
COMMANDS = {
    "serve": ("model", "serve", "mine", "--run"),
    "summarize": ("summarize", "{story}", "--model", "mine"),
    "merge": ("model", "export", "mine", "--format", "merged", "--to", "{out}"),
    "export": ("model", "export", "mine", "--to", "{out}"),
    "push": ("model", "push", "mine", "--repo", "me/mine"),
}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for vLLM is on PATH, with a GPU for it; no key and no Hub is anybody's."""
    put_gpu(tmp_path / "bin")
    put_vllm(tmp_path / "bin", tmp_path / "vllm")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PRECIS_API_KEY", "the-key")
    monkeypatch.setenv("HF_TOKEN", "hf_token_of_the_test")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.chdir(tmp_path)


def spoiled_store(folder: Path, claimed: str | None, recorded: str | None) -> FolderStore:
    """A store whose writer has put these names into the adapter and into the run's record."""
    store = store_with_adapter(folder, base_model_name_or_path=claimed)
    if recorded is None:
        store.delete(record_key("mine"))
    else:
        known = read_record(store, "mine")
        assert known is not None
        spoiled = {**known.model_dump(), "base_model": recorded}
        store.put(record_key("mine"), json.dumps(spoiled).encode())
    return store


def try_command(name: str, store: FolderStore, folder: Path) -> Result:
    (folder / "story.txt").write_text("The mill was built in 1784.")
    places = {"story": folder / "story.txt", "out": folder / "out"}
    arguments = [argument.format(**places) for argument in COMMANDS[name]]
    return run_precis(*arguments, store=store, code=1)


def assert_refused(done: Result, said: str, folder: Path) -> None:
    assert said in done.stderr
    assert "--base" in done.stderr
    assert "\x1b" not in done.output and "Traceback" not in done.output
    assert not (folder / "vllm.argv").exists(), "vLLM was started"
    assert not (folder / "out").exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name_reaches_no_program(name: str, command: str, tmp_path: Path) -> None:
    store = spoiled_store(tmp_path, claimed=name, recorded=BASE)
    assert_refused(try_command(command, store, tmp_path), "which is not a model's name", tmp_path)


@pytest.mark.parametrize("command", ["serve", "summarize", "merge"])
@pytest.mark.parametrize("name", FOLDERS)
def test_a_store_names_no_folder_of_this_machine(name: str, command: str, tmp_path: Path) -> None:
    (tmp_path / "runs" / "evil" / "checkpoints").mkdir(parents=True)
    store = spoiled_store(tmp_path, claimed=name, recorded=name)
    assert_refused(try_command(command, store, tmp_path), "folder", tmp_path)


@pytest.mark.parametrize("command", ["serve", "merge"])
def test_a_folder_that_lies_here_is_not_taken_for_a_name_on_the_hub(
    command: str, tmp_path: Path
) -> None:
    write_base(tmp_path / "owner" / "tiny")
    store = spoiled_store(tmp_path, claimed=BASE, recorded=BASE)
    assert_refused(try_command(command, store, tmp_path), "also a folder here", tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_another_base_than_the_runs_own_is_refused(command: str, tmp_path: Path) -> None:
    store = spoiled_store(tmp_path, claimed="owner/other", recorded=BASE)
    said = "was trained on owner/tiny, but its adapter names owner/other"
    assert_refused(try_command(command, store, tmp_path), said, tmp_path)


def test_the_user_may_name_the_base_of_a_run_that_names_two(tmp_path: Path) -> None:
    store = spoiled_store(tmp_path, claimed="owner/other", recorded=BASE)
    base = tmp_path / "base"
    write_base(base)
    shown = run_precis("model", "serve", "mine", "--base", "base", store=store)
    assert shown.stdout.startswith(f"vllm serve {base} ")
    merged = ("model", "export", "mine", "--format", "merged", "--to", tmp_path / "merged")
    run_precis(*merged, "--base", base, store=store)
    adapter = ("model", "export", "mine", "--to", tmp_path / "adapter-of-mine", "--base", BASE)
    run_precis(*adapter, store=store)
    known = json.loads((tmp_path / "adapter-of-mine" / "adapter_config.json").read_text())
    assert known["base_model_name_or_path"] == BASE
    option = run_precis("model", "serve", "mine", "--base", "--config=x", store=store, code=1)
    assert "--base '--config=x' is neither a folder nor a name" in option.stderr


@pytest.mark.parametrize(
    "config", [{"r": "8"}, {"r": 0}, {"rank_pattern": {"q": "x"}}, {"lora_alpha": []}]
)
def test_a_configuration_of_other_types_is_a_sentence(
    config: dict[str, object], tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "store")
    write_adapter(tmp_path / "adapter")
    written = tmp_path / "adapter" / "adapter_config.json"
    written.write_text(json.dumps({**json.loads(written.read_text()), **config}))
    put_run(store, "mine", tmp_path / "adapter")
    done = try_command("serve", store, tmp_path)
    assert "is not the configuration of a LoRA adapter" in done.stderr


def test_a_record_holds_a_models_name_or_counts_for_nothing(tmp_path: Path) -> None:
    assert read_record(spoiled_store(tmp_path, BASE, "owner/other"), "mine") is not None
    assert read_record(spoiled_store(tmp_path / "again", BASE, "--config=x"), "mine") is None
