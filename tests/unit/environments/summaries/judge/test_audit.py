"""The audit of a judge's verdicts, and the `precis judge` command."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from precis.commands import judge as judge_command
from precis.commands.judge import app
from precis.config import DocumentsConfig, DocumentSource, TrainConfig
from precis.environments.summaries.judge.audit import agreement, documents_of, draw_samples
from precis.environments.summaries.judge.audit_report import as_jsonl, as_markdown
from precis.environments.summaries.judge.cache import ReplyCache
from precis.environments.summaries.rewards import score_zero
from precis.errors import ConfigError
from precis.records.ledger import Ledger, write_ledger
from precis.records.verdict import Unscored, Verdict
from precis.store import FolderStore
from tests.support.audits import document, judged, results, scored, write
from tests.support.summaries import JudgedSummary, Summary


def runs(file: Path, arguments: Sequence[str]) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, [*arguments, str(file)])
    return outcome.exit_code, outcome.output


def test_a_sample_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    frame = results(*(judged(f"d{number}") for number in range(30)))
    first = draw_samples(frame, 5, seed=1)
    assert first == draw_samples(frame.reverse(), 5, seed=1) != draw_samples(frame, 5, seed=2)
    assert len(first) == 5 and [len(each.asked) for each in first] == [3] * 5
    assert len(draw_samples(frame, 100, seed=1)) == 30


def test_what_no_judge_ruled_on_is_not_sampled() -> None:
    unscored = judged("a", Unscored("timeout", "It took too long."))
    empty = JudgedSummary(
        document("b"), Summary(""), score_zero(document("b")), disqualified="empty"
    )
    frame = results(unscored, empty, judged("c"))
    assert [each.document_id for each in draw_samples(frame, 10, seed=1)] == ["c"]


def test_agreement_counts_answerable_questions_and_leaves_the_unscored_out() -> None:
    one = document("a")
    first: list[Verdict] = [
        scored(one, True, True),
        scored(one, True, False),
        scored(one, True, True),
    ]
    second: list[Verdict] = [
        scored(one, True, False),
        scored(one, True, False),
        Unscored("timeout", "It took too long."),
    ]
    found = agreement(first, second)
    assert (found.both, found.only_first, found.only_second, found.neither) == (2, 1, 0, 1)
    assert (found.unscored, found.questions, found.share) == (1, 4, 0.75)
    assert found.kappa == pytest.approx(0.5)


def test_identical_verdicts_agree_wholly_even_where_all_are_correct() -> None:
    verdicts = [scored(document("a"), True, True)]
    found = agreement(verdicts, verdicts)
    assert (found.share, found.kappa) == (1.0, 1.0)


def test_the_page_shows_question_gold_answer_verdict_and_summary() -> None:
    samples = draw_samples(results(judged("a")), 1, seed=1)
    one = document("a")
    page = as_markdown(
        samples, {"batched": [scored(one, True, True)], "per_question": [scored(one, True, False)]}
    )
    assert "agree on 50.0% of 2 answerable questions" in page
    assert "> A summary." in page
    row = next(line for line in page.splitlines() if "Question 2" in line)
    assert [cell.strip() for cell in row.strip("|").split(" | ")] == [
        "Question 2?",
        "Gold 2",
        "Answer to a-2",
        "wrong",
        "correct: Answer to a-2",
        "wrong: Answer to a-2",
    ]
    assert "correct (no reward)" in page


def test_nothing_in_a_summary_can_break_the_page() -> None:
    attack = "</td>|\n# Heading\n<script>x</script> [a](b) `code` | **bold** \\"
    page = as_markdown(draw_samples(results(judged("a", text=attack)), 1, seed=1), {})
    [line] = [line for line in page.splitlines() if "Heading" in line]
    assert line.startswith("> ") and "<script>" not in page and "\\<script\\>" in line


def test_the_data_has_one_line_for_each_sample_with_all_verdicts() -> None:
    samples = draw_samples(results(judged("a"), judged("b")), 2, seed=1)
    verdicts = [scored(document(each.document_id), True, True) for each in samples]
    lines = [json.loads(line) for line in as_jsonl(samples, {"batched": verdicts}).splitlines()]
    assert [line["document_id"] for line in lines] == ["a", "b"]
    assert lines[0]["verdicts"]["batched"]["answers"][1]["correct"] is True
    assert lines[0]["asked"][1]["ruled"] is False


def test_a_corpus_that_lacks_a_document_is_refused_with_its_name() -> None:
    samples = draw_samples(results(judged("a")), 1, seed=1)
    with pytest.raises(ConfigError, match="about document 'a', which this corpus of 1") as refused:
        documents_of(samples, [document("b")])
    assert "(--documents)" in refused.value.remedy


def test_an_audit_of_other_documents_than_the_bundled_names_the_option(tmp_path: Path) -> None:
    file = tmp_path / "results.parquet"
    write(file, judged("a"))
    code, said = runs(file, ["audit"])
    assert code == 1
    assert "Name the corpus that they were made with (--documents)" in " ".join(said.split())


def test_the_documents_of_results_are_those_of_the_run_that_they_lie_with(tmp_path: Path) -> None:
    config = TrainConfig(model="m", store="s", documents=DocumentsConfig(source="own.jsonl"))
    ledger = Ledger(model="m", config="c", corpus="k").under(config.model_dump(mode="json"))
    write_ledger(FolderStore(tmp_path), ledger, None)
    file = tmp_path / "m" / "benchmarks" / "0030" / "results.parquet"
    assert judge_command._source_of(file) == DocumentSource(source="own.jsonl")
    assert judge_command._source_of(tmp_path / "results.parquet") == DocumentSource()


def test_an_audit_lies_beside_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    file = tmp_path / "benchmark" / "results.parquet"
    file.parent.mkdir()
    write(file, judged("a"))
    code, _ = runs(file, ["audit", "--no-compare"])
    assert code == 0
    written = {path.name for path in file.parent.iterdir()}
    assert {"judge-audit.md", "judge-audit.jsonl", "judge-audit.csv"} <= written
    assert not list(here.iterdir())


def test_the_audit_command_writes_a_page_and_its_data(tmp_path: Path) -> None:
    file, page = tmp_path / "results.parquet", tmp_path / "out" / "audit.md"
    write(file, judged("a"), judged("b"))
    code, said = runs(file, ["audit", "--no-compare", "--samples", "1", "--out", str(page)])
    assert code == 0 and "audit.jsonl" in said
    assert page.read_text().startswith("# The judge's verdicts on 1 summaries")
    assert len(page.with_suffix(".jsonl").read_text().splitlines()) == 1


def test_the_audit_of_a_missing_file_ends_with_a_sentence(tmp_path: Path) -> None:
    code, said = runs(tmp_path / "none.parquet", ["audit", "--no-compare"])
    assert code == 1 and "Traceback" not in said
    assert said.startswith("Can't read the results in ")
    assert " ".join(said.split()).endswith("none.parquet: there is no such file.")


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
