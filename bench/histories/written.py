"""Runs and nights as the product itself writes them: their figures are made up, nothing else."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from precis.config import DocumentsConfig, Retention, TrainConfig
from precis.records.documents import Document, load_corpus
from precis.records.ledger import Ledger, StepRecord, Validation, write_ledger
from precis.records.results import (
    TRAINED,
    Provenance,
    frame_of,
    results_key,
    rows_of,
    write_results,
)
from precis.records.spend import Spend
from precis.records.summary import JudgedSummary, Summary
from precis.records.verdict import Answer, Scored
from precis.run.checkpoints import commit
from precis.run.lease import leased
from precis.run.retention import kept
from precis.store import Store

_DOCUMENTS = DocumentsConfig(train_size=40, val_size=32)
_CONTENDERS = ((TRAINED, 30), ("gpt-4o", None), ("gemini-2.5-flash", None), ("lead-350", None))
_FIRST_NIGHT = datetime(2024, 1, 1, 3, tzinfo=UTC)


def run_name(number: int) -> str:
    return f"summarizer-{number:04d}"


def write_runs(store: Store, count: int, steps: int) -> None:
    """Runs that have come to their end, each with its newest checkpoint; the last has as many as
    are kept of that many steps."""
    ledger = ledger_of(store.url, steps)
    with TemporaryDirectory() as folder:
        (Path(folder) / "adapter_model.safetensors").write_bytes(b"weights" * 100)
        for number in range(count):
            named = ledger.model_copy(update={"model": run_name(number)})
            keeps = kept(range(steps + 1), Retention(), {}) if number == count - 1 else {steps}
            asyncio.run(_write_run(store, named, Path(folder), sorted(keeps)))


async def _write_run(store: Store, ledger: Ledger, files: Path, checkpoints: list[int]) -> None:
    name = ledger.model
    async with leased(store, name, f"{name} (1f0c)") as lease:
        for step in checkpoints:
            record = ledger.steps[step - 1] if step else None
            commit(store, name, step, files, ledger.config, record, lease=lease.id)
        write_ledger(store, ledger, None)


def ledger_of(store: str, steps: int) -> Ledger:
    """The ledger of a run of so many steps, each of which was validated."""
    settings = TrainConfig(model="template", steps=steps, store=store, documents=_DOCUMENTS)
    ledger = Ledger(model="template", config="0" * 64, corpus="1" * 64, run_id="1f0c")
    ledger = ledger.under(settings.model_dump(mode="json"))
    for step in range(steps):
        ledger = ledger.add_validation(_validation(step)).advance(_step(step), "2" * 64)
    return ledger.add_validation(_validation(steps))


def _step(step: int) -> StepRecord:
    return StepRecord(
        step=step,
        digest="3" * 64,
        reward=0.5,
        reward_std=0.1,
        words=320.5,
        groups_trained=5,
        groups_dropped={"no_variance": 1},
        unscored={"timeout": 1},
        disqualified={"over_length": 2},
        trainer={f"loss/part_{part}": 0.123456789 for part in range(8)},
        seconds=dict.fromkeys(("gather", "train", "wait", "commit"), 2.345678901),
        commit_s=1.5,
        judge=Spend(usd=0.01),
    )


def _validation(step: int) -> Validation:
    return Validation(
        step=step,
        accuracy=0.5 + step / 1000,
        low=0.4,
        high=0.6,
        words=321.5,
        seconds=4.5,
        unscored={},
        correct=(2,) * _DOCUMENTS.val_size,
        asked=(4,) * _DOCUMENTS.val_size,
        copied=0.25,
        last_gain=step,
    )


def write_nights(store: Store, model: str, count: int) -> pl.DataFrame:
    """Benchmarks of a model, one a night; the rows of the next night, which is not written."""
    rows = benchmark_rows()
    with TemporaryDirectory() as folder:
        for number in range(count):
            frame = _at_night(rows, number)
            write_results(frame, Path(folder) / "results.parquet")
            store.upload(Path(folder) / "results.parquet", results_key(model, frame["run"][0]))
    return _at_night(rows, count)


def _at_night(rows: pl.DataFrame, number: int) -> pl.DataFrame:
    began = _FIRST_NIGHT + timedelta(days=number)
    run = f"{began:%Y%m%dT%H%M%SZ}-0000"
    return rows.with_columns(
        pl.lit(run).alias("run"), pl.lit(began).dt.cast_time_unit("us").alias("night")
    )


def benchmark_rows() -> pl.DataFrame:
    """The rows of a benchmark, of which the night is still to be said."""
    documents = load_corpus(_DOCUMENTS).validation
    rows = []
    for place, (model, step) in enumerate(_CONTENDERS):
        provenance = Provenance("", model, step, "judge", "two calls v1", "4" * 64, "5" * 64, "1")
        for number, document in enumerate(documents):
            rows += rows_of(_judged(document, place + number), provenance)
    return frame_of(rows)


def _judged(document: Document, draw: int) -> JudgedSummary:
    text = " ".join(document.text.split()[:350])
    answers = []
    for number, question in enumerate(document.questions):
        is_correct = (draw + number) % 3 > 0
        answers.append(Answer(question.id, question.answer, is_correct, question.answerable))
    return JudgedSummary(document, Summary(text, "stop", 2.5, 1800, 450), Scored(tuple(answers)))
