"""Runs as tables for a terminal."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cli.plain_table import PlainTable
from precis.records.ledger import Ledger, Validation
from precis.report.wording import warm_start
from precis.run.overview import ListedRun, Overview, StoredCheckpoint

_MB = 1_000_000


def runs_table(runs: Sequence[ListedRun]) -> PlainTable:
    """A line for each run."""
    table = PlainTable("model", "step", "written, UTC", "accuracy", "best", "dollars", "held by")
    for run in runs:
        table.add_row(
            run.model,
            str(run.step),
            f"{run.written:%Y-%m-%d %H:%M}",
            _accuracy(run.accuracy),
            f"{_accuracy(run.best)} at {run.best_step}" if run.best is not None else "",
            f"{run.usd:.2f}",
            run.held_by or "",
        )
    return table


def facts(run: Overview) -> list[tuple[str, str]]:
    """What there is to say of a run as a whole, its settings included, with its names."""
    ledger = run.ledger
    origin = run.ledger.origin
    begun = f"{origin.model}, step {origin.step}, in {origin.store}" if origin else "untrained"
    held = f"{run.holder} since {run.holder.since:%Y-%m-%d %H:%M} UTC" if run.holder else "nobody"
    return [
        ("model", run.model),
        ("begun with", begun),
        ("step", _step(ledger)),
        *([("warm start", warm_start(ledger))] if ledger.variances else []),
        ("written", f"{run.written:%Y-%m-%d %H:%M:%S} UTC"),
        ("dollars", f"{ledger.usd:.4f}"),
        ("held by", held),
        *(_settings(ledger.settings) or [("settings", "not kept by the version that wrote this")]),
    ]


def _step(ledger: Ledger) -> str:
    best = ledger.best
    if ledger.stopped_early is None or best is None:
        return str(ledger.next_step)
    return f"{ledger.next_step}, where it stopped early; the best is {best.step}"


def _settings(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """All settings by their names, dotted where one holds others."""
    return [(name, _format(value)) for name, value in _flat(settings)]


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _format(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def steps_table(ledger: Ledger, last: int) -> PlainTable:
    """The newest steps, with the accuracy of the adapter that each sampled from."""
    accuracies = {one.step: one for one in ledger.validations}
    validated = ("accuracy, 95 %", "copied", "prose")
    table = PlainTable("step", "reward", "words", *validated, "seconds", "dollars")
    for step in ledger.steps[-last:]:
        table.add_row(
            str(step.step),
            f"{step.reward:.3f}",
            f"{step.words:.0f}",
            *_validated(accuracies.get(step.step)),
            f"{sum(step.seconds.values()):.1f}",
            f"{step.judge.usd:.4f}",
        )
    newest = accuracies.get(ledger.next_step)
    if newest:
        table.add_row(str(ledger.next_step), "", "", *_validated(newest), "", "")
    return table


def checkpoints_table(checkpoints: Sequence[StoredCheckpoint]) -> PlainTable:
    """Each checkpoint with its size and what it lacks."""
    table = PlainTable("checkpoint", "MB", "")
    for one in checkpoints:
        table.add_row(str(one.step), f"{one.bytes / _MB:,.3f}", one.damage or "whole")
    return table


def run_record(run: ListedRun) -> dict[str, Any]:
    """A run's line for a program."""
    return {**asdict(run), "written": run.written.isoformat()}


def run_details(
    run: Overview, checkpoints: Sequence[StoredCheckpoint], last: int
) -> dict[str, Any]:
    """All that is shown of a run, for a program."""
    ledger = run.ledger.model_dump(mode="json")
    return {
        **run_record(run.line),
        "origin": ledger["origin"],
        "settings": ledger["settings"],
        "steps": ledger["steps"][-last:],
        "validations": ledger["validations"],
        "checkpoints": list(map(asdict, checkpoints)),
    }


def _accuracy(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _validated(one: Validation | None) -> tuple[str, str, str]:
    """Return a validation's accuracy with its interval, and how much is copied and is prose."""
    if one is None:
        return "", "", ""
    accuracy = f"{one.accuracy:.1%} ({100 * one.low:.1f} to {100 * one.high:.1f})"
    copied = "" if one.copied is None else f"{one.copied:.0%}"
    prose = "" if one.prose is None else f"{one.prose:.0%}"
    return accuracy, copied, prose
