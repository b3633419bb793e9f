"""Agents after their training: exported, served with tool calling on, and described as agents."""

import json
from pathlib import Path

import pytest

from precis.models.card import base_of, card_of
from precis.models.export import write_modelfile
from precis.models.record import read_record, write_record
from precis.models.reference import Reference, find_model
from precis.models.serving import DEFAULT_ADDRESS, command_for_merged
from precis.store import FolderStore
from tests.support.command import run_precis
from tests.support.tiny_model import store_with_adapter, write_base

TOOLS = ["--enable-auto-tool-choice", "--tool-call-parser", "llama3_json"]


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """The run `mine` of an adapter that plays a game."""
    store = store_with_adapter(tmp_path)
    known = read_record(store, "mine")
    assert known is not None
    changes = {
        "environment": "python",
        "tool_call_parser": "llama3_json",
        "documents": "tic_tac_toe.py",
        "documents_split": "",
        "judge": "",
    }
    write_record(store, "mine", known.model_copy(update=changes))
    return store


def test_an_adapter_is_served_with_the_calls_of_tools_that_it_was_trained_with(
    store: FolderStore,
) -> None:
    done = run_precis("model", "serve", "mine", store=store)
    assert "--enable-auto-tool-choice" in done.stdout
    assert "--tool-call-parser llama3_json" in done.stdout
    assert "precis play AGENT.py --url http://127.0.0.1:8000/v1 --model mine@2" in done.stderr


def test_merged_weights_are_served_with_tools_too(store: FolderStore, tmp_path: Path) -> None:
    write_base(tmp_path / "base")
    merged = tmp_path / "merged"
    options = ("--format", "merged", "--base", tmp_path / "base", "--to", merged)
    run_precis("model", "export", "mine", *options, store=store)
    command = command_for_merged("mine@2", merged, 2048, DEFAULT_ADDRESS)
    assert [one for one in command if one in TOOLS] == TOOLS
    prompt = json.loads((merged / "prompt.json").read_text())
    assert set(prompt) == {"environment", "tool_call_parser", "temperature"}


def test_its_card_and_its_file_for_ollama_speak_of_no_summaries(
    store: FolderStore, tmp_path: Path
) -> None:
    agent = find_model(store, Reference("mine"))
    for file_format in ("adapter", "merged", "gguf"):
        card = card_of(agent, base_of(agent), file_format, "me/player", None)
        assert "tic_tac_toe.py" in card and "precis play AGENT.py" in card
        for word in ("ummar", "document", "judge"):
            assert word not in card, word
    write_modelfile(tmp_path, "mine.gguf", read_record(store, "mine"))
    assert "SYSTEM" not in (tmp_path / "Modelfile").read_text()
