"""`precis summarize`: what a trained model makes of files, and what it says about it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from precis.commands.main import app
from precis.environments.summaries.prompt import request_in
from precis.errors import ModelError
from precis.inference.summarizer import Summarizer, room_for_text, summarize_text
from precis.inference.texts import Text
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from precis.models.record import TrainingRecord, write_record
from precis.records.ledger import ledger_key, load_ledger
from precis.store import FolderStore
from precis.text import count_words
from tests.support.command import run_precis
from tests.support.ledgers import validation
from tests.support.local_server import served
from tests.support.runs import train_policy
from tests.support.tiny_model import AN_AGENT, AS_TRAINED, put_run, write_adapter

TEXT = """The mill was built in 1784 by Thomas Aldery. It closed in 1967.
Nobody knows where the bell went. People walked by the river."""
ABOUT_IT = [
    {"question": "Who built the mill?", "answer": "Thomas Aldery"},
    {"question": "What is the name of the king's dog?", "answer": "Rex"},
]

STORY = Path("story.txt")
QUESTIONS = Path("questions.jsonl")


@pytest.fixture
def store(store: FolderStore, tmp_path: Path) -> FolderStore:
    train_policy(store, "mine", tmp_path / "trainer")
    return store


@pytest.fixture(autouse=True)
def files(store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has a store with a model, a story, and questions about it."""
    monkeypatch.chdir(tmp_path)
    STORY.write_text(TEXT)
    QUESTIONS.write_text("\n".join(json.dumps(one) for one in ABOUT_IT))


def summarize(*arguments: object, store: FolderStore | None = None, **options: Any) -> Result:
    known = store or FolderStore(Path("store"))
    return run_precis("summarize", *arguments, store=known, **options)


def test_who_wrote_is_said_beside_the_summaries_once(tmp_path: Path) -> None:
    again = tmp_path / "again.txt"
    again.write_text(TEXT)
    done = summarize(STORY, again)
    best = "mine@0 (held-out accuracy 50.0%), the best that can be used here; --model names another"
    assert done.stderr == f"Written by {best}.\n"
    assert "Written by" not in done.stdout


def validate(store: FolderStore, name: str, *scores: float, corpus: str = "k") -> None:
    """Say that a run was validated with these scores, after its last step the last time."""
    steps = range(0, 2 * len(scores), 2)
    found = tuple(validation(step, score) for step, score in zip(steps, scores, strict=True))
    ledger = load_ledger(store, name)
    ledger = ledger.model_copy(update={"validations": found, "corpus": corpus})
    store.put(ledger_key(name), ledger.model_dump_json().encode())


def chosen() -> str:
    """The model that writes where none is named."""
    done = summarize(STORY, "--json")
    return str(json.loads(done.stdout)["model"])


def test_the_best_run_that_can_be_used_here_writes_and_not_the_newest(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    validate(store, "mine", 0.3)
    assert chosen() == "mine@2", "of a run validated at its start alone, the newest"
    validate(store, "mine", 0.5, 0.4)
    for name, score in (("good", 0.7), ("poor", 0.3)):
        train_policy(store, name, tmp_path / name)
        validate(store, name, 0.1, score)
    assert chosen() == "good@2"
    store.delete("good/checkpoints/")
    monkeypatch.setenv("PATH", str(tmp_path))  # no vLLM
    write_adapter(tmp_path / "adapter")
    put_run(store, "adapter", tmp_path / "adapter")  # of 60 %
    assert chosen() == "mine@0"
    # Scores on other documents are not compared, and the newest ones count.
    for name, score in (("worse", 0.2), ("fair", 0.4)):
        train_policy(store, name, tmp_path / name)
        validate(store, name, 0.1, score, corpus="own")
    assert chosen() == "fair@2"


def test_a_damaged_ledger_is_named_if_no_run_can_be_read(store: FolderStore) -> None:
    store.put(ledger_key("mine"), b"{")
    done = summarize(STORY, code=1)
    assert "mine/ledger.json can't be read" in done.stderr
    assert "precis runs repair mine" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "the mill was built in 1784 and closed in 1967 " * 60,
        "word" * 20_000,
        "水車小屋は一七八四年に建てられた" * 200,
        "| a | 1784 |\n" * 100,
        "# One heading and nothing else",
        "* * *",
    ],
)
def test_no_text_gives_an_empty_summary(text: str) -> None:
    STORY.write_text(text)
    done = summarize(STORY, "--words", 20)
    assert done.stdout.strip()
    assert count_words(done.stdout) <= 20
    assert set(done.stdout) <= set(text + " \n")


