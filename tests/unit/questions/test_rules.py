"""Questions that rules make: what is left out of which sentence, and what is said of it."""

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.rehearsal import corpus_of, rehearsal_config
from precis.commands.main import app
from precis.config import DocumentsConfig, JudgeConfig
from precis.environments.summaries.judge import Scored
from precis.errors import DocumentsError
from precis.inference.facts import open_judge
from precis.questions.rules import RuleWriter
from precis.records.documents import CRUDE, Document, crudeness_of, read_documents
from tests.support.corpora import BUNDLED

SIX = BUNDLED[:6]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "My documents"
    folder.mkdir()
    for number, document in enumerate(SIX):
        (folder / f"{number}.txt").write_text(document.text)
    (folder / "nothing.md").write_text("# A title\n\nand no fact at all\n")
    return folder


def make(folder: Path, *more: str) -> Result:
    out = str(folder.parent / "corpus.parquet")
    return CliRunner().invoke(app, ["questions", "make", str(folder), "--out", out, *more])


async def tried(documents: list[Document]) -> list[tuple[bool, bool]]:
    """Whether each question is answered from its document, and whether without it."""
    found = []
    async with open_judge(JudgeConfig()) as judge:
        for document in documents:
            read = await judge.score(document, document.text)
            guessed = await judge.guess(document)
            assert isinstance(read, Scored) and isinstance(guessed, Scored)
            for one, other in zip(read.answers, guessed.answers, strict=True):
                found.append((one.correct, other.correct))
    return found


def test_a_corpus_without_a_key_holds_what_the_judge_answers_from_its_documents_alone(
    folder: Path,
) -> None:
    result = make(folder)
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert CRUDE in said
    assert "questions about 6 documents. Documents without any, and left out: 1." in said
    made = read_documents(DocumentsConfig(source=str(folder.parent / "corpus.parquet")))
    assert set(asyncio.run(tried(made))) == {(True, False)}
    assert all("-cloze" in question.id for one in made for question in one.questions)
    assert crudeness_of(made) == CRUDE
    assert crudeness_of(SIX) == ""


async def test_a_question_does_not_show_its_answer() -> None:
    told = "In Oakhaven they would have done it otherwise, and in Oakhaven they {}."
    [written] = await RuleWriter().write(told.format("all say so since 1958"))
    assert written.answer == "1958"
    assert await RuleWriter().write(told.format("say so")) == []


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--url", "http://127.0.0.1:9/v1"], "give both, or neither"),
        (["--model", "m"], "give both, or neither"),
        (["--judge", "openrouter"], "leave --judge out"),
        (["--price", "1", "2"], "--price is of a model"),
    ],
)
def test_half_a_model_or_a_judge_that_costs_is_no_order_for_rules(
    folder: Path, more: list[str], problem: str
) -> None:
    result = make(folder, *more)
    assert result.exit_code == 1
    assert problem in " ".join(result.output.split())
    assert not (folder.parent / "corpus.parquet").exists()


def test_a_folder_of_texts_is_rehearsed_with_under_its_name_and_a_corpus_as_it_is(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = corpus_of(str(folder))
    assert corpus_of(f"{folder}/") == corpus
    config = rehearsal_config(3, corpus, 2, "store")
    assert config.model == "rehearsal-My-documents-seed2"
    assert (config.documents.train_size, config.documents.val_size) == (5, 1)
    (tmp_path / "folder-of-rows").mkdir()
    for name in ("rows.jsonl", "folder-of-rows/rows.csv", "folder-of-rows/README.md"):
        (tmp_path / name).touch()
    for name in ("rows.jsonl", "folder-of-rows", "not-there"):
        assert corpus_of(str(tmp_path / name)) == str(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert corpus_of("rows.jsonl") == str(tmp_path / "rows.jsonl")
    for name in ("bundled", "", "ServiceNow/repliqa"):
        assert corpus_of(name) == name


def test_a_folder_with_nothing_to_ask_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("No fact is in this text at all, whatever one does.")
    with pytest.raises(DocumentsError, match=r"No question was kept.*Give more or longer texts"):
        corpus_of(str(tmp_path / "texts"))
