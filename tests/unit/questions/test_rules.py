"""Questions that rules make: what is left out of which sentence, and what is said of it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from cli.rehearsal import corpus_of, rehearsal_config
from precis.commands.main import app
from precis.config import DocumentsConfig, JudgeConfig
from precis.environments.summaries.judge import Scored
from precis.errors import DocumentsError
from precis.inference.facts import open_judge
from precis.questions.rules import write_cloze
from precis.records.cloze import CRUDE, crudeness_of, is_by_rules
from precis.records.documents import Document, read_documents

BUNDLED = read_documents(DocumentsConfig(source="bundled"))[:6]
FERRY = (
    "The new ferry across the sound was built in Gdansk for the Northern Line in 2019. "
    "On most days it carries 412 passengers between the two harbours and back again. "
    "Its captain, Ingrid Solheim, has sailed these waters since she was a child of twelve."
)


def asked(text: str) -> dict[str, str]:
    """The answer to each question, by the question."""
    return {one.question: one.answer for one in write_cloze(text)}


def test_a_name_and_a_number_are_asked_for_by_what_they_are() -> None:
    assert asked(FERRY) == {
        "Which name is left out here: The new ferry across the sound was built in Gdansk for the "
        "____ in 2019.": "Northern Line",
        "How many or how much? The number is left out here: On most days it carries ____ between "
        "the two harbours and back again.": "412 passengers",
        "Which name is left out here: Its captain, ____, has sailed these waters since she was a "
        "child of twelve.": "Ingrid Solheim",
    }


@pytest.mark.parametrize(
    ("sentence", "answer"),
    [
        (
            "They came together on 3 May 2019 to open what had been closed for so long.",
            "3 May 2019",
        ),
        ("They came together on May 3rd, 2019 to open what was closed for long.", "May 3rd, 2019"),
        ("They have come together every Friday since then to open what was closed.", "Friday"),
        ("They came together with 57 who had seen the house before it was closed.", "57"),
        ("They came together to pay $51,700 for what had been closed for so long.", "$51,700"),
        (
            "第一次世界大战于1914年开始，欧洲的政治版图因此被彻底改变，许多国家重新划定了边界。",
            "1914",
        ),
        ("Вместе они пришли в Новый Порт, чтобы открыть то, что было закрыто.", "Новый Порт"),
    ],
)
def test_what_is_left_out_is_a_whole_fact(sentence: str, answer: str) -> None:
    assert list(asked(sentence).values()) == [answer]


@pytest.mark.parametrize(
    "sentence",
    [
        "4. Train the model for a while with all of them, and look at it then.",
        "Nothing is here that could be asked for in any way at all, my friend.",
        "A table without an end 12 13 14 15 16 17 18 19 20",
        "Only 7 words are too few here.",
    ],
)
def test_what_holds_no_fact_or_is_no_prose_is_not_asked_about(sentence: str) -> None:
    assert asked(sentence) == {}


def test_a_fact_that_the_whole_text_is_about_is_not_asked_for() -> None:
    about = "Each of these is a sentence that speaks of Marlinspike and of number {}."
    text = " ".join(about.format(word) for word in ("one", "two", "three", "four", "five"))
    assert asked(text) == {}


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=400))
def test_whatever_a_text_holds_an_answer_is_a_part_of_its_passage(text: str) -> None:
    for one in write_cloze(text):
        assert one.answer and one.answer in one.passage and one.passage in text
        assert one.question.count("____") >= 1


@pytest.mark.parametrize("document", BUNDLED, ids=lambda document: document.id)
def test_questions_go_through_a_text_and_each_is_about_another_sentence(
    document: Document,
) -> None:
    text = document.text
    written = write_cloze(text)
    assert 5 <= len(written) <= 8
    places = [text.index(one.passage) for one in written]
    assert places == sorted(set(places))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "home"))
    folder = tmp_path / "My documents"
    folder.mkdir()
    for number, document in enumerate(BUNDLED):
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
    assert all(is_by_rules(question.id) for one in made for question in one.questions)
    assert crudeness_of(made) == CRUDE
    assert crudeness_of(BUNDLED) == ""


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--url", "http://127.0.0.1:9/v1"], "give both, or neither"),
        (["--model", "m"], "give both, or neither"),
        (["--judge", "openrouter"], "leave --judge out"),
    ],
)
def test_half_a_model_or_a_judge_that_costs_is_no_order_for_rules(
    folder: Path, more: list[str], problem: str
) -> None:
    result = make(folder, *more)
    assert result.exit_code == 1
    assert problem in " ".join(result.output.split())
    assert not (folder.parent / "corpus.parquet").exists()


def test_a_folder_of_texts_is_rehearsed_with_under_its_name(folder: Path) -> None:
    corpus = corpus_of(str(folder))
    assert corpus_of(f"{folder}/") == corpus
    config = rehearsal_config(3, corpus, 2, "store")
    assert config.model == "rehearsal-My-documents-seed2"
    assert (config.documents.train_size, config.documents.val_size) == (5, 1)


def test_the_same_texts_make_the_same_corpus(folder: Path) -> None:
    first = read_documents(DocumentsConfig(source=corpus_of(str(folder))))
    assert read_documents(DocumentsConfig(source=corpus_of(str(folder)))) == first


@pytest.fixture(params=["bundled", "rows.jsonl", "folder-of-rows", "not-there"])
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "bundled":
        yield "bundled"
        return
    (tmp_path / "rows.jsonl").touch()
    (tmp_path / "folder-of-rows").mkdir()
    (tmp_path / "folder-of-rows" / "rows.csv").touch()
    (tmp_path / "folder-of-rows" / "README.md").touch()
    yield str(tmp_path / request.param)


def test_what_is_a_corpus_already_is_taken_as_it_is(corpus: str) -> None:
    assert corpus_of(corpus) == corpus


def test_a_folder_with_nothing_to_ask_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "home"))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("No fact is in this text at all, whatever one does.")
    with pytest.raises(DocumentsError, match=r"No question was kept.*Give more or longer texts"):
        corpus_of(str(tmp_path / "texts"))
