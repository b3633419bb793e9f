"""A file that is made to do harm costs itself: the others are read, and nothing else happens."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from precis.errors import DocumentsError
from precis.inference import texts
from precis.inference.reader import FileReader, ReadLimits
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from precis.processes.child import is_running
from precis.store import FolderStore
from tests.support.command import run_precis
from tests.support.files import pdf, word_file
from tests.support.local_server import served
from tests.support.runs import train_policy

STORY = "The mill was built in 1784 by Thomas Aldery."
PARAGRAPH = "<w:p><w:r><w:t>It was built.</w:t></w:r></w:p>"
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b5m\x00"


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    return path


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    found = FolderStore(tmp_path / "store")
    train_policy(found, "mine", tmp_path / "trainer")
    return found


def summarize(*arguments: object, store: FolderStore, code: int = 0) -> Result:
    return run_precis("summarize", *arguments, store=store, code=code)


SHORT = ReadLimits(cpu_s=0.6, cpu_s_per_mb=0.0, patience=100.0)
NARROW = ReadLimits(cpu_s=100.0, memory_bytes=150 * 2**20)
SMALL = ReadLimits(file_bytes=len(STORY))


@pytest.mark.parametrize(
    ("name", "content", "limits", "said"),
    [
        ("bomb.docx", lambda: word_file(PARAGRAPH * 150_000), NARROW, "takes more than 0.1 GB"),
        ("slow.pdf", lambda: pdf(["It was built."], times=200_000), SHORT, "takes more than 1 s"),
        ("large.txt", lambda: b"It was built. " * 400_000, ReadLimits(), "where 5,000,000"),
        ("large.txt", lambda: STORY.encode() + b"!", SMALL, "is larger than 4.4e-05 MB"),
    ],
)
async def test_a_file_that_takes_too_much_is_given_up_and_the_next_one_is_read(
    tmp_path: Path,
    story: Path,
    name: str,
    content: Callable[[], bytes],
    limits: ReadLimits,
    said: str,
) -> None:
    (tmp_path / name).write_bytes(content())
    async with FileReader(limits) as reader:
        assert (await reader.read(story)).text == STORY
        with pytest.raises(DocumentsError, match=said) as raised:
            await reader.read(tmp_path / name)
        assert "\n" not in str(raised.value)
        assert (await reader.read(story)).text == STORY


def test_a_text_may_have_as_many_characters_as_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_CHARACTERS_MAX", len(STORY))
    assert texts.read_content("a.txt", ".txt", STORY.encode()).text == STORY
    with pytest.raises(DocumentsError, match="holds 45 characters, where 44 can be read"):
        texts.read_content("a.txt", ".txt", f"{STORY}!".encode())


async def test_a_process_that_stands_still_costs_one_file(story: Path) -> None:
    async with FileReader() as reader:
        await reader.read(story)
        reader._limits = ReadLimits(cpu_s=1.0, patience=1.0)
        first = reader_of(reader)
        os.kill(first, signal.SIGSTOP)
        with pytest.raises(DocumentsError, match="takes more than 1 s"):
            await reader.read(story)
        reader._limits = ReadLimits()
        assert (await reader.read(story)).text == STORY
        assert reader_of(reader) != first and not is_running(first)


async def test_one_process_reads_a_folder_and_knows_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-v1-0123456789")
    async with FileReader() as reader:
        seen = set()
        for number in range(30):
            path = tmp_path / f"{number}.md"
            path.write_text(f"Mill {number} was built.")
            assert (await reader.read(path)).text == f"Mill {number} was built."
            seen.add(reader_of(reader))
        (pid,) = seen
        assert b"sk-or-v1" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert not is_running(pid)


def reader_of(reader: FileReader) -> int:
    process = reader._process._process
    assert process is not None
    return process.pid


def test_a_folder_goes_on_after_files_meant_to_do_harm(store: FolderStore, story: Path) -> None:
    folder = story.parent / "folder"
    folder.mkdir()
    (folder / "a.html").write_text("<b>" * 20_000)
    (folder / "b.docx").write_bytes(b"PK\x03\x04")
    (folder / "c.pdf").write_bytes(b"%PDF-")
    (folder / f"d{ESCAPES[:-1]}.md").write_text(ESCAPES)
    (folder / "e.txt").write_text(STORY)
    done = summarize(folder, store=store, code=1)
    named = [line for line in done.stderr.splitlines() if str(folder) in line]
    assert len(named) == 4
    assert "Traceback" not in done.stderr
    assert f"# {folder / 'e.txt'}\n" in done.stdout and STORY in done.stdout
    assert not set("\x1b\x9b\x07") & set(done.output)


def test_what_a_server_says_to_the_terminal_is_filtered(store: FolderStore, story: Path) -> None:
    async def complete(_: ChatRequest) -> Completion:
        return Completion("m", [Choice(f"{ESCAPES}The mill\x1b[0m closed.")])

    with served(completions_app(complete, lambda: ["m"])) as url:
        asked = (story, "--url", f"{url}/v1")
        assert summarize(*asked, store=store).stdout == "The mill closed.\n"
        as_json = summarize(*asked, "--json", store=store)
    assert json.loads(as_json.stdout)["summary"] == "The mill closed."
