"""`precis questions make`: a corpus from documents without questions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import ValidationError

from precis.commands.terminal import agree, say, sentences
from precis.errors import ConfigError, DocumentsError

# The shell's completion imports this module at every Tab, so a command does its own imports.
if TYPE_CHECKING:
    from precis.config import JudgeConfig
    from precis.inference.texts import Text
    from precis.llm.providers import Endpoint
    from precis.questions.make import DocumentQuestions
    from precis.records.spend import Prices
    from precis.store import FolderStore

JudgeName = Literal["lexical", "openrouter", "google", "url"]

app = typer.Typer(no_args_is_help=True, help="Questions for documents that have none.")


@app.callback()
def questions() -> None:
    """Questions for documents that have none."""


@app.command()
def make(
    folder: Annotated[Path, typer.Argument(help="Text, Markdown, PDF, HTML or Word files.")],
    out: Annotated[Path, typer.Option(help="The corpus to write, a .parquet file.")],
    url: Annotated[
        str,
        typer.Option(
            help="An OpenAI-compatible server, with its /v1; PRECIS_API_KEY. Without one, rules "
            "write crude questions, free of charge."
        ),
    ] = "",
    model: Annotated[str, typer.Option(help="The model there that writes the questions.")] = "",
    judge: Annotated[JudgeName, typer.Option(help="The judge that tries them.")] = "lexical",
    judge_model: Annotated[str, typer.Option(help="Its model; empty takes the provider's.")] = "",
    judge_url: Annotated[str, typer.Option(help="Its endpoint, for judge `url`.")] = "",
    price: Annotated[
        tuple[float, float] | None,
        typer.Option(help="USD for a million prompt and completion tokens of the model."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Pay without asking.")] = False,
) -> None:
    """Have a model or rules write questions about documents, and keep the useful ones.

    Paid replies are kept beside the corpus: the same command continues from there.
    """
    from precis.inference.local_server import server_at
    from precis.questions.corpus import rows_of
    from precis.records.documents import CRUDE
    from precis.records.spend import PRICES, Price
    from precis.store import FolderStore

    with sentences():
        if out.suffix != ".parquet":
            raise ConfigError(f"--out {out} must end in .parquet.")
        if price and not all(isfinite(dollars) and dollars >= 0 for dollars in price):
            raise ConfigError("--price takes two amounts of dollars, each 0 or more.")
        if bool(url) != bool(model):
            raise ConfigError(
                "--url and --model name the model that writes questions: give both, or neither."
            )
        judged_by = judge_named(judge, judge_model, judge_url)
        if not url and judge != "lexical":
            raise ConfigError(
                "Rules write for nothing, and the lexical judge tries what they write: leave "
                "--judge out, or name a model with --url and --model."
            )
        if not url and price:
            raise ConfigError("--price is of a model: name one with --url and --model.")
        texts = read_texts(folder)
        if not url:
            made = make_by_rules(texts, folder, out)
            typer.echo(CRUDE)
        else:
            prices = {**PRICES, model: Price(*price)} if price else PRICES
            endpoint = server_at(url).endpoint(model, "writer")
            paid = FolderStore(out.with_name(f"{out.name}.paid"))
            made = asyncio.run(_make(endpoint, judged_by, prices, paid, texts, asks=not yes))
            _write(made, rows_of(made, folder), out)
        if any(one.problem for one in made):
            say("The same command tries those again, and pays for nothing else.")
            raise typer.Exit(1)


def judge_named(judge: JudgeName, model: str, url: str) -> JudgeConfig:
    """Return the settings of a command's judge. Raises ConfigError with the option that is missing
    or invalid."""
    from precis.config import JudgeConfig

    if judge == "url" and not (url and model):
        raise ConfigError("--judge url needs --judge-url and --judge-model.")
    if judge != "url" and url:
        raise ConfigError("--judge-url is the address of judge `url`.", "Give --judge url too.")
    if judge == "lexical" and model:
        raise ConfigError(
            "--judge-model is a hosted judge's.", "Give --judge too: openrouter, google or url."
        )
    try:
        return JudgeConfig(provider=judge, model=model, base_url=url)
    except ValidationError:
        raise ConfigError(
            "--judge-url is not an address without a password.",
            "Write http://HOST:PORT/v1; its key is read from JUDGE_API_KEY.",
        ) from None


def make_by_rules(texts: Sequence[Text], folder: Path, out: Path) -> list[DocumentQuestions]:
    """Write a corpus with questions made by rules; the caller warns that they are crude."""
    from precis.config import JudgeConfig
    from precis.inference.facts import open_judge
    from precis.questions.corpus import rows_of
    from precis.questions.make import QuestionMaker
    from precis.questions.rules import RuleWriter
    from precis.records.documents import MADE_BY_RULES

    async def make_all() -> list[DocumentQuestions]:
        async with open_judge(JudgeConfig()) as judge:
            return await QuestionMaker(RuleWriter(), judge).make(texts)

    made = asyncio.run(make_all())
    _write(made, rows_of(made, folder, MADE_BY_RULES), out)
    return made


def _write(made: Sequence[DocumentQuestions], rows: Sequence[dict[str, str]], out: Path) -> None:
    """Write the corpus, and report what it has and what was left out."""
    from precis.questions.corpus import write_corpus
    from precis.text import count_of

    for one in made:
        if one.problem:
            say(f"{one.text.name}: {one.problem}")
    if not rows:
        remedy = (
            "Give more or longer texts, or have a model write them: docs/your-own-documents.md."
        )
        if all(one.problem for one in made):
            remedy = "The same command tries them again."
        raise DocumentsError(
            f"No question was kept, so {out} was not written.{_dropped(made, rows)}", remedy
        )
    write_corpus(rows, out)
    documents = len({row["document_id"] for row in rows})
    unanswerable = _count_unanswerable(rows)
    share = f", {unanswerable:,} of them unanswerable ({unanswerable / len(rows):.0%})"
    without = f" Documents without any, and left out: {len(made) - documents:,}."
    typer.echo(
        f"{out}: {count_of(len(rows), 'question')} about {count_of(documents, 'document')}"
        f"{share if unanswerable else ''}.{without if len(made) > documents else ''}"
        f"{_dropped(made, rows)}"
    )


def read_texts(folder: Path) -> list[Text]:
    """Return the texts of a folder, without duplicates; unreadable files are named and counted."""
    from precis.inference.reader import FileReader
    from precis.inference.texts import find_files

    read: list[Text] = []
    unread = 0

    async def read_all() -> None:
        nonlocal unread
        async with FileReader() as reader:
            for file in find_files([folder]):
                try:
                    read.append(await reader.read(file))
                except DocumentsError as error:
                    say(str(error))
                    unread += 1

    asyncio.run(read_all())
    found: dict[str, Text] = {}
    for text in read:
        found.setdefault(text.text, text)
    if again := len(read) - len(found):
        typer.echo(f"Files that hold the same as another, and are left out: {again:,}.")
    if not found:
        raise DocumentsError(f"{folder} holds no text that can be read.")
    if unread:
        typer.echo(f"Files that could not be read, and are left out: {unread:,}.")
    return list(found.values())


async def _make(
    endpoint: Endpoint,
    judged_by: JudgeConfig,
    prices: Prices,
    paid: FolderStore,
    texts: Sequence[Text],
    *,
    asks: bool,
) -> list[DocumentQuestions]:
    from precis.inference.facts import open_judge
    from precis.llm.client import ChatClient
    from precis.questions.make import QuestionMaker, forecast_judge, forecast_writer
    from precis.questions.writer import SETTINGS, QuestionWriter
    from precis.store.kept import KeptRecords
    from precis.text import write_dollars

    async with AsyncExitStack() as stack:
        judge = await stack.enter_async_context(open_judge(judged_by))
        # Never hedged: that would pay for a document twice.
        client = await stack.enter_async_context(ChatClient(endpoint, SETTINGS, prices=prices))
        # Before anything is paid for: without a place to keep replies, nothing is asked.
        await asyncio.to_thread(paid.check)
        kept = KeptRecords(paid)
        await kept.open()
        maker = QuestionMaker(QuestionWriter(client), judge, kept)
        unwritten = await maker.unwritten(texts)
        judge_costs = judged_by.provider != "lexical"
        untried = await maker.untried(texts) if judge_costs else unwritten
        if unwritten:
            typer.echo(forecast_writer(endpoint.model, unwritten, prices))
        if untried and judge_costs:
            typer.echo(forecast_judge(judged_by, judge.identity["model"], untried))
        if known := len(texts) - len(untried):
            typer.echo(f"{known:,} of {len(texts):,} documents are paid for already.")
        if untried and asks:
            agree("Continue?", "Nothing was paid for.")
        told = 0

        def tell() -> None:
            """Report progress at each tenth of the documents."""
            nonlocal told
            told += 1
            if told * 10 // len(texts) > (told - 1) * 10 // len(texts):
                typer.echo(f"{told:,} of {len(texts):,} documents", err=True)

        made = await maker.make(texts, tell)
        spends = {"writer": client.spend}
        if judge_costs:
            spends["judge"] = judge.spend
    for who, spent in spends.items():
        if spent.calls:
            dollars = "at an unknown price" if spent.unpriced else write_dollars(spent.usd)
            typer.echo(f"The {who} took {spent.calls:,} requests, {dollars}.")
    return made


def _dropped(made: Sequence[DocumentQuestions], rows: Sequence[dict[str, str]]) -> str:
    counts: Counter[str] = Counter()
    for one in made:
        counts.update(one.dropped)
    offered = sum(len(one.unanswered) for one in made)
    counts["unanswerable and not needed"] = offered - _count_unanswerable(rows)
    told = ", ".join(f"{count:,} {why}" for why, count in counts.items() if count)
    return f" Not kept: {told}." if told else ""


def _count_unanswerable(rows: Sequence[dict[str, str]]) -> int:
    from precis.records.documents import UNANSWERABLE

    return sum(row["answer"] == UNANSWERABLE for row in rows)
