"""`precis judge`: its cache, and an audit of its verdicts."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
import typer

from precis.commands.terminal import fail, sentences
from precis.config import DocumentSource, JudgeConfig
from precis.environment import Environment, private_home
from precis.environments.summaries.judge.audit import AuditSample, documents_of, draw_samples
from precis.environments.summaries.judge.audit_report import as_jsonl, as_markdown, report_on_sheet
from precis.environments.summaries.judge.audit_sheet import as_sheet, check_sheet
from precis.environments.summaries.judge.cache import CACHE_FILE, ReplyCache
from precis.environments.summaries.judge.client import JudgeClient
from precis.environments.summaries.judge.endpoint import endpoint_for
from precis.environments.summaries.judge.protocol import Protocol
from precis.errors import ConfigError, PrecisError
from precis.llm.providers import Endpoint
from precis.processes.child import child_service
from precis.records.documents import Document, read_documents
from precis.records.ledger import find_ledger
from precis.records.questions import read_answers
from precis.records.verdict import Verdict
from precis.statistics.standings import contenders, rows_by
from precis.store import FolderStore

_PROTOCOLS: tuple[Protocol, ...] = ("batched", "per_question")
_MIB = 2**20
_PAGE = "judge-audit.md"
_DEEPEST = 4
"""Results lie so many folders, or fewer, below the store."""

app = typer.Typer(no_args_is_help=True, help="The judge's cache, and an audit of its verdicts.")


@app.command()
def cache(
    prune_to_mb: Annotated[
        float | None, typer.Option(min=0, help="Delete the oldest replies down to so many MiB.")
    ] = None,
    older_than_days: Annotated[
        float | None, typer.Option(min=0, help="Delete replies that were not used for so long.")
    ] = None,
    path: Annotated[
        Path | None, typer.Option(help="The cache's file; by default the one in PRECIS_HOME.")
    ] = None,
) -> None:
    """Show the size of the judge's cache and how often it was hit, or prune it."""
    file = path or Environment().home / CACHE_FILE
    if not file.exists():
        typer.echo(f"There is no cache at {file}: no judge was asked yet.")
        return
    bytes_max = None if prune_to_mb is None else int(prune_to_mb * _MIB)
    older_than_s = None if older_than_days is None else older_than_days * 86_400
    try:
        _show_cache(file, bytes_max, older_than_s)
    except sqlite3.Error as error:
        fail(f"The cache {file} can't be read ({error}). Delete it if it is damaged.")


