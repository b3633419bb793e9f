"""Making questions: what is kept, what is paid for, and what is said when it goes wrong."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from precis.commands.main import app
from precis.config import DocumentsConfig, JudgeConfig
from precis.environments.summaries.judge import Endpoint, JudgeClient
from precis.environments.summaries.judge.prompts import data_in
from precis.environments.summaries.judge.protocol import BadReply
from precis.errors import DocumentsError, ProviderFailed
from precis.inference.texts import Text
from precis.llm.server import (
    ApiError,
    ChatRequest,
    Choice,
    Complete,
    Completion,
    completions_app,
)
from precis.questions.corpus import rows_of, write_corpus
from precis.questions.make import (
    DocumentQuestions,
    QuestionMaker,
)
from precis.questions.prompts import (
    ANSWERED,
    IDS,
    UNANSWERED,
    WrittenQuestion,
    parse_questions,
)
from precis.questions.writer import SETTINGS, QuestionWriter
from precis.records.documents import UNANSWERABLE, Document, read_documents
from precis.records.rows import COLUMNS
from precis.records.spend import PRICES
from precis.rehearsal.judges.judge import lexical_judge
from tests.support.corpora import BUNDLED
from tests.support.local_server import served, serving

KEY = "a-key-of-the-test-0815"
QUICK = replace(SETTINGS, backoff_s=0.01)
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

    async def complete(self, request: ChatRequest) -> Completion:
        text = (data_in(request.messages) or {})["text"]
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
def writer() -> Iterator[tuple[Writer, str]]:
    writer = Writer()
    with served(completions_app(writer.complete, lambda: ["w"], KEY)) as url:
        yield writer, f"{url}/v1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRECIS_API_KEY", KEY)
    monkeypatch.setattr("precis.questions.writer.SETTINGS", QUICK)
    folder = tmp_path / "documents"
    for number, document in enumerate(CORPUS):
        path = folder / ("news" if number % 2 else "") / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document.text)
    return folder


def make(folder: Path, url: str, *more: str) -> Result:
    out = str(folder.parent / "corpus.parquet")
    command = ["questions", "make", str(folder), "--out", out, "--url", url, "--model", "w", *more]
    return CliRunner().invoke(app, command)


def said(result: Result) -> str:
    return " ".join(result.output.split())


def test_a_corpus_is_made_of_what_the_judge_answers_from_the_documents(
    writer: tuple[Writer, str], folder: Path
) -> None:
    model, url = writer
    result = make(folder, url, "--yes", "--price", "1", "2")
    assert result.exit_code == 0, result.output
    assert "w will write questions for 6 documents: about" in said(result)
    assert "The judge will be called about" in said(result)
    assert "nearly the same" in said(result)
    made = read_documents(DocumentsConfig(source=str(folder.parent / "corpus.parquet")))
    assert {one.text for one in made} <= set(BY_TEXT)
    assert {one.topic for one in made} == {"news", "documents"}
    questions = [question for one in made for question in one.questions]
    share = sum(not one.answerable for one in questions) / len(questions)
    assert 0.15 <= share <= 0.25
    for one in made:
        asked = [question.text for question in one.questions]
        assert len(set(asked)) == len(asked)
    assert len(model.asked) == 6


def test_a_file_that_cannot_be_read_is_no_failure_of_the_rest(
    writer: tuple[Writer, str], folder: Path
) -> None:
    _, url = writer
    (folder / "deep.html").write_text("<div>" * 50_000)
    (folder / "broken.pdf").write_bytes(b"no PDF")
    result = make(folder, url, "--yes")
    assert result.exit_code == 0, result.output
    assert "deep.html is nested too deeply" in said(result)
    assert "broken.pdf can't be read as PDF" in said(result)
    assert "left out: 2." in said(result)
    assert pl.read_parquet(folder.parent / "corpus.parquet")["document_id"].n_unique() > 1


def test_nothing_is_paid_for_twice_and_nothing_unasked(
    writer: tuple[Writer, str], folder: Path
) -> None:
    model, url = writer
    result = make(folder, url)
    assert result.exit_code == 1
    assert "say --yes" in said(result)
    assert not model.asked, "nobody is there to be asked"
    (folder / "again.md").write_text(CORPUS[0].text)
    result = make(folder, url, "--yes")
    assert "the same as another, and are left out: 1." in said(result)
    out = folder.parent / "corpus.parquet"
    first = pl.read_parquet(out)
    result = make(folder, url)
    assert result.exit_code == 0, result.output
    assert "6 of 6 documents are paid for already." in said(result)
    assert pl.read_parquet(out).equals(first)
    for name in ("0.txt", "again.md"):
        (folder / name).unlink()
    assert make(folder, url).exit_code == 0
    assert len(model.asked) == 6
    assert len(read_documents(DocumentsConfig(source=str(out)))) < first["document_id"].n_unique()


def test_another_judge_that_costs_is_not_asked_unasked(
    writer: tuple[Writer, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, url = writer
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    assert make(folder, url, "--yes").exit_code == 0
    with served(completions_app(lexical_judge, lambda: ["j"], KEY)) as judge:
        other = ["--judge", "url", "--judge-url", f"{judge}/v1", "--judge-model", "j"]
        result = make(folder, url, *other)
        assert result.exit_code == 1 and "say --yes" in said(result)
        assert "The judge will be called about" in said(result)
        assert "w will write questions" not in said(result)
        result = make(folder, url, *other, "--yes")
        assert result.exit_code == 0
        assert re.search(r"The judge took \d+ requests, at an unknown price", said(result))
        assert "6 of 6 documents are paid for" in said(make(folder, url, *other))


def test_a_document_that_fails_is_tried_again_alone(
    writer: tuple[Writer, str], folder: Path
) -> None:
    model, url = writer
    model.faults = ["500", "not JSON", '{"questions": []}', "429"] * 2
    result = make(folder, url, "--yes")
    assert result.exit_code == 0
    paid = len(model.asked)
    again = make(folder, url, "--yes")
    assert len(model.asked) == 6 >= paid
    assert "no questions were written" not in said(again)


@pytest.mark.parametrize(
    ("fault", "told"), [("401", "rejects the key in PRECIS_API_KEY"), ("404", "does not serve")]
)
def test_a_writer_that_can_t_be_used_stops_the_command_with_a_sentence(
    writer: tuple[Writer, str], folder: Path, fault: str, told: str
) -> None:
    model, url = writer
    model.faults = [fault] * 50
    result = make(folder, url, "--yes")
    assert result.exit_code == 1
    assert told in said(result)
    assert KEY not in result.output and "Traceback" not in result.output
    assert not model.asked


async def test_a_writer_that_takes_no_schema_is_asked_without_one() -> None:
    model = Writer(excuse="response_format is not supported")
    app = completions_app(model.complete, lambda: ["w"])
    async with (
        serving(app) as url,
        QuestionWriter(Endpoint(f"{url}/v1", "w", KEY), PRICES) as writer,
    ):
        for document in CORPUS[:2]:
            written = await writer.write(document.text.strip())
            assert len(written) == ANSWERED + UNANSWERED
        assert (model.refused, len(model.asked)) == (1, 2)
        model.excuse = "json_schema again"  # it blames one that was not sent
        with pytest.raises(ProviderFailed, match="json_schema again"):
            await writer.write(CORPUS[0].text.strip())
        assert model.refused == 2


def knowing(known: str) -> Complete:
    """A judge that knows one answer without any text."""

    async def judge(request: ChatRequest) -> Completion:
        data = data_in(request.messages) or {}
        if data.get("text") != "" or "questions" not in data:
            return await lexical_judge(request)
        answers = [{"id": one["id"], "answer": known} for one in data["questions"]]
        return Completion(request.model, [Choice(json.dumps({"answers": answers}))])

    return judge


async def test_what_the_judge_knows_without_the_document_is_not_asked() -> None:
    document = CORPUS[1]
    known = next(one for one in document.questions if one.answerable)
    async with (
        serving(completions_app(Writer().complete, lambda: ["w"])) as writer,
        serving(completions_app(knowing(known.answer), lambda: ["j"])) as judge,
        JudgeClient(Endpoint(f"{judge}/v1", "j", "key"), JudgeConfig()) as client,
        QuestionWriter(Endpoint(f"{writer}/v1", "w", "key"), PRICES) as asking,
    ):
        maker = QuestionMaker(asking, client)
        [made] = await maker.make([Text("a.txt", document.text.strip())])
    assert known.text not in [one.question for one in made.answered]
    assert dict(made.dropped)["answered without it"] == 1
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


def test_nothing_is_paid_for_where_it_can_t_be_kept(
    writer: tuple[Writer, str], folder: Path
) -> None:
    model, url = writer
    (folder.parent / "corpus.parquet.paid").write_text("in the way")
    result = make(folder, url, "--yes")
    assert result.exit_code == 1
    assert "corpus.parquet.paid" in said(result) and "Traceback" not in result.output
    assert not model.asked


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--out", "corpus.csv"], "must end in .parquet"),
        (["--url", "ftp://x"], "must start with http"),
        (["--url", "http://host:port/v1"], "The address of the writer is invalid."),
        (["--judge", "url"], "--judge url needs --judge-url and --judge-model."),
        (["--judge-model", "m"], "Give --judge too: openrouter, google or url."),
        (["--price", "nan", "1"], "--price takes two amounts"),
        (["--price", "1", "-1"], "--price takes two amounts"),
    ],
)
def test_settings_that_can_t_work_are_a_sentence(
    folder: Path, arguments: list[str], told: str
) -> None:
    result = make(folder, "http://127.0.0.1:9/v1", *arguments)
    assert result.exit_code in (1, 2)
    assert told in said(result)


def test_a_writer_that_can_t_be_reached_is_asked_again_by_the_same_command(folder: Path) -> None:
    result = make(folder, "http://127.0.0.1:9/v1", "--yes")
    assert result.exit_code == 1
    assert "was not written. The same command tries them again" in said(result)


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
