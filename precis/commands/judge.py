"""`precis judge`: its cache, and an audit of its verdicts."""

import sqlite3
from pathlib import Path
from typing import Annotated

import typer

from precis.commands.terminal import fail, sentences
from precis.errors import ConfigError

# The shell's completion imports this module at every Tab, so a command does its own imports.
_MIB = 2**20

app = typer.Typer(no_args_is_help=True, help="The judge's cache, and an audit of its verdicts.")


@app.command()
def cache(
    prune_to_mb: Annotated[
        float | None, typer.Option(min=0, help="Delete the oldest replies down to so many MiB.")
    ] = None,
) -> None:
    """Show the size of the judge's cache, or prune it."""
    from precis.environment import Variables
    from precis.environments.summaries.judge.cache import CACHE_FILE, ReplyCache

    with sentences():
        file = Variables().home / CACHE_FILE
        if not file.exists():
            return typer.echo(f"There is no cache at {file}: no judge was asked yet.")
    try:
        with ReplyCache(file) as kept:
            if prune_to_mb is not None:
                typer.echo(f"{kept.prune(prune_to_mb * _MIB):,} replies deleted.")
            entries, size = kept.stats()
    except sqlite3.Error as error:
        fail(f"The cache {file} can't be read ({error}). Delete it if it is damaged.")
    typer.echo(f"{file}: {entries:,} replies in {size / _MIB:.1f} MiB.")


@app.command()
def audit(
    results: Annotated[list[Path], typer.Argument(help="results.parquet of a benchmark or more.")],
    samples: Annotated[int, typer.Option(min=1, help="Summaries to sample.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="The sheet to write; by default judge-audit.csv beside the results."),
    ] = None,
    contender: Annotated[
        str, typer.Option(help="Sample only its summaries, such as `trained@30`.")
    ] = "",
    filled: Annotated[
        Path | None,
        typer.Option(help="The sheet with a person's verdicts, to report the agreement."),
    ] = None,
) -> None:
    """Write a sample of a judge's verdicts to a sheet, for a person to judge too.

    Once the sheet is filled in, --filled reports how far judge and person agree, and the accuracy
    that follows.
    """
    import polars as pl

    from precis.environments.summaries.judge import audit as sheets
    from precis.records.questions import read_answers
    from precis.statistics.standings import contenders, rows_by

    sheet = out or results[0].parent / "judge-audit.csv"
    with sentences():
        # A file may be given twice, or with a copy.
        rows = pl.concat(list(map(read_answers, results))).unique(maintain_order=True)
        if filled is not None:
            typer.echo(sheets.report_on_sheet(rows, filled))
            return
        if contender:
            known = {str(one): one for one in contenders(rows)}
            if contender not in known:
                raise ConfigError(f"--contender {contender!r} is none of {', '.join(known)}.")
            rows = rows_by(rows, known[contender])
        chosen = sheets.draw_samples(rows, samples, seed)
        if not chosen:
            raise ConfigError("These results hold no verdict of a judge: nothing to audit.")
        sheets.check_sheet(sheet, chosen)
        if sheet.exists():  # a person may have filled it in
            typer.echo(f"{sheet} is there already, and stays as it is.")
        else:
            sheet.parent.mkdir(parents=True, exist_ok=True)
            sheet.write_text(sheets.as_sheet(chosen), encoding="utf-8")
            typer.echo(f"Fill in {sheet}, and give it with --filled.")
