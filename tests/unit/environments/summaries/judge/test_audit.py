"""The audit of a judge's verdicts, and the `precis judge` command."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from precis.commands.judge import app
from precis.environments.summaries.judge.audit import draw_samples
from precis.environments.summaries.judge.cache import ReplyCache
from precis.environments.summaries.rewards import score_zero
from precis.records.verdict import Unscored
from tests.support.audits import document, judged, results, write
from tests.support.summaries import JudgedSummary, Summary


def runs(file: Path, arguments: Sequence[str]) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, [*arguments, str(file)])
    return outcome.exit_code, outcome.output


def test_a_sample_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    frame = results(*(judged(f"d{number}") for number in range(30)))
    first = draw_samples(frame, 5, seed=1)
    assert first == draw_samples(frame.reverse(), 5, seed=1) != draw_samples(frame, 5, seed=2)
    assert len(first) == 5 and [len(each) for each in first] == [3] * 5
    assert len(draw_samples(frame, 100, seed=1)) == 30


def test_what_no_judge_ruled_on_is_not_sampled() -> None:
    unscored = judged("a", Unscored("timeout", "It took too long."))
    empty = JudgedSummary(
        document("b"), Summary(""), score_zero(document("b")), disqualified="empty"
    )
    frame = results(unscored, empty, judged("c"))
    assert [each[0]["document_id"] for each in draw_samples(frame, 10, seed=1)] == ["c"]


def test_an_audit_lies_beside_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    file = tmp_path / "benchmark" / "results.parquet"
    file.parent.mkdir()
    write(file, judged("a"))
    code, _ = runs(file, ["audit"])
    assert code == 0
    written = {path.name for path in file.parent.iterdir()}
    assert "judge-audit.csv" in written
    assert not list(here.iterdir())


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