def test_facts_that_were_not_kept_are_told_of() -> None:
    whole = summarize(STORY, "--questions", QUESTIONS).stdout
    assert "Facts kept: 1 of 2." in whole
    assert "- not in the document: What is the name of the king's dog? Rex" in whole
    QUESTIONS.write_text(json.dumps(ABOUT_IT[0]))
    asked = (STORY, "--words", 20, "--json", "--questions", QUESTIONS, "--model")
    for step in range(3):
        result = json.loads(summarize(*asked, f"mine@{step}").stdout)
        (fact,) = result["facts"]
        assert fact["fate"] == ("kept" if "Aldery" in result["summary"] else "lost")


def test_standard_input_is_summarized_and_asked_about() -> None:
    QUESTIONS.write_text(json.dumps(ABOUT_IT[0]))
    done = summarize("-", "--json", "--questions", QUESTIONS, given=TEXT)
    result = json.loads(done.stdout)
    assert [fact["fate"] for fact in result["facts"]] == ["kept"]
    assert (result["file"], result["model"]) == ("standard input", "mine@0")
    assert result["words"] == count_words(result["summary"])
    assert (result["parts"], result["document_words"]) == (1, count_words(TEXT))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "questions.jsonl, line 1: it is not JSON"),
        ("[]", "questions.jsonl, line 1: it is not a JSON object"),
        ("[" * 100_000, "questions.jsonl, line 1: it is not JSON"),
        ('\n{"question": "?"}', "questions.jsonl, line 2: 'answer' is missing"),
        (" ", "holds no questions"),
    ],
)
def test_bad_questions_are_named_by_line(content: str, said: str) -> None:
    QUESTIONS.write_text(content)
    done = summarize(STORY, "--questions", QUESTIONS, code=1)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_mistyped_name_is_said_before_a_model_is_looked_for() -> None:
    done = summarize("storry.txt", "--url", "http://127.0.0.1:1/v1", code=1)
    assert done.stderr == "There is no file storry.txt. See whether its name is right.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "nobody"), "holds no run 'nobody'"),
        (("--model", "/a/folder"), "holds no run '/a/folder'"),
        (("--model", ".."), "holds no run '..'"),
        (("--model", "mine@7"), "Steps that are there: 0, 1, 2."),
        (("--model", "@1"), "names no model"),
        (("--model", "@best"), "names no model"),
        (("--model", "mine@"), "names no model"),
        (("--model", "mine@first"), "names no model"),
        (("--model", "mine@-1"), "names no model"),
        (("--url", "127.0.0.1:1"), "must start with http://"),
        (("--url", "http://127.0.0.1:1/v1"), "No server answers at http://127.0.0.1:1/v1"),
    ],
)
def test_a_mistake_gets_one_sentence(arguments: tuple[str, ...], said: str) -> None:
    done = summarize(STORY, *arguments, code=1)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@dataclass
