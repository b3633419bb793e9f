"""Making questions, by a model or by rules: what is kept, what is paid for, and what is said of
mistakes."""

import asyncio
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cli.rehearsal import corpus_of, rehearsal_config
from precis.commands.main import app
from precis.config import DocumentsConfig, JudgeConfig
from precis.environments.summaries.judge import Endpoint, JudgeClient, Scored
from precis.environments.summaries.judge.prompts import data_in
from precis.environments.summaries.judge.protocol import BadReply
from precis.errors import DocumentsError, ProviderRejected
from precis.inference.facts import open_judge
from precis.inference.texts import Text
from precis.llm.client import ChatClient
from precis.llm.server import ApiError, ChatRequest, Choice, Completion, completions_app
from precis.questions.corpus import rows_of, write_corpus
from precis.questions.make import DocumentQuestions, QuestionMaker
from precis.questions.prompts import ANSWERED, IDS, UNANSWERED, WrittenQuestion, parse_questions
from precis.questions.rules import RuleWriter
from precis.questions.writer import SETTINGS, QuestionWriter
from precis.records.documents import CRUDE, UNANSWERABLE, Document, crudeness_of, read_documents
from precis.records.rows import COLUMNS
from precis.records.spend import PRICES
from precis.rehearsal.judges.judge import lexical_judge
from tests.support.corpora import BUNDLED
from tests.support.local_server import served, serving

KEY = "a-key-of-the-test-0815"
URL_JUDGE = ("--judge", "url", "--judge-model", "m", "--judge-url")
CORPUS = BUNDLED[:6]
BY_TEXT = {document.text.strip(): document for document in CORPUS}


def entries_for(document: Document) -> list[dict[str, str]]:
    """Five questions that the document answers, of which the last is the first once more, and two
    that it does not."""
    answerable = [one for one in document.questions if one.answerable][:4]
    asked = [*answerable, answerable[0]]
    written = [(one.text, one.answer, one.long_answer) for one in asked]
    while len(written) < ANSWERED:
        written.append(written[0])
    written += [("Which spaceship landed on Jupiter?", "", ""), ("Whose zebra sneezed?", "", "")]
    return [
        {"id": id, "question": question, "answer": answer or UNANSWERABLE, "passage": passage}
        for id, (question, answer, passage) in zip(IDS, written, strict=True)
    ]


@dataclass
class Writer:
    """A model that writes questions, and breaks in the ways that it is told. With an excuse it is
    held to no schema, and fences its JSON."""

    faults: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    excuse: str = ""
    refused: int = 0
    url: str = ""

    async def complete(self, request: ChatRequest) -> Completion:
        text = data_in(request.messages)["text"]
        if self.faults:
            fault = self.faults.pop(0)
            if fault.isdigit():
                raise ApiError(int(fault), f"No to {KEY}.", "refused")
            return Completion(request.model, [Choice(fault)])
        if self.excuse and (request.response_format or "not supported" not in self.excuse):
            self.refused += 1
            raise ApiError(400, self.excuse, "invalid_request")
        self.asked.append(text)
        reply = json.dumps({"questions": entries_for(BY_TEXT[text])})
        fenced = f"```json\n{reply}\n```" if self.excuse else reply
        return Completion(request.model, [Choice(fenced)])


@pytest.fixture
def writer() -> Iterator[Writer]:
    writer = Writer()
    with served(completions_app(writer.complete, lambda: ["w"], KEY)) as url:
        writer.url = f"{url}/v1"
        yield writer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRECIS_API_KEY", KEY)
    monkeypatch.setattr("precis.questions.writer.SETTINGS", replace(SETTINGS, backoff_s=0.01))
    folder = tmp_path / "My documents"
    for number, document in enumerate(CORPUS):
        path = folder / ("news" if number % 2 else "") / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document.text)
    return folder


def make_by_rules(folder: Path, *more: str, code: int = 0) -> str:
    """What the command says."""
    out = str(folder.parent / "corpus.parquet")
    done = CliRunner().invoke(app, ["questions", "make", str(folder), "--out", out, *more])
    assert done.exit_code == code and "Traceback" not in done.output, done.output
    return " ".join(done.output.split())


