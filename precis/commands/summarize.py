"""`precis summarize`: summaries of files."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precis.commands.terminal import (
    ServerUrl,
    StoreOption,
    echo,
    note,
    say,
    sentences,
)
from precis.errors import ConfigError, DocumentsError, PrecisError, StoreError, without_controls

# The shell's completion imports this module at every Tab, so a command does its own imports.
if TYPE_CHECKING:
    from precis.inference.facts import FactCheck
    from precis.inference.summarizer import Summarizer
    from precis.models.own_servers import Server
    from precis.models.record import TrainingRecord
    from precis.records.documents import Question


@dataclass(frozen=True)
class Result:
    """The result of one file, as printed by `--json`; without questions it has no facts."""

    file: str
    model: str
    summary: str
    words: int
    document_words: int
    parts: int
    facts: list[FactCheck]


def summarize(
    files: Annotated[
        list[Path],
        typer.Argument(help="Text, Markdown, PDF, HTML or Word files, folders, or - for input."),
    ],
    words: Annotated[
        int | None, typer.Option(min=20, help="Longest summary; by default, as in training.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="NAME, NAME@STEP or NAME@best; by default the best that can be used here."
        ),
    ] = "",
    url: ServerUrl = "",
    questions: Annotated[
        Path | None,
        typer.Option(
            help="JSONL with `question` and `answer` about one document: say which facts were not "
            "kept."
        ),
    ] = None,
    context: Annotated[
        int | None, typer.Option(min=512, help="Tokens that the server reads at once.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a file.")] = False,
    store: StoreOption = "",
) -> None:
    """Summarize files with a model trained here, or with any on a server."""
    from precis.inference.facts import read_questions
    from precis.inference.texts import find_files

    with sentences():
        found = find_files(files)
        if questions and len(found) > 1:
            raise ConfigError("--questions is about one document: name one file.")
        asked = read_questions(questions) if questions else []
        opened = _open_summarizer(words, model, url, context, store)
        failed = asyncio.run(_run(found, opened, asked, as_json))
    if failed:
        raise typer.Exit(1)


async def _run(
    files: Sequence[Path],
    opened: AbstractAsyncContextManager[tuple[Summarizer, int, str]],
    asked: Sequence[Question],
    as_json: bool,
) -> int:
    """Summarize each file; report failures and continue. Returns the number of failures."""
    from precis.config import JudgeConfig
    from precis.inference.facts import check_facts, open_judge
    from precis.inference.reader import FileReader
    from precis.inference.summarizer import summarize_text
    from precis.text import count_words

    failed = 0
    told = False
    async with AsyncExitStack() as stack:
        judge = await stack.enter_async_context(open_judge(JudgeConfig())) if asked else None
        summarizer, words, by = await stack.enter_async_context(opened)
        reader = await stack.enter_async_context(FileReader())
        for file in files:
            try:
                text = await reader.read(file)
                written, parts = await summarize_text(summarizer, text, words)
                summary = without_controls(written)
                facts = await check_facts(judge, text.text, summary, asked) if judge else []
            except PrecisError as error:
                is_named = isinstance(error, DocumentsError)
                if isinstance(error, ConfigError) and not is_named:
                    raise  # every file would fail
                say(str(error) if is_named else f"{file}: {error}")
                failed += 1
                continue
            sizes = (count_words(summary), count_words(text.text))
            result = Result(text.name, summarizer.model, summary, *sizes, parts, facts)
            if not told:
                note(f"Written by {by}.")
            told = True
            _show(result, as_json, words, several=len(files) > 1)
    return failed


@asynccontextmanager
async def _open_summarizer(
    words: int | None, model: str, url: str, context: int | None, store: str
) -> AsyncIterator[tuple[Summarizer, int, str]]:
    """Open the summarizer; return it with the number of words and the name to print."""
    from precis.environment import Variables
    from precis.inference.local_server import choose_model, find_served, serve_model, server_at
    from precis.inference.summarizer import SETTINGS, Summarizer
    from precis.llm.client import ChatClient
    from precis.models.prompt import words_of
    from precis.models.serving import CONTEXT_TOKENS
    from precis.settings.trainer import ExtractiveTrainer
    from precis.store import open_store

    opened: AbstractAsyncContextManager[Server]
    is_policy = False
    if url:
        server = server_at(url)
        served = by = await find_served(server.url, model, server.key)
        record = _record_of(store, served)
        opened = nullcontext(server)
    else:
        runs = open_store(store or Variables().store)
        none = StoreError(
            f"{runs.url} holds no model that summarizes.",
            "`make rehearse` trains one in a minute; or name another store (--store).",
        )
        found = await choose_model(runs, model, lambda one: not one.is_agent, none)
        served = by = found.serving_name
        if not model:
            by = f"{found.with_score}, the best that can be used here; --model names another"
        record = found.record
        opened = serve_model(found, context, note)
        is_policy = found.kind == "policy"
    if record and record.is_agent:
        raise ConfigError(
            f"{served} is an agent, and writes no summaries.",
            f"Watch it with `precis play AGENT.py --model {served}`.",
        )
    # A server may have been started with a smaller context than that of the training.
    trained = (record.tokens_max if record else None) or CONTEXT_TOKENS
    tokens = math.inf if is_policy else context or min(trained, CONTEXT_TOKENS)
    base = record.base_model if record else ""
    async with (
        opened as server,
        ChatClient(server.endpoint(served), SETTINGS, prices={}) as client,
    ):
        picks = is_policy or base == ExtractiveTrainer.base_model
        yield Summarizer(client, tokens, picks), words or words_of(record), by


def _record_of(store: str, served: str) -> TrainingRecord | None:
    """Read the record of a served model; None if it is not named NAME@STEP, like ours, or is not in
    the store."""
    from precis.environment import Variables
    from precis.models.record import read_record
    from precis.store import open_store

    name, _, step = served.partition("@")
    if not step.isdecimal():
        return None
    try:
        return read_record(open_store(store or Variables().store), name)
    except (ConfigError, StoreError) as error:
        note(f"How {served} was trained is not known here: {error}")
        return None


def _show(result: Result, as_json: bool, words: int, *, several: bool) -> None:
    """Print a summary; remarks on it go to standard error."""
    if result.parts > 1:
        note(
            f"{result.file} is longer than the model reads at once: it was summarized in "
            f"{result.parts} parts, and their summaries together."
        )
    if result.words > words:
        note(f"{result.file}: the summary has {result.words} words, over the {words} asked for.")
    if as_json:
        echo(json.dumps(asdict(result), ensure_ascii=False))
        return
    if several:
        echo(f"# {result.file}\n")
    echo(result.summary)
    not_kept = [fact for fact in result.facts if fact.fate != "kept"]
    if result.facts:
        echo(f"\nFacts kept: {len(result.facts) - len(not_kept)} of {len(result.facts)}.")
    for fact in not_kept:
        echo(f"- {fact.fate}: {fact.question} {fact.answer}")
    if several:
        echo("")
