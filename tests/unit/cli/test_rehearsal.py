"""What `precis rehearse` makes of its arguments, and what it says while it works."""

import asyncio
import io
import logging
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError
from rich.console import Console
from typer.testing import CliRunner

from cli import prefect_server, rehearsal
from cli.rehearsal import next_steps, rehearsal_config
from precis.commands import main as cli
from precis.config import BenchmarkConfig, DocumentsConfig, TrainConfig
from precis.errors import LeaseHeld
from precis.records.ledger import Ledger, write_ledger
from precis.run.holder import this_process
from precis.run.lease import lease_key, leased
from precis.store import FolderStore
from tests.support.corpora import rows, write_jsonl
from tests.support.ledgers import record, validation


def test_documents_that_can_t_be_read_are_said_before_a_server_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(prefect_server, "find_or_start")
    missing = tmp_path / "own.csv"
    done = CliRunner().invoke(cli.app, ["rehearse", "--documents", str(missing)])
    assert done.exit_code == 1
    assert "own.csv" in done.output
    assert "Traceback" not in done.output


def test_a_sixth_of_the_documents_is_held_out_unless_the_environment_has_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = write_jsonl(tmp_path / "own.jsonl", rows(12))

    def sizes() -> tuple[int | None, int | None]:
        given = rehearsal_config(30, str(documents), 1, str(tmp_path / "store")).documents
        return given.train_size, given.val_size

    assert sizes() == (10, 2)
    monkeypatch.setenv("VAL_SIZE", "5")
    assert sizes() == (7, 5)
    monkeypatch.setenv("TRAIN_SIZE", "3")
    assert sizes() == (3, 5)


def test_each_rehearsal_leads_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PRECIS_STORE", str(tmp_path / "store"))
    bundled = rehearsal_config(30, "bundled", 1, str(tmp_path / "store"))
    assert bundled.model == "rehearsal-seed1"
    assert rehearsal_config(30, "bundled", 1, "store", model="another").model == "another"
    assert list(next_steps(bundled)) == [
        ".venv/bin/precis summarize report.pdf",
        "make rehearse DOCUMENTS=my-documents/",
    ]
    elsewhere = str(tmp_path / "my store")
    own = bundled.model_copy(
        update={"documents": DocumentsConfig(source="own.csv"), "store": elsewhere}
    )
    assert list(next_steps(own)) == [
        f".venv/bin/precis summarize report.pdf --store '{elsewhere}'",
        ".venv/bin/precis train my_agent.py",
    ]
    agent = TrainConfig.model_validate(
        {"trainer": {"kind": "tool_calls"}, "environment": "my agent.py", "store": bundled.store}
    )
    assert list(next_steps(agent)) == [
        ".venv/bin/precis play 'my agent.py'",
        ".venv/bin/precis doctor train/h100",
    ]


async def test_to_begin_afresh_takes_nothing_from_a_run_at_work(tmp_path: Path) -> None:
    config = rehearsal_config(1, "bundled", 1, str(tmp_path / "store"))
    store = FolderStore(tmp_path / "store")
    key = f"{config.model}/ledger.json"
    async with leased(store, config.model, "another"):
        store.put(key, b"{}")
        with pytest.raises(LeaseHeld, match="the run another"):
            rehearsal.forget(config)
        assert store.get(key) is not None
        rehearsal.forget(config.model_copy(update={"take_over": True}))
        assert store.get(key) is None
    store.put(key, b"{}")
    rehearsal.forget(config)
    assert store.get(key) is None


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_that_does_not_fit_into_64_bits_is_refused(seed: int) -> None:
    said = CliRunner().invoke(cli.app, ["rehearse", f"--seed={seed}"])
    assert said.exit_code == 2
    assert "--seed" in said.output and "equal to" in said.output
    for config in (TrainConfig, BenchmarkConfig, DocumentsConfig):
        with pytest.raises(ValidationError, match="seed"):
            config.model_validate({"seed": seed})


