"""`precis judge audit` against the lexical judge, run as a user runs it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from precis.commands.judge import app
from precis.config import DocumentsConfig
from precis.environments.summaries.rewards import score_zero
from precis.records.documents import read_documents
from precis.records.results import Provenance
from precis.text import sentences
from tests.support.results import write_tables
from tests.support.summaries import JudgedSummary, Summary

pytestmark = pytest.mark.services

_FROM = Provenance(
    run="r",
    model="lead",
    step=None,
    judge="another-judge",
    protocol="batched v1",
    prompts_digest="p",
    corpus_digest="c",
    code_version="v",
)


def test_the_audit_compares_both_protocols_and_asks_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "home"))
    results, page = tmp_path / "results.parquet", tmp_path / "audit.md"
    judged = []
    for document in read_documents(DocumentsConfig())[:4]:
        summary = Summary(" ".join(sentences(document.text)[:20]))
        judged.append(JudgedSummary(document, summary, score_zero(document)))
    write_tables(judged, _FROM, results)
    audit = CliRunner().invoke(app, ["audit", str(results), "--out", str(page)])
    assert audit.exit_code == 0, audit.output
    assert "`batched` and `per_question` agree on 100.0%" in page.read_text()
    first = CliRunner().invoke(app, ["cache"]).output
    CliRunner().invoke(app, ["audit", str(results), "--out", str(page)])
    second = CliRunner().invoke(app, ["cache"]).output
    assert " 0 hits" in first and " 0 hits" not in second
    assert first.split(" replies")[0] == second.split(" replies")[0]