def make(folder: Path, url: str, *more: str, code: int = 0) -> str:
    """What it says where a model writes the questions."""
    return make_by_rules(folder, "--url", url, "--model", "w", *more, code=code)


def made_in(folder: Path) -> list[Document]:
    return read_documents(DocumentsConfig(source=str(folder.parent / "corpus.parquet")))


def test_a_corpus_holds_what_the_judge_answers(writer: Writer, folder: Path) -> None:
    (folder / "deep.html").write_text("<div>" * 50_000)
    (folder / "broken.pdf").write_bytes(b"no PDF")
    said = make(folder, writer.url, "--yes", "--price", "1", "2")
    assert "deep.html is nested too deeply" in said
    assert "broken.pdf can't be read as PDF" in said
    assert "left out: 2." in said
    assert "w will write questions for 6 documents: about" in said
    assert "The judge will be called" not in said, "the lexical judge is free"
    assert "nearly the same" in said
    made = made_in(folder)
    assert {one.text for one in made} <= set(BY_TEXT)
    assert {one.topic for one in made} == {"news", "documents"}
    questions = [question for one in made for question in one.questions]
    share = sum(not one.answerable for one in questions) / len(questions)
    assert 0.15 <= share <= 0.25
    for one in made:
        asked = [question.text for question in one.questions]
        assert len(set(asked)) == len(asked)
    assert len(writer.asked) == 6


def test_nothing_is_paid_for_twice_or_unasked(writer: Writer, folder: Path) -> None:
    kept = folder.parent / "corpus.parquet.paid"
    kept.write_text("in the way")
    assert "corpus.parquet.paid" in make(folder, writer.url, "--yes", code=1)
    kept.unlink()
    assert "say --yes" in make(folder, writer.url, code=1)
    assert not writer.asked, "nobody is there to be asked, and nothing could be kept"
    (folder / "again.md").write_text(CORPUS[0].text)
    assert "the same as another, and are left out: 1." in make(folder, writer.url, "--yes")
    first = made_in(folder)
    assert "6 of 6 documents are paid for already." in make(folder, writer.url)
    assert made_in(folder) == first
    for name in ("0.txt", "again.md"):
        (folder / name).unlink()
    make(folder, writer.url)
    assert len(writer.asked) == 6
    assert len(made_in(folder)) < len(first)


