"""`precis runs`: the runs of a store, and commands on one: show, export, restart, repair,
delete."""

import asyncio
import json
import webbrowser
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text  # a status takes any other text for markup

from precis.commands.terminal import (
    StoreOption,
    agree,
    echo,
    errors,
    plain_console,
    say,
    sentences,
)

# The shell's completion imports this module at every Tab, so a command does its own imports.
if TYPE_CHECKING:
    from cli.tables import Table
    from precis.store import Store

app = typer.Typer(help="The live runs, and the runs of a store.")

AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON, for a program.")]

Model = Annotated[str, typer.Argument(help="Name of the model.")]


@app.callback(invoke_without_command=True)
def print_live_runs(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the running and the waiting runs, each with its step.

    The other commands are about the runs of a store.
    """
    if context.invoked_subcommand is not None:
        return
    with sentences():
        from cli import prefect_server

        if prefect_server.find() is None:
            if as_json:
                _print_json([])
            else:
                echo("No Prefect server is configured or up, so nothing runs.")
            return
        prefect_server.attach()
        from cli.live_runs import as_lines, read_live_runs  # after its address is set

        runs = asyncio.run(read_live_runs(datetime.now(UTC)))
        if as_json:
            _print_json(list(map(asdict, runs)))
            return
        for line in as_lines(runs, plain_console().width) or ["Nothing runs, and nothing waits."]:
            echo(line)


@app.command("list")
def print_runs(store: StoreOption = "", as_json: AsJson = False) -> None:
    """List the runs of a store with their steps, scores, costs and holders."""
    with sentences():
        from cli.tables import run_record, runs_table
        from precis.runs.overview import list_runs

        at = _open(store)
        with errors.status(Text(f"Reading {at.url} …")) as status:
            runs, unreadable = list_runs(
                at,
                lambda done, total: status.update(
                    Text(f"Reading {at.url}: {done:,} of {total:,} …")
                ),
            )
        if as_json:
            _print_json(list(map(run_record, runs)))
        elif not (runs or unreadable):
            echo(f"{at.url} holds no runs yet. `make rehearse` trains one in a minute.")
        elif runs:
            _print_table(runs_table(runs))
        for model, why in unreadable.items():
            say(f"{model}: {why}")


@app.command()
def show(
    model: Model,
    store: StoreOption = "",
    last: Annotated[int, typer.Option(min=1, help="Newest steps to list.")] = 20,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare all checksums, not only the sizes.")
    ] = False,
) -> None:
    """Show one run: its settings, its steps, its checkpoints and their missing files."""
    with sentences():
        from cli.tables import checkpoints_table, facts, steps_table
        from precis.runs.overview import kept_checkpoints, overview

        at = _open(store, model)
        run = overview(at, model)
        with errors.status(Text(f"Reading the checkpoints in {at.url} …")):
            checkpoints = kept_checkpoints(at, model, read=verify)
        told = facts(run)
        width = max(len(name) for name, _ in told)
        for name, value in told:
            echo(f"{name:<{width}} {value}")
        echo("")
        _print_table(steps_table(run.ledger, last))
        if len(run.ledger.steps) > last:
            echo(f"The newest {last} of {len(run.ledger.steps)} steps; --last lists more.")
        echo("")
        _print_table(checkpoints_table(checkpoints, read=verify))


@app.command("export")
def export_run(
    model: Model,
    to: Annotated[Path, typer.Option(help="Folder to write to; created if missing.")],
    store: StoreOption = "",
) -> None:
    """Write a run's metrics and trajectories, as parquet, and its ledger to a folder."""
    with sentences():
        from precis.runs.export import export

        for file in export(_open(store, model), model, to):
            echo(str(file))


@app.command()
def restart(
    model: Model,
    step: Annotated[int, typer.Option(min=0, help="The step to go back to.")],
    store: StoreOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Reset a run to an earlier step; all later steps are deleted, once you agree.

    To keep them, start another run with `from_checkpoint` instead.
    """
    with sentences():
        from precis.runs.restart import restart as restart_run
        from precis.text import count_of

        at = _open(store, model)
        if not yes:
            from precis.runs.checkpoints import committed_steps
            from precis.runs.restart import load_reached

            reached = load_reached(at, model, step)
            later = [one for one in committed_steps(at, model) if one > step]
            steps = count_of(reached.next_step - step, "step")
            checkpoints = count_of(len(later), "checkpoint")
            agree(
                f"This deletes the {steps} and {checkpoints} after step {step} of {model} in "
                f"{at.url}, for good. Continue?",
                "Nothing was deleted.",
            )
        ledger = asyncio.run(restart_run(at, model, step))
        echo(
            f"{model} is at step {ledger.next_step} again, and continues from there when it is "
            f"next started. What it has spent, ${ledger.usd:.2f}, stays counted."
        )


@app.command()
def repair(
    model: Model,
    store: StoreOption = "",
    take_over: Annotated[
        bool,
        typer.Option("--take-over", help="Take the run from its holder; replace a damaged lease."),
    ] = False,
) -> None:
    """Rebuild a lost or damaged ledger of a run from its checkpoints."""
    with sentences():
        from cli.tables import describe_repair
        from precis.runs.repair import repair as repair_run
        from precis.runs.repair import repair_lease

        at = _open(store, model)
        if take_over and asyncio.run(repair_lease(at, model)):
            echo(f"The damaged lease of {model} is replaced. Its ledger is intact.")
            return
        with errors.status(Text(f"Reading the checkpoints in {at.url} …")):
            repaired = asyncio.run(repair_run(at, model, take_over))
        for line in describe_repair(repaired):
            echo(line)


@app.command("compare")
def compare_runs(
    models: Annotated[list[str], typer.Argument(help="Names of two models or more.")],
    store: StoreOption = "",
    html: Annotated[
        bool, typer.Option("--html", help="Open the curves over each other in a browser.")
    ] = False,
) -> None:
    """Compare runs: cost, the paired differences, and summaries side by side."""
    with sentences():
        from cli.tables import runs_side_by_side, summaries_side_by_side
        from precis.report.run_comparison import compare, comparison_html, describe_differences
        from precis.runs.reports import page_file

        at = _open(store, *models)
        found = compare(at, models)
        if html:
            page = comparison_html(found, at.url, datetime.now(UTC))
            _show_page(page, page_file(models[0], "compared.html"))
            return
        _print_table(runs_side_by_side(found))
        for line in ("", *describe_differences(found), *summaries_side_by_side(found)):
            echo(line)


@app.command("open")
def open_report(model: Model, store: StoreOption = "") -> None:
    """Open the newest benchmark's report in a browser, from a bucket too."""
    with sentences():
        from precis.runs.reports import report_file

        _open_in_browser(report_file(_open(store, model), model))


@app.command("rollouts")
def open_rollouts(
    model: Model,
    store: StoreOption = "",
    step: Annotated[
        list[int] | None, typer.Option(min=0, help="A step to show; else all. Repeat it for more.")
    ] = None,
) -> None:
    """Read all rollouts of a run in a browser, also while it trains: one page, from the store."""
    with sentences():
        from precis.report.rollouts_page import gather_rollouts, rollouts_html
        from precis.runs.reports import page_file

        at = _open(store, model)
        with errors.status(Text(f"Reading the rollouts in {at.url} …")):
            found = gather_rollouts(at, model, step or ())
            page = rollouts_html(found, model, at.url, datetime.now(UTC))
        _show_page(page, page_file(model, "rollouts.html"))


@app.command("delete")
def delete_run(
    model: Model,
    store: StoreOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete a run for good: in the store, in Prefect and on this machine, once you agree."""
    with sentences():
        from cli.deletion import delete, delete_from_prefect
        from precis.runs.overview import sizes_of_run
        from precis.text import count_of

        at = _open(store, model)
        sizes = sizes_of_run(at, model)
        if not yes:
            agree(
                f"This deletes {count_of(len(sizes), 'file')} of {model} in {at.url} "
                f"({sum(sizes.values()) / 1e6:,.1f} MB), its runs in Prefect and its work folder "
                "here, for good. Continue?",
                "Nothing was deleted.",
            )
        runs = asyncio.run(delete(at, model, partial(delete_from_prefect, model, at.url)))
        echo(f"{model} is deleted, and {count_of(runs, 'run')} of it in Prefect.")


def _show_page(page: str, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page, "utf-8")
    _open_in_browser(file)


def _open_in_browser(file: Path) -> None:
    echo(str(file))
    if not webbrowser.open(file.as_uri()):
        say("No browser could be started: open this file yourself.")


def _print_table(table: "Table") -> None:
    """Print a table in full, in lines longer than the terminal's if need be: names are never cut
    off."""
    from cli.tables import aligned

    names, *rows = aligned(table)
    plain_console().print(names, style="dim", soft_wrap=True)
    for row in rows:
        echo(row)


def _print_json(record: object) -> None:
    typer.echo(json.dumps(record, ensure_ascii=False, indent=2))


def _open(url: str, *models: str) -> "Store":
    """Open the store; an UnusableRun says that a model's name is empty or a path."""
    from precis.environment import Variables
    from precis.records.ledger import no_ledger
    from precis.store import open_store

    store = open_store(url or Variables().store)
    for model in models:
        if not model or "/" in model:
            raise no_ledger(store, model)
    return store