class Server:
    """Answers with the first words of a document, one more than asked for where it says so."""

    seen: list[ChatRequest] = field(default_factory=list)
    url: str = ""

    async def complete(self, asked: ChatRequest) -> Completion:
        self.seen.append(asked)
        request = request_in(asked.messages)
        words = request.text.split()
        more = "too long" in request.text
        finish = "length" if more else "stop"
        return Completion(
            asked.model, [Choice(" ".join(words[: request.words_max + more]), finish)]
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("PRECIS_API_KEY", "the-key")
    server = Server()
    with served(completions_app(server.complete, lambda: ["mine@3", "other@1"], "the-key")) as url:
        server.url = f"{url}/v1"
        yield server


def test_a_server_is_asked_as_in_training(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    arguments: tuple[Any, ...] = (STORY, "--url", server.url, "--words", 25, "--json")
    done = summarize(*arguments, "--model", "mine")
    assert json.loads(done.stdout)["model"] == "mine@3"
    (asked,) = server.seen
    assert (asked.model, asked.temperature, asked.max_tokens) == ("mine@3", 0.0, 114)
    assert request_in(asked.messages).words_max == 25
    refused = summarize(*arguments, PRECIS_API_KEY="another", code=1)
    assert "rejects the key. Set PRECIS_API_KEY" in refused.stderr
    unclear = summarize(*arguments, code=1)
    assert "there are: mine@3, other@1" in unclear.stderr
    bare = summarize(STORY, "--url", server.url.removesuffix("/v1"), code=1)
    assert "lists no models, as OpenAI's API does. See whether --url ends in /v1" in bare.stderr
    small = summarize(STORY, "--url", server.url, "--model", "mine@3", "--context", 512, code=1)
    assert "no room for a document" in small.stderr
    STORY.write_text("This is too long. " * 20)
    long = summarize(STORY, "--url", server.url, "--model", "mine@3", "--words", 20)
    assert "the summary has 21 words, over the 20 asked for" in long.stderr
    assert "The summary of mine@3 is cut off at its length limit" in caplog.text


def test_a_served_model_is_asked_for_what_it_was_trained_for(
    server: Server, tmp_path: Path
) -> None:
    write_adapter(tmp_path / "adapter")
    runs = FolderStore(tmp_path / "runs")
    put_run(runs, "mine", tmp_path / "adapter")
    STORY.write_text("Each of these sentences is as long as the others are. " * 120)
    asked = (STORY, "--url", server.url, "--model", "mine@3", "--json")
    done = summarize(*asked, store=runs)
    assert {request_in(one.messages).words_max for one in server.seen} == {120}
    assert json.loads(done.stdout)["parts"] > 1  # it was trained, and is served, with 2,048 tokens
    server.seen.clear()
    done = summarize(*asked, "--context", 4096, "--words", 30)
    assert {request_in(one.messages).words_max for one in server.seen} == {30}
    assert json.loads(done.stdout)["parts"] == 1
    command = f"summarize {STORY} --url {server.url} --model mine@3 --store gs://x"
    done = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert "How mine@3 was trained is not known here" in done.stderr


def test_a_served_policy_reads_prose_and_an_agent_none(store: FolderStore, server: Server) -> None:
    page = STORY.with_suffix(".md")
    page.write_text("# The mill\n\n| year |\n|---|\n| 1784 |\n\nIt closed in **1967**.\n")
    asked = (page, "--url", server.url, "--model", "mine@3")
    write_record(store, "mine", TrainingRecord(**{**AS_TRAINED, "base_model": "extractive"}))
    summarize(*asked)
    write_record(store, "mine", TrainingRecord(**AN_AGENT))
    refused = summarize(*asked, code=1)
    assert "mine@3 is an agent, and writes no summaries." in refused.stderr
    assert [request_in(one.messages).text for one in server.seen] == ["It closed in 1967."]


@pytest.mark.parametrize("key", ["the-key\nanother", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_not_quoted(server: Server, key: str) -> None:
    asked = (STORY, "--url", server.url, "--model", "mine")
    done = summarize(*asked, PRECIS_API_KEY=key, code=1)
    assert "PRECIS_API_KEY holds characters that no key has" in done.stderr
    assert "the-key" not in done.stderr and "schl" not in done.stderr
    summarize(*asked, PRECIS_API_KEY="the-key\r\n")


def test_a_long_document_is_split_and_told_of(server: Server) -> None:
    sentences = [f"Fact number {n} stands in sentence {n} of this document." for n in range(300)]
    STORY.write_text(" ".join(sentences))
    arguments = (STORY, "--url", server.url, "--model", "mine@3", "--words", 40, "--context", 2000)
    done = summarize(*arguments, "--json")
    result = json.loads(done.stdout)
    assert result["parts"] > 1
    assert f"summarized in {result['parts']} parts" in done.stderr
    assert len(server.seen) == result["parts"] + 1
    room = room_for_text(2000, 40)
    assert all(len(request_in(one.messages).text.encode()) <= 3 * room for one in server.seen)
    # The last request is of the summaries of all parts, in their order.
    parts = [request_in(one.messages).text.split()[2] for one in server.seen[:-1]]
    joined = request_in(server.seen[-1].messages).text
    at = [joined.index(f"Fact number {number} ") for number in sorted(parts, key=int)]
    assert at == sorted(at)


class Shortening(Summarizer):
    """Returns a share of the characters of each text."""

    def __init__(self, share: float) -> None:
        self.picks_sentences = False
        self.context_tokens = 800
        self._share = share
        self.asked: list[str] = []

    async def write(self, text: str, words_max: int) -> str:
        self.asked.append(text)
        return text[: int(self._share * len(text))]


async def test_summaries_of_parts_that_stay_as_long_are_asked_for_once() -> None:
    text = " ".join(f"Fact number {n} stands in sentence {n}." for n in range(300))
    summarizer = Shortening(1.0)
    with pytest.raises(ModelError, match="do not get shorter"):
        await summarize_text(summarizer, Text("a.txt", text), 40)
    assert len(summarizer.asked) == len(set(summarizer.asked)) > 1


async def test_summaries_that_get_shorter_are_summarized_again_also_in_as_many_parts() -> None:
    text = " ".join(f"Fact number {n} stands in sentence {n}." for n in range(70))
    summarizer = Shortening(0.7)
    summary, parts = await summarize_text(summarizer, Text("a.txt", text), 40)
    assert (parts, len(summarizer.asked)) == (2, 2 + 2 + 1)
    assert summary == summarizer.asked[-1][: len(summary)]
