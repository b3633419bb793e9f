"""The rehearsal: the training flow on this machine, watched in the terminal."""

import asyncio
import contextlib
import hashlib
import logging
import math
import os
import re
import shlex
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import httpx
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from cli.agent import name_of
from cli.prefect_server import PrefectServer, keep_running
from precis.benchmark.report import BenchmarkReport
from precis.commands.terminal import CONTINUES, say
from precis.config import DocumentsConfig, Retention, RolloutsConfig, TrainConfig
from precis.environment import Variables, private_home
from precis.records.documents import read_documents
from precis.records.ledger import find_ledger, load_ledger
from precis.records.rows import holds_rows
from precis.runs.lease import check_free
from precis.runs.shortcomings import nothing_to_train, shortcoming
from precis.store import open_store
from precis.text import count_of
from precis.training.run import work_folder

_BUNDLED_DOCUMENTS = 192
_VALIDATION_MAX = 32
_FAREWELL_S = 15.0
_LINE_S = 5.0
"""The time between two lines of progress, without a terminal for a bar."""


def rehearsal_config(
    steps: int, documents: str, seed: int, store: str, take_over: bool = False, model: str = ""
) -> TrainConfig:
    """Return the settings of a rehearsal.

    A sixth of the corpus, at most 32 documents, is held out, and the rest trained on, unless
    VAL_SIZE and TRAIN_SIZE are set. `model` is its name; empty makes one of documents and seed.
    """
    address = open_store(store).url
    corpus = DocumentsConfig(source=documents, train_size=1, val_size=1)
    count = _BUNDLED_DOCUMENTS
    if documents != "bundled":
        # The run itself reports which documents are left out.
        count = len(read_documents(corpus, warn=lambda sentence: None))
    environment = Variables()
    given = environment.model_fields_set
    held_out = max(1, min(_VALIDATION_MAX, count // 6))
    if "val_size" in given:
        held_out = environment.val_size
    trained_on = max(1, count - held_out)
    if "train_size" in given:
        trained_on = environment.train_size
    of_documents = "" if documents == "bundled" else f"-{name_of(Path(documents))}"
    return TrainConfig(
        model=model or f"rehearsal{of_documents}-seed{seed}",
        steps=steps,
        seed=seed,
        documents=DocumentsConfig(source=documents, train_size=trained_on, val_size=held_out),
        store=address,
        # Two cores answer everything here: more requests at a time would only wait longer.
        rollouts=RolloutsConfig(in_flight=8),
        # The learning curve needs all of them.
        retention=Retention(keep_every=1),
        take_over=take_over,
        # A terminal has no Resume button: the same command continues.
        judge_patience_s=0,
    )


def corpus_of(documents: str) -> str:
    """Return the corpus to rehearse with, a file or folder by its whole path: later benchmarks may
    run in another folder. For a folder of texts rules make one in our home, the same each time.
    Raises DocumentsError if nothing can be read, or no question was kept."""
    given = Path(os.path.expanduser(documents)).absolute()
    if documents in ("", "bundled") or not os.path.exists(given):
        return documents
    if holds_rows(given):
        return str(given)
    from precis.commands.questions import make_by_rules, read_texts

    texts = read_texts(given)
    place = hashlib.sha256(str(given.resolve()).encode()).hexdigest()[:8]
    out = private_home() / "corpora" / place / f"{name_of(given)}.parquet"
    make_by_rules(texts, given, out)
    return str(out)


def forget(config: TrainConfig) -> None:
    """Delete this model from the store and the work folder. Raises LeaseHeld if a live run works on
    it, and `take_over` is not set."""
    store = open_store(config.store)
    if not config.take_over:
        check_free(store, config.model)
    store.delete(f"{config.model}/")
    shutil.rmtree(work_folder(config), ignore_errors=True)


def rehearse(config: TrainConfig, server: PrefectServer, console: Console, fresh: bool) -> None:
    """Run the training flow with a progress bar, then print its results. With `fresh` an earlier
    run is forgotten first. Raises PrecisError if the run stopped; called again, it continues from
    its last commit."""
    if not console.is_terminal:  # a log has no spinner
        console.print("Starting Prefect …" if server.started else "Starting …")
    from flows.train import train  # takes seconds, while the server starts

    started = time.perf_counter()
    asyncio.run(server.wait())
    if not console.is_terminal:
        console.print("Starting the run …")
    store = open_store(config.store)
    store.check()  # makes the bucket, if it may
    if fresh:
        forget(config)
    found = find_ledger(store, config.model)
    idle = nothing_to_train(found[0], config.steps, store.url) if found else None
    with _shown(console, config.steps) as bar:
        report = asyncio.run(_watch(train, config, server, bar))
    if report is None:
        said = f"{config.model} is trained to step {config.steps}, in {config.store}."
        console.print(said, soft_wrap=True)
        return
    ledger = load_ledger(store, config.model)
    steps = count_of(ledger.next_step, "step")
    table = Table(title=f"{steps}, {report.held_out}, {time.perf_counter() - started:.0f} s")
    for heading in report.headings:
        table.add_column(heading)
    for line in report.standings:
        table.add_row(*line)
    console.print(table)
    console.print(f"Report   {report.folder}report.html", soft_wrap=True)
    console.print(f"Chart    {report.folder}learning-curve.png", soft_wrap=True)
    for sentence in (idle, report.incomplete, report.caveat, shortcoming(ledger)):
        if sentence:
            console.print(sentence, style="yellow", soft_wrap=True)


def next_steps(config: TrainConfig, server: PrefectServer) -> dict[str, str]:
    """Return commands to run after a rehearsal, and the purpose of each."""
    precis = "precis" if shutil.which("precis") else ".venv/bin/precis"
    is_usual = config.store == open_store(Variables().store).url
    named = "" if is_usual else f" --store {shlex.quote(config.store)}"
    stop = {f"{precis} stop": "stops the Prefect server"} if server.ours else {}
    agent = config.environment
    steps = {}
    if agent.kind == "summaries":
        steps[f"{precis} summarize report.pdf{named}"] = "uses the model"
        if config.documents.source == "bundled":
            own = {"make rehearse DOCUMENTS=my-documents/": "trains on documents of your own"}
            return steps | own | stop
        example = "make rehearse ENVIRONMENT=examples/tic_tac_toe.py"
        steps[example] = "trains an agent; one of your own is such a file: docs/agents.md"
    elif agent.kind == "python":
        steps[f"{precis} play {shlex.quote(agent.file)}{named}"] = "shows an episode"
    rented = "lists what a language model on a rented GPU needs: docs/first-h100-run.md"
    return steps | {f"{precis} doctor train/h100": rented} | stop


_SHOWN = {
    "policy",
    "preflight",
    "precis.benchmark.run",
    "precis.environments.summaries.judge.cache",
    "precis.training.opening",
    "precis.training.preflight",
    "precis.training.serving",
    "precis.llm.silence",
    "precis.observe.sender",
    "precis.observe.wandb",
    "precis.processes.file_lock",
    "precis.runs.lease",
}
"""The modules whose warnings the terminal shows: about scenarios, the judge, services, retries, and
waits."""


_PROGRESS = re.compile(r"step (\d+) of (\d+)(.*)")
"""The line of a committed step in the run's log."""


class _RunInTerminal(logging.Handler):
    """Shows a run by its log: a bar of its steps, or without a terminal a line now and then, and
    the warnings that the user should see at once. The whole log is in Prefect's UI."""

    def __init__(self, bar: Progress, steps: int) -> None:
        super().__init__(logging.INFO)
        self._bar = bar
        self._shown = bar.add_task("starting", total=steps, figures="")
        self._printed_at = -math.inf

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        logged_by = getattr(record, "logged_by", record.module)
        step = _PROGRESS.match(said)
        if record.levelno >= logging.WARNING:
            if logged_by in _SHOWN:
                self._bar.console.print(said, style="yellow", soft_wrap=True)
            return
        is_last = False
        if logged_by == "precis.training.serving":  # of a benchmark
            self._bar.update(self._shown, description="benchmarking")
        elif step:
            done, steps, figures = step.groups()
            is_last = done == steps
            self._bar.update(
                self._shown,
                completed=int(done),
                total=int(steps),
                description="training",
                figures=figures.removeprefix(", "),
            )
        else:
            return
        now = time.monotonic()
        if self._bar.disable and (is_last or now - self._printed_at >= _LINE_S):
            self._bar.console.print(said, soft_wrap=True)
            self._printed_at = now


@contextlib.contextmanager
def _shown(console: Console, steps: int) -> Iterator[Progress]:
    """Show a run in the terminal within the block; yields its bar."""
    bar = Progress(
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}", markup=False),  # an agent names its measure
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    loggers = [logging.getLogger(f"prefect.{kind}_runs") for kind in ("flow", "task")]
    with bar:
        handler = _RunInTerminal(bar, steps)
        for logger in loggers:
            logger.addHandler(handler)
        try:
            yield bar
        finally:
            for logger in loggers:
                logger.removeHandler(handler)


async def _watch(
    train: Any, config: TrainConfig, server: PrefectServer, bar: Progress
) -> BenchmarkReport | None:
    """Run the flow as long as a server answers. SIGTERM acts like Ctrl-C."""
    from prefect.utilities import engine

    lost = f"The Prefect server at {server.api} does not answer any more."

    async def leave_without_server() -> None:
        # Every call and event would be retried.
        await server.lost()
        _leave(bar, lost)

    # It would raise in whatever runs at the moment, outside the training's loop.
    # A background job of a script ignores SIGINT.
    loop, watch = asyncio.get_running_loop(), asyncio.current_task()
    assert watch is not None
    engine._prefect_sigterm_handler = (
        lambda *_: loop.call_soon_threadsafe(watch.cancel)  # type: ignore[assignment]
    )
    run: asyncio.Task[BenchmarkReport | None] = asyncio.create_task(train(**dict(config)))
    watching = asyncio.create_task(leave_without_server())
    try:
        async with keep_running(server, bar.console.print):
            return await asyncio.shield(run)
    except httpx.TransportError:
        if server.answers():
            raise
        _leave(bar, lost)
    except asyncio.CancelledError:
        # Prefect reports the end of the run, and retries for minutes if the server does not answer.
        farewell = threading.Timer(_FAREWELL_S, _leave, (bar, "Interrupted."))
        farewell.daemon = True
        farewell.start()
        if not run.cancelling():  # as SIGTERM in the training's loop has done
            run.cancel()
        with contextlib.suppress(asyncio.CancelledError):  # by a second signal
            await asyncio.wait([run])
        raise KeyboardInterrupt from None
    finally:
        watching.cancel()
        await asyncio.wait({watching})


def _leave(bar: Progress, why: str) -> NoReturn:
    """End this process as a kill would; nothing committed is lost."""
    bar.stop()
    say(f"{why} {CONTINUES}")
    os._exit(1)
