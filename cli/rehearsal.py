"""The rehearsal: the training flow on this machine, watched in the terminal."""

import asyncio
import contextlib
import hashlib
import logging
import math
import os
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
    TaskID,
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
from precis.errors import StoreError
from precis.observe.wandb import unreachable
from precis.records.documents import read_documents
from precis.records.ledger import Ledger, find_ledger, load_ledger
from precis.records.rows import holds_rows
from precis.run.lease import check_free, read_lease
from precis.run.shortcomings import nothing_to_train, shortcoming
from precis.store import open_store
from precis.text import count_of
from precis.training.run import work_folder

_BUNDLED_DOCUMENTS = 192
_VALIDATION_MAX = 32
_POLL_S = 0.2
_POLL_STEP_S = 0.001
"""The pause after each read of the ledger, per step in it: reading one of 10,000 steps takes 0.4 s
of the run's own process."""
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


def rehearse(
    config: TrainConfig, server: PrefectServer, console: Console, fresh: bool
) -> BenchmarkReport | None:
    """Run the training flow with a progress bar, then print its results; None without a benchmark.
    With `fresh` an earlier run is forgotten first. Raises PrecisError if the run stopped; called
    again, it continues from its last commit."""
    if not console.is_terminal:  # a log has no spinner
        console.print("Starting Prefect …" if server.started else "Starting …")
    from flows.train import train  # takes seconds, while the server starts

    started = time.perf_counter()
    asyncio.run(server.wait())
    trouble = asyncio.run(unreachable())
    if trouble:
        console.print(trouble, soft_wrap=True)
    store = open_store(config.store)
    store.check()  # makes the bucket, if it may
    if fresh:
        forget(config)
    found = find_ledger(store, config.model)
    idle = nothing_to_train(found[0], config.steps) if found else None
    with _bar(console) as bar, _shown_warnings(bar.console):
        report = asyncio.run(_watch(train, config, server, bar))
    if report is None:
        said = f"{config.model} is trained to step {config.steps}, in {config.store}."
        console.print(said, soft_wrap=True)
        return None
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
    return report


def next_steps(config: TrainConfig, server: PrefectServer) -> dict[str, str]:
    """Return commands to run after a rehearsal, and the purpose of each."""
    precis = "precis" if shutil.which("precis") else ".venv/bin/precis"
    is_usual = config.store == open_store(Variables().store).url
    named = "" if is_usual else f" --store {shlex.quote(config.store)}"
    stop = {f"{precis} stop": "stops the Prefect server"} if server.ours else {}
    agent = config.environment
    if agent.kind == "summaries":
        steps = {f"{precis} summarize report.pdf{named}": "uses the model"}
        if config.documents.source == "bundled":
            own = {"make rehearse DOCUMENTS=my-documents/": "trains on documents of your own"}
        else:
            own = {f"{precis} train my_agent.py": "trains an agent of your own: docs/agents.md"}
        return steps | own | stop
    steps = {}
    if agent.kind == "python":
        steps[f"{precis} play {shlex.quote(agent.file)}{named}"] = "shows an episode"
    rented = "lists what a language model on a rented GPU needs: docs/first-h100-run.md"
    return steps | {f"{precis} doctor train/h100": rented} | stop


_SHOWN = {
    "policy",
    "preflight",
    "precis.benchmark.run",
    "precis.training.opening",
    "precis.training.preflight",
    "precis.llm.silence",
    "precis.processes.file_lock",
    "precis.run.lease",
}
"""The modules whose warnings the terminal shows: about scenarios, the judge, retries, and waits."""


class _Warnings(logging.Handler):
    """Prints warnings that the user should see at once; other logs are in Prefect's UI."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "logged_by", record.module) in _SHOWN:
            self._console.print(record.getMessage(), style="yellow", soft_wrap=True)


@contextlib.contextmanager
def _shown_warnings(console: Console) -> Iterator[None]:
    """Show warnings about the training and its delays in the terminal."""
    handler = _Warnings(console)
    loggers = [logging.getLogger(f"prefect.{kind}_runs") for kind in ("flow", "task")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


async def _watch(
    train: Any, config: TrainConfig, server: PrefectServer, bar: Progress
) -> BenchmarkReport | None:
    """Run the flow, with a bar that follows the ledger, as long as a server answers."""
    lost = f"The Prefect server at {server.api} does not answer any more."

    async def leave_without_server() -> None:
        # Every call and event would be retried.
        await server.lost()
        _leave(bar, lost)

    run: asyncio.Task[BenchmarkReport | None] = asyncio.create_task(train(**dict(config)))
    watching = [
        asyncio.create_task(_follow(config, bar)),
        asyncio.create_task(leave_without_server()),
    ]
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
        run.cancel()
        await asyncio.wait([run])
        raise
    finally:
        for one in watching:
            one.cancel()
        await asyncio.wait(watching)


def _leave(bar: Progress, why: str) -> NoReturn:
    """End this process as a kill would; nothing committed is lost."""
    bar.stop()
    say(f"{why} {CONTINUES}")
    os._exit(1)


async def _follow(config: TrainConfig, bar: Progress) -> None:
    store = open_store(config.store)
    shown = bar.add_task("starting", total=config.steps, reward="", score="")
    pause_s = _POLL_S
    is_held = False
    while True:
        with contextlib.suppress(StoreError):  # no ledger yet
            if not is_held:  # until then the ledger is an earlier run's, and this may be refused
                holder = await asyncio.to_thread(read_lease, store, config.model)
                is_held = holder is not None and holder.is_this_process
            if is_held:
                ledger = await asyncio.to_thread(load_ledger, store, config.model)
                _show(ledger, bar, shown, config)
                pause_s = max(_POLL_S, _POLL_STEP_S * len(ledger.steps))
        await asyncio.sleep(pause_s)


def _show(ledger: Ledger, bar: Progress, shown: TaskID, config: TrainConfig) -> None:
    is_trained = ledger.next_step >= config.steps
    reward = f"reward {ledger.steps[-1].reward:.2f}" if ledger.steps else ""
    last = ledger.validations[-1] if ledger.validations else None
    bar.update(
        shown,
        completed=ledger.next_step,
        total=max(ledger.next_step, config.steps),
        description="benchmarking" if is_trained and config.benchmark else "training",
        reward=reward,
        score=f"held-out {last.measure} {last.score}" if last else "",
    )


class _LineProgress(Progress):
    """Progress without a terminal: a line now and then, for a log."""

    def __init__(self, console: Console) -> None:
        super().__init__(console=console, disable=True)
        self._line = ""
        self._phase = ""
        self._at = -math.inf

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        shown = self.tasks[task_id]
        phase = shown.description
        at = time.monotonic()
        steps = f"{phase}: step {shown.completed:.0f} of {shown.total:.0f}"
        words = (steps, shown.fields["reward"], shown.fields["score"])
        line = ", ".join(word for word in words if word)
        if line != self._line and (phase != self._phase or at - self._at >= _LINE_S):
            self.console.print(line, soft_wrap=True)
            self._line = line
            self._phase = phase
            self._at = at


def _bar(console: Console) -> Progress:
    if not console.is_terminal:
        return _LineProgress(console)
    return Progress(
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("{task.fields[reward]}"),
        TextColumn("{task.fields[score]}", markup=False),  # an agent names its measure
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