def test_another_judge_that_costs_is_not_asked_unasked(
    writer: Writer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    make(folder, writer.url, "--yes")
    with served(completions_app(lexical_judge, lambda: ["j"], KEY)) as judge:
        other = ["--judge", "url", "--judge-url", f"{judge}/v1", "--judge-model", "j"]
        said = make(folder, writer.url, *other, code=1)
        assert "The judge will be called about" in said and "say --yes" in said
        assert "w will write questions" not in said
        said = make(folder, writer.url, *other, "--yes")
        assert re.search(r"The judge took \d+ requests, at an unknown price", said)
        assert "6 of 6 documents are paid for" in make(folder, writer.url, *other)


def test_a_document_that_fails_is_tried_again(writer: Writer, folder: Path) -> None:
    """The writer refuses one that is longer than the model's context, say."""
    writer.faults = ["500", "not JSON", '{"questions": []}', "400", "429"]
    said = make(folder, writer.url, "--yes", code=1)
    assert re.search(r"\d\.txt: no questions were written: .* \(400: No to …", said)
    assert len(writer.asked) == 5
    again = make(folder, writer.url, "--yes")
    assert len(writer.asked) == 6
    assert "no questions were written" not in again


@pytest.mark.parametrize(
    ("fault", "told", "tried_max"),
    [
        ("401", "rejects the key in PRECIS_API_KEY", 8),
        ("404", "does not serve", 8),
        # Some servers answer it to a model's name that they do not know.
        ("400", "400: No to", 8 + 7),
        # Paid for, four times a document.
        ("not JSON", "The reply is not JSON", 4 * (8 + 7)),
    ],
)
def test_a_writer_that_can_t_be_used_stops_the_command_with_a_sentence(
    writer: Writer, folder: Path, fault: str, told: str, tried_max: int
) -> None:
    for number in range(30):
        (folder / f"more-{number}.txt").write_text(f"{CORPUS[0].text} And {number} more.")
    writer.faults = [fault] * 100
    said = make(folder, writer.url, "--yes", code=1)
    assert told in said and "no questions were written" not in said
    assert KEY not in said
    assert len(writer.faults) >= 100 - tried_max, "more were tried than were under way"


async def test_a_writer_that_takes_no_schema_is_asked_without_one() -> None:
    model = Writer(excuse="response_format is not supported")
    app = completions_app(model.complete, lambda: ["w"])
    async with (
        serving(app) as url,
        ChatClient(Endpoint(f"{url}/v1", "w", KEY), SETTINGS, prices=PRICES) as client,
    ):
        writer = QuestionWriter(client)
        for document in CORPUS[:2]:
            written = await writer.write(document.text.strip())
            assert len(written) == ANSWERED + UNANSWERED
        assert (model.refused, len(model.asked)) == (2, 2)
        model.excuse = "json_schema again"  # it blames one that was not sent
        with pytest.raises(ProviderRejected, match="json_schema again"):
            await writer.write(CORPUS[0].text.strip())
        assert model.refused == 3


async def test_what_the_judge_knows_without_the_document_is_not_asked() -> None:
    document = CORPUS[1]
    known = next(one for one in document.questions if one.answerable)

    async def knowing(request: ChatRequest) -> Completion:
        data = data_in(request.messages)
        if data.get("text") != "" or "questions" not in data:
            return await lexical_judge(request)
        answers = [{"id": one["id"], "answer": known.answer} for one in data["questions"]]
        return Completion(request.model, [Choice(json.dumps({"answers": answers}))])

    async with (
        serving(completions_app(Writer().complete, lambda: ["w"])) as writer,
        serving(completions_app(knowing, lambda: ["j"])) as judge,
        JudgeClient(Endpoint(f"{judge}/v1", "j", "key"), JudgeConfig()) as client,
        ChatClient(Endpoint(f"{writer}/v1", "w", "key"), SETTINGS, prices=PRICES) as asking,
    ):
        maker = QuestionMaker(QuestionWriter(asking), client)
        [made] = await maker.make([Text("a.txt", document.text.strip())])
    assert known.text not in [one.question for one in made.answered]
    assert made.dropped["answered without it"] == 1
    assert len(made.unanswered) == UNANSWERED


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=30))
@example([(5, 2)] * 17 + [(1, 2)])
@example([(2, 1)])
def test_a_fifth_is_unanswerable_where_there_are_as_many(counts: list[tuple[int, int]]) -> None:
    made = []
    for at, (answered, unanswered) in enumerate(counts):
        right = tuple(WrittenQuestion(f"{at} {n}?", "a", "", True) for n in range(answered))
        none = tuple(
            WrittenQuestion(f"{at} {n}!", UNANSWERABLE, "", False) for n in range(unanswered)
        )
        made.append(DocumentQuestions(Text(f"{at}.txt", f"Text {at}."), right, none))
    rows = rows_of(made, Path())
    unanswerable = sum(row["answer"] == UNANSWERABLE for row in rows)
    answerable = sum(answered for answered, _ in counts)
    offered = sum(unanswered for answered, unanswered in counts if answered)
    assert len(rows) - unanswerable == answerable
    assert unanswerable == min(
        range(offered + 1),
        key=lambda count: abs(Fraction(count, max(1, answerable + count)) - Fraction(1, 5)),
    )
    assert len({row["question_id"] for row in rows}) == len(rows)