def test_without_a_terminal_there_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=False, width=100)
    monkeypatch.setattr(rehearsal, "_LINE_S", 0.0)
    config = TrainConfig(store="s", steps=2)
    with rehearsal._bar(console) as bar:
        shown = bar.add_task("starting", total=2, reward="", score="")
        ledger = Ledger(model="m", config="c", corpus="k").add_validation(validation(0, 0.25))
        for step in range(2):
            rehearsal._show(ledger, bar, shown, config)
            rehearsal._show(ledger, bar, shown, config)  # nothing new is nothing to say
            ledger = ledger.advance(record(step))
        ledger = ledger.add_validation(validation(2, 0.5))
        rehearsal._show(ledger, bar, shown, config)
    # A run that had come further than it is to go, and has no benchmark.
    further = TrainConfig(store="s", steps=1, benchmark=False)
    with rehearsal._bar(console) as bar:
        shown = bar.add_task("starting", total=1, reward="", score="")
        rehearsal._show(ledger, bar, shown, further)
    assert output.getvalue().splitlines() == [
        "training: step 0 of 2, held-out accuracy 25.0%",
        "training: step 1 of 2, reward 0.50, held-out accuracy 25.0%",
        "benchmarking: step 2 of 2, reward 0.50, held-out accuracy 50.0%",
        "training: step 2 of 2, reward 0.50, held-out accuracy 50.0%",
    ]


async def test_an_earlier_runs_progress_is_not_shown_before_this_one_holds_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rehearsal, "_POLL_S", 0.01)
    config = rehearsal_config(2, "bundled", 1, str(tmp_path))
    store = FolderStore(tmp_path)
    write_ledger(store, Ledger(model=config.model, config="c", corpus="k"), None)
    output = io.StringIO()
    bar = rehearsal._bar(Console(file=output, force_terminal=False, width=100))
    following = asyncio.create_task(rehearsal._follow(config, bar))
    with_another = this_process("another", datetime.now(UTC), timedelta(minutes=1))
    other = with_another.model_copy(update={"pid": os.getppid(), "machine": ""})
    store.put(lease_key(config.model), other.model_dump_json().encode())
    await asyncio.sleep(0.2)
    assert output.getvalue() == ""
    async with leased(store, config.model, "this one", take_over=True), asyncio.timeout(30):
        while not output.getvalue():
            await asyncio.sleep(0.01)
    following.cancel()
    assert output.getvalue() == "training: step 0 of 2\n"


def test_an_agents_measure_is_shown_as_it_is() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    bar = rehearsal._bar(console)
    bar.add_task("training", total=2, reward="", score="held-out [won] games [/]")
    with console.capture() as shown:
        console.print(bar)
    assert "held-out [won] games [/]" in shown.get()


@pytest.mark.parametrize("logger", ["prefect.flow_runs", "prefect.task_runs"])
def test_what_preflight_warns_of_and_what_the_run_waits_for_is_said(
    logger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Prefect's own handler sends to a server, which no flow has here.
    monkeypatch.setattr(logging.getLogger(logger), "handlers", [])
    console = Console(file=io.StringIO(), force_terminal=False, width=100)

    def log(level: int, file: str, sentence: str, logged_by: str = "") -> None:
        record = logging.LogRecord(logger, level, file, 1, sentence, None, None)
        if logged_by:
            record.logged_by = logged_by
        logging.getLogger(logger).handle(record)

    with rehearsal._shown_warnings(console):
        log(logging.WARNING, "precis/training/preflight.py", "The judge reads [40%] of it.")
        log(logging.INFO, "precis/training/preflight.py", "All is well.")
        said = "The judge has answered no request for 10 s."
        log(logging.WARNING, "tasks/states.py", said, "precis.llm.silence")
        log(logging.WARNING, "tasks/states.py", "Step 3 is done.", "precis.training.loop")
        log(logging.WARNING, "tasks/states.py", "This is printed in the end.")
    log(logging.WARNING, "precis/training/preflight.py", "Nobody listens any more.")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == [
        "The judge reads [40%] of it.",
        "The judge has answered no request for 10 s.",
    ]
