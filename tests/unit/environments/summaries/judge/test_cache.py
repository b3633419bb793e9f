"""The cache of replies: shared by processes, killed at any moment, bounded; and its command."""

import logging
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from precis.commands.judge import app
from precis.environments.summaries.judge import cache as module
from precis.environments.summaries.judge.cache import CACHE_FILE, ReplyCache

_WRITER = """
import sys
from itertools import count
from pathlib import Path
from precis.environments.summaries.judge.cache import ReplyCache
with ReplyCache(Path(sys.argv[1])) as cache:
    for number in count():
        cache.put(f"theirs-{number}", "reply " * 40)
        print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "_BUSY_S", 60.0)  # a busy machine may write slowly
    return tmp_path / "judge" / "replies.sqlite"


def test_a_full_cache_stays_within_its_bound_and_drops_the_least_recently_used(path: Path) -> None:
    now = [1_000_000.0]
    with ReplyCache(path, bytes_max=400_000, clock=lambda: now[0]) as cache:
        cache.put("read again and again", "x" * 500)
        for index in range(2000):
            now[0] += 60
            cache.put(f"key-{index}", "x" * 500)
            assert cache.get("read again and again") is not None
        entries, size = cache.stats()
        assert size <= 400_000 and entries > 300
        assert cache.get("key-0") is None and cache.get("key-1999") is not None


def test_pruning_deletes_what_is_old_and_shrinks_the_file(path: Path) -> None:
    now = [1_000_000.0]
    with ReplyCache(path, clock=lambda: now[0]) as cache:
        for index in range(200):
            now[0] += 60
            cache.put(f"key-{index}", "x" * 4000)
        before = path.stat().st_size + path.with_name(path.name + "-wal").stat().st_size
        assert cache.prune(60_000) > 150
        assert cache.get("key-199") is not None
        assert path.stat().st_size < before / 10


def test_a_broken_cache_says_so_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database " * 500)
    with caplog.at_level(logging.WARNING), ReplyCache(path) as cache:
        cache.put("key", "reply")
        assert [cache.get("other") for _ in range(3)] == [None] * 3
    assert len(caplog.records) == 1
    assert "replies.sqlite can't be used" in caplog.text and "Delete the file" in caplog.text


def test_processes_share_a_cache_without_loss_even_killed_ones(path: Path) -> None:
    command = [sys.executable, "-c", _WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "0\n"
        with ReplyCache(path) as cache:
            for number in range(400):
                cache.put(f"ours-{number}", "reply " * 40)
                if number % 100 == 0:
                    # Ours alone can take every turn at the lock of a busy disk.
                    assert other.stdout.readline()
        other.kill()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with ReplyCache(path) as cache:
        assert all(cache.get(f"ours-{number}") for number in range(400))
        assert cache.get("theirs-0")


def runs(home: Path, *options: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, ["cache", *options], env={"PRECIS_HOME": str(home)})
    return outcome.exit_code, outcome.output


def test_the_cache_command_shows_and_prunes(tmp_path: Path) -> None:
    with ReplyCache(tmp_path / CACHE_FILE) as kept:
        for index in range(10):
            kept.put(f"key-{index}", "reply")
    code, said = runs(tmp_path)
    assert code == 0 and "10 replies in 0.0 MiB" in said
    code, said = runs(tmp_path, "--prune-to-mb", "inf")
    assert code == 0 and "0 replies deleted" in said
    code, said = runs(tmp_path, "--prune-to-mb", "0")
    assert code == 0 and "10 replies deleted" in said and " 0 replies in" in said


def test_the_cache_command_without_a_usable_cache_says_so(tmp_path: Path) -> None:
    file = tmp_path / CACHE_FILE
    code, said = runs(tmp_path)
    assert code == 0 and "There is no cache at" in said
    assert not file.exists()
    file.write_bytes(b"this is no database " * 500)
    code, said = runs(tmp_path)
    assert code == 1 and "Delete it if it is damaged" in said
