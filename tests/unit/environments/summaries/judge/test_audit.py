"""The audit of a judge's verdicts, and the `precis judge` command."""

from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner

from precis.commands.judge import app
from precis.environments.summaries.judge.cache import ReplyCache


def runs(file: Path, arguments: Sequence[str]) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, [*arguments, str(file)])
    return outcome.exit_code, outcome.output


def test_the_cache_command_shows_and_prunes(tmp_path: Path) -> None:
    file = tmp_path / "replies.sqlite"
    with ReplyCache(file) as kept:
        for index in range(10):
            kept.put(f"key-{index}", "reply")
        kept.get("key-1")
    code, said = runs(file, ["cache", "--path"])
    assert code == 0 and "10 replies" in said and "1 hits and 0 misses (100%)" in said
    code, said = runs(file, ["cache", "--prune-to-mb", "0", "--path"])
    assert code == 0 and "10 replies deleted" in said and " 0 replies in" in said


def test_the_cache_command_without_a_cache_says_so(tmp_path: Path) -> None:
    code, said = runs(tmp_path / "none.sqlite", ["cache", "--path"])
    assert code == 0 and "There is no cache at" in said
    assert not (tmp_path / "none.sqlite").exists()


def test_a_damaged_cache_ends_with_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "replies.sqlite"
    file.write_bytes(b"this is no database " * 500)
    code, said = runs(file, ["cache", "--path"])
    assert code == 1 and "Delete it if it is damaged" in said