@app.command()
def audit(
    results: Annotated[list[Path], typer.Argument(help="Parquet files of a benchmark.")],
    samples: Annotated[int, typer.Option(min=1, help="Summaries to sample.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The page to write, with a .jsonl and a .csv of its name; by default "
            "judge-audit.md beside the results."
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option(help="Judge the sample again by both protocols; this costs calls.")
    ] = True,
    documents: Annotated[
        str,
        typer.Option(
            help="The corpus of the results: `bundled`, a Hub name, file or folder; by default "
            "that of their run."
        ),
    ] = "",
    provider: Annotated[
        Literal["lexical", "openrouter", "google", "url"], typer.Option(help="The judge to ask.")
    ] = "lexical",
    model: Annotated[str, typer.Option(help="Its model; empty takes the provider's.")] = "",
    base_url: Annotated[str, typer.Option(help="Its endpoint, for provider `url`.")] = "",
    contender: Annotated[
        str, typer.Option(help="Sample only its summaries, such as `trained@30`.")
    ] = "",
    filled: Annotated[
        Path | None,
        typer.Option(help="The sheet, with a person's verdicts: how right is the judge?"),
    ] = None,
) -> None:
    """Write some of a judge's verdicts down, for a person to read and to rule on as well.

    Once the sheet is filled in, --filled says how far judge and person agree, and what accuracy
    that leaves.
    """
    if filled is not None:
        with sentences():
            typer.echo(report_on_sheet(_answers_in(results), filled))
        return
    page = out or results[0].with_name(_PAGE)
    try:
        if page.suffix in (".jsonl", ".csv"):
            raise ConfigError(
                f"--out {page} names the page: end it in .md, since data and sheet go beside it in "
                f"{page.stem}.jsonl and {page.stem}.csv."
            )
        rows = _rows_of(_answers_in(results), contender)
        chosen = draw_samples(rows, samples, seed)
        if not chosen:
            raise ConfigError("These results hold no verdict of a judge: nothing to audit.")
        check_sheet(page.with_suffix(".csv"), chosen)
        verdicts: dict[str, list[Verdict]] = {}
        if compare:
            source = DocumentSource(source=documents) if documents else _source_of(results[0])
            corpus = documents_of(chosen, read_documents(source))
            config = JudgeConfig(provider=provider, model=model, base_url=base_url)
            verdicts = asyncio.run(_judge(config, corpus, chosen))
    except (PrecisError, ValueError) as error:
        fail(str(error))
    try:
        _write(page, as_markdown(chosen, verdicts), as_jsonl(chosen, verdicts), as_sheet(chosen))
    except OSError as error:
        fail(f"Can't write {error.filename or page}: {error.strerror}. Choose another --out.")


def _source_of(results: Path) -> DocumentSource:
    """Return the documents of the run that a benchmark's results lie with; else the bundled
    ones."""
    for folder in results.resolve().parents[:_DEEPEST]:
        found = find_ledger(FolderStore(folder.parent), folder.name) if folder.name else None
        if found is not None:
            named = found[0].settings.get("documents") or {}
            known = {name: named[name] for name in DocumentSource.model_fields if name in named}
            return DocumentSource.model_validate(known)
    return DocumentSource()


def _answers_in(paths: Sequence[Path]) -> pl.DataFrame:
    return pl.concat(list(map(read_answers, paths)))


def _rows_of(results: pl.DataFrame, contender: str) -> pl.DataFrame:
    """Those of one contender; all where none is named."""
    known = {str(one): one for one in contenders(results)}
    if contender and contender not in known:
        raise ConfigError(f"--contender {contender!r} is none of {', '.join(known)}.")
    return rows_by(results, known[contender]) if contender else results


async def _judge(
    config: JudgeConfig, corpus: Sequence[Document], chosen: Sequence[AuditSample]
) -> dict[str, list[Verdict]]:
    """Return the verdicts of each protocol on the same summaries."""
    home = private_home()
    found: dict[str, list[Verdict]] = {}
    async with _endpoint(config, home) as endpoint:
        for protocol in _PROTOCOLS:
            asked = config.model_copy(update={"protocol": protocol})
            with ReplyCache(home / CACHE_FILE) as kept:
                async with JudgeClient(endpoint, asked, cache=kept) as judge:
                    found[protocol] = await asyncio.gather(
                        *(
                            judge.score(document, sample.summary)
                            for document, sample in zip(corpus, chosen, strict=True)
                        )
                    )
    return found


@asynccontextmanager
async def _endpoint(config: JudgeConfig, home: Path) -> AsyncIterator[Endpoint]:
    """Provide the judge's endpoint; the lexical one runs for as long as the block does."""
    if config.provider != "lexical":
        yield endpoint_for(config, Environment().keys())
        return
    log = home / "judge.log"
    async with child_service("precis.rehearsal.judges.serve", ["--with-parent"], log) as service:
        yield replace(endpoint_for(config, {}, f"{service.url}/v1"), api_key=service.token)


def _show_cache(file: Path, bytes_max: int | None, older_than_s: float | None) -> None:
    with ReplyCache(file) as kept:
        if bytes_max is not None or older_than_s is not None:
            typer.echo(f"{kept.prune(bytes_max, older_than_s):,} replies deleted.")
        stats = kept.stats()
    typer.echo(
        f"{file}: {stats.entries:,} replies in {stats.bytes / _MIB:.1f} MiB; {stats.hits:,} hits "
        f"and {stats.misses:,} misses ({stats.hit_rate:.0%}) since it was made."
    )


def _write(out: Path, page: str, lines: str, sheet: str) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    data = out.with_suffix(".jsonl")
    table = out.with_suffix(".csv")
    for path, content in ((out, page), (data, lines)):
        path.write_text(content, encoding="utf-8")
    typer.echo(f"Read {out}; the same as data is in {data}.")
    if table.exists():  # a person's work
        typer.echo(f"{table} is there already, and stays as it is.")
        return
    table.write_text(sheet, encoding="utf-8")
    typer.echo(f"Or fill in {table}, and give it with --filled.")