@pytest.mark.parametrize(
    "damage",
    [
        lambda entries: entries[:-1],
        lambda entries: [*entries, entries[0]],
        lambda entries: [{**entries[0], "question": " "}, *entries[1:]],
    ],
)
def test_a_reply_that_is_not_what_was_asked_for_is_none(damage: object) -> None:
    entries = entries_for(CORPUS[0])
    whole = json.dumps({"questions": entries})
    assert len(parse_questions(whole)) == ANSWERED + UNANSWERED
    with pytest.raises(BadReply):
        parse_questions(json.dumps({"questions": damage(entries)}))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--out", "corpus.csv"), "must end in .parquet"),
        (("--url", "ftp://x"), "must start with http"),
        (("--url", "http://host:port/v1"), "The address of the writer is invalid."),
        (("--judge", "url"), "--judge url needs --judge-url and --judge-model."),
        (("--judge", "google"), "GEMINI_API_KEY"),
        (("--judge-model", "m"), "Give --judge too: openrouter, google or url."),
        (("--judge-url", "http://localhost/v1"), "Give --judge url too."),
        ((*URL_JUDGE, "http://["), "--judge-url is not an address"),
        ((*URL_JUDGE, "127.0.0.1:1"), "--judge-url is not an address"),
        ((*URL_JUDGE, "http://a:b@localhost"), "JUDGE_API_KEY"),
        (("--price", "nan", "1"), "--price takes two amounts"),
        (("--price", "1", "-1"), "--price takes two amounts"),
        (("--model", ""), "give both, or neither"),
        (("--url", ""), "give both, or neither"),
        (("--url", "", "--model", "", "--judge", "openrouter"), "leave --judge out"),
        (("--url", "", "--model", "", "--price", "1", "2"), "--price is of a model"),
        (("--yes",), "was not written. The same command tries them again"),
    ],
)
def test_what_can_t_work_is_a_sentence(folder: Path, arguments: tuple[str, ...], told: str) -> None:
    assert told in make(folder, "http://127.0.0.1:9/v1", *arguments, code=1)
    assert not (folder.parent / "corpus.parquet").exists()


def test_a_corpus_in_no_folder_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DocumentsError, match=r"Can't write .*Choose another"):
        write_corpus([], tmp_path / "file" / "corpus.parquet")
    with pytest.raises(DocumentsError, match=r"Can't write .*File name too long.*Choose another"):
        write_corpus([], tmp_path / f"{'l' * 246}.parquet")
    (tmp_path / f".corpus.parquet.{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(DocumentsError, match=r"Can't write .*No space left.*Choose another"):
        write_corpus([dict.fromkeys(COLUMNS, "text" * 10_000)], tmp_path / "corpus.parquet")


def test_a_file_s_name_may_have_bytes_that_are_no_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"old-\xff")
    question = WrittenQuestion("Who?", "Ada", "", True)
    text = Text(str(folder / os.fsdecode(b"topic-\xff") / os.fsdecode(b"a-\xff.txt")), "Ada came.")
    rows = rows_of([DocumentQuestions(text, (question,))], folder)
    assert (rows[0]["document_topic"], rows[0]["document_path"]) == ("topic-", "topic-/a-.txt")
    write_corpus(rows, tmp_path / "corpus.parquet")


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


def test_a_corpus_without_a_key_holds_what_its_documents_answer(folder: Path) -> None:
    (folder / "nothing.md").write_text("# A title\n\nand no fact at all\n")
    said = make_by_rules(folder)
    assert CRUDE in said
    assert "questions about 6 documents. Documents without any, and left out: 1." in said
    made = made_in(folder)
    assert set(asyncio.run(tried(made))) == {(True, False)}
    assert all("-cloze" in question.id for one in made for question in one.questions)
    assert crudeness_of(made) == CRUDE
    assert crudeness_of(CORPUS) == ""
    # A question does not show its answer.
    told = "In Oakhaven they would have done it otherwise, and in Oakhaven they {}."
    [written] = asyncio.run(RuleWriter().write(told.format("all say so since 1958")))
    assert written.answer == "1958"
    assert asyncio.run(RuleWriter().write(told.format("say so"))) == []


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
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("No fact is in this text at all, whatever one does.")
    with pytest.raises(DocumentsError, match=r"No question was kept.*Give more or longer texts"):
        corpus_of(str(tmp_path / "texts"))
