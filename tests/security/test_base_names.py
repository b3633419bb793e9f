"""Whoever writes a store chooses no option, no folder and no other model for the programs that load
a checkpoint here."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from precis.models.record import read_record, record_key
from precis.store import FolderStore
from tests.support.command import run_precis
from tests.support.programs import put_gpu, put_program
from tests.support.tiny_model import BASE, store_with_adapter, write_base

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
    """A `vllm` that only notes its start is on PATH, with a GPU for it; no key and no Hub is
    anybody's."""
    put_gpu(tmp_path / "bin")
    put_program(tmp_path / "bin", "vllm", f"touch {tmp_path / 'vllm.started'}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PRECIS_API_KEY", "the-key")
    monkeypatch.setenv("HF_TOKEN", "hf_token_of_the_test")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.chdir(tmp_path)


def spoiled_store(folder: Path, claimed: str, recorded: str) -> FolderStore:
    """A store whose writer has put these names into the adapter and into the run's record."""
    store = store_with_adapter(folder, base_model_name_or_path=claimed)
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


OTHER = "was trained on owner/tiny, but its adapter names owner/other"
REFUSED = [
    *[(name, BASE, "which is not a model's name", tuple(COMMANDS)) for name in NO_NAMES],
    *[(name, name, "folder", ("serve", "summarize", "merge")) for name in FOLDERS],
    (BASE, BASE, "also a folder here", ("serve", "merge")),
    ("owner/other", BASE, OTHER, tuple(COMMANDS)),
]


@pytest.mark.parametrize(("claimed", "recorded", "said", "commands"), REFUSED)
def test_a_store_names_no_option_no_folder_and_no_other_model(
    claimed: str, recorded: str, said: str, commands: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "runs" / "evil" / "checkpoints").mkdir(parents=True)
    if claimed == BASE:
        write_base(tmp_path / "owner" / "tiny")
    store = spoiled_store(tmp_path, claimed, recorded)
    for command in commands:
        done = try_command(command, store, tmp_path)
        assert said in done.stderr, command
        assert "--base" in done.stderr
        assert "\x1b" not in done.output and "Traceback" not in done.output
        assert not (tmp_path / "vllm.started").exists(), "vLLM was started"
        assert not (tmp_path / "out").exists()


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


@pytest.mark.parametrize("config", [{"r": "8"}, {"r": 0}, {"lora_alpha": []}])
def test_a_configuration_of_other_types_is_told(config: dict[str, Any], tmp_path: Path) -> None:
    done = try_command("serve", store_with_adapter(tmp_path, **config), tmp_path)
    assert "is not the configuration of a LoRA adapter" in done.stderr


def test_a_record_holds_a_models_name_or_counts_for_nothing(tmp_path: Path) -> None:
    assert read_record(spoiled_store(tmp_path, BASE, "owner/other"), "mine") is not None
    assert read_record(spoiled_store(tmp_path / "again", BASE, "--config=x"), "mine") is None
