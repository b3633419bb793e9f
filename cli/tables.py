"""Runs as tables for a terminal."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from rich.cells import cell_len

from precis.records.ledger import Ledger, Metric
from precis.report.run_comparison import RunComparison, facts_of
from precis.report.wording import number, spent, warm_start
from precis.runs.overview import ListedRun, Overview, StoredCheckpoint
from precis.runs.repair import Repaired
from precis.text import count_of

_MB = 1_000_000
_COMPARED = 2
"""Documents or scenarios to show two runs' texts of."""
_OF_SUMMARIES = ("documents.", "rollouts.words_max", "rollouts.length_ramp", "rollouts.reward")
"""The settings that only summaries have."""


Table = list[Sequence[str]]
"""The rows of a table; the first one has the columns' names."""


def aligned(table: Table) -> list[str]:
    """Return each row as one line of any length, with columns as wide as their longest cells.

    rich's tables take a second for a thousand rows.
    """
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = []
        for name, cell, width in zip(table[0], row, widths, strict=True):
            spaces = " " * (width - cell_len(cell))
            is_name = name in ("model", "held by", "")  # names left, figures right
            cells.append(cell + spaces if is_name else spaces + cell)
        lines.append("  ".join(cells).rstrip())
    return lines


def runs_table(runs: Sequence[ListedRun]) -> Table:
    """Return a table with a row for each run."""
    table: Table = [("model", "step", "written, UTC", "held out", "best", "dollars", "held by")]
    for run in runs:
        cells = (
            run.model,
            str(run.step),
            f"{run.written:%Y-%m-%d %H:%M}",
            f"{_figure(run.score, run)} {run.measure}".strip(),
            f"{_figure(run.best, run)} at {run.best_step}" if run.best is not None else "",
            spent(run.usd, is_lower_bound=run.is_lower_bound),
            run.held_by or "",
        )
        table.append(cells)
    return table


def facts(run: Overview) -> list[tuple[str, str]]:
    """Return the facts of a run, with their names, its settings included."""
    ledger = run.ledger
    origin = run.ledger.origin
    begun = "untrained" if ledger.rebuilt_at is None else "unknown, the ledger was rebuilt"
    if origin:
        begun = f"{origin.model}, step {origin.step}, in {origin.store}"
    held = f"{run.holder} since {run.holder.since:%Y-%m-%d %H:%M} UTC" if run.holder else "nobody"
    settings = []
    environment = ledger.settings.get("environment") or {}
    of_summaries = environment.get("kind", "summaries") == "summaries"
    for name, value in _flat(ledger.settings):
        if of_summaries or not name.startswith(_OF_SUMMARIES):
            settings.append((name, value))
    step = str(ledger.next_step)
    if ledger.stopped_early is not None and ledger.best is not None:
        step += f", where it stopped early; the best is {ledger.best.step}"
    return [
        ("begun with", begun),
        ("step", step),
        *([("warm start", warm_start(ledger))] if ledger.variances else []),
        ("written", f"{run.written:%Y-%m-%d %H:%M:%S} UTC"),
        ("dollars", spent(ledger.usd, is_lower_bound=ledger.is_lower_bound, digits=4)),
        ("held by", held),
        *(settings or [("settings", "unknown until the run is started again")]),
    ]


def _flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return all settings by name; nested ones have dotted names."""
    found = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            found += _flat(value, f"{prefix}{name}.")
        elif isinstance(value, str) and value:
            found.append((f"{prefix}{name}", value))
        else:
            found.append((f"{prefix}{name}", json.dumps(value, ensure_ascii=False)))
    return found


def steps_table(ledger: Ledger, last: int) -> Table:
    """Return the newest steps, each with the score of the adapter that it trained further."""
    validations = {one.step: one.metrics for one in ledger.validations}
    sampled = [name for step in ledger.steps for name in step.metrics][:1]
    measured = dict.fromkeys(chain.from_iterable(validations.values()))
    names = [name for name in measured if name not in sampled]
    headings = ["held-out reward" if name == "reward" else name for name in names]
    in_training = [f"sampled {name}" for name in sampled]
    table: Table = [("step", "reward", *in_training, *headings, "seconds", "dollars")]
    for step in ledger.steps[-last:]:
        cells = [str(step.step), f"{step.reward:.3f}"]
        cells += [number(step.metrics.get(name)) for name in sampled]
        cells += _cells(names, validations.get(step.step, {}))
        table.append([*cells, f"{step.wall_s:.1f}", f"{step.usd:.4f}"])
    newest = validations.get(ledger.next_step)
    if newest:
        empty = [""] * len(sampled)
        table.append([str(ledger.next_step), "", *empty, *_cells(names, newest), "", ""])
    return table


def checkpoints_table(checkpoints: Sequence[StoredCheckpoint], *, read: bool) -> Table:
    """Return each checkpoint with its size and its missing files; with `read` these were compared
    with the manifest, not only their sizes."""
    table: Table = [("checkpoint", "MB", "")]
    sound = "whole" if read else "all files there, unread"
    for one in checkpoints:
        table.append((str(one.step), f"{one.bytes / _MB:,.3f}", one.damage or sound))
    return table


def describe_repair(repaired: Repaired) -> Iterator[str]:
    """Describe in sentences what a repair recovered, and what is lost."""
    ledger = repaired.ledger
    at = ledger.next_step
    checkpoints = count_of(len(ledger.checkpoints), "checkpoint")
    yield (
        f"The ledger of {ledger.model} is rebuilt, at step {at}, from {checkpoints}. "
        f"Steps with their records: {len(ledger.steps)} of {at}."
    )
    lost = "the records of the others, " if at > len(ledger.steps) else ""
    yield (
        f"Lost: {lost}every validation, and what was spent beside these records: the budget goes "
        f"by ${ledger.usd:.2f}."
    )
    yield (
        "Start the run with the settings that it had, which it then knows again. All of these "
        "checkpoints stay, since the best of them is not known."
    )
    if repaired.beyond:
        beyond = ", ".join(map(str, repaired.beyond))
        yield f"Left alone: checkpoints beyond the run's newest ({beyond})."
    for sentence in repaired.damage:
        yield f"Damaged: {sentence}"
    if repaired.kept:
        yield f"The damaged ledger is kept as {repaired.kept}."


def run_record(run: ListedRun) -> dict[str, Any]:
    """Return a run's row as JSON values."""
    return {**asdict(run), "written": run.written.isoformat()}


def _cells(names: Sequence[str], metrics: Mapping[str, Metric]) -> list[str]:
    return [metrics[name].with_interval if name in metrics else "" for name in names]


def _figure(score: float | None, run: ListedRun) -> str:
    return f"{score:.1%}" if score is not None and run.is_share else number(score)


def runs_side_by_side(found: RunComparison) -> Table:
    """Tabulate the facts of each run as a whole."""
    columns = [facts_of(run) for run in found.runs]
    table: Table = [["", *(run.model for run in found.runs)]]
    for name in dict.fromkeys(chain.from_iterable(columns)):
        table.append([name, *(column.get(name, "") for column in columns)])
    return table


def summaries_side_by_side(found: RunComparison) -> Iterator[str]:
    """Yield the summaries or rollouts of the first two runs for the documents or scenarios on which
    they differ most."""
    first, second, *_ = (run.line for run in found.runs)
    for one in found.documents.head(_COMPARED).iter_rows(named=True):
        yield f"── {one['document']}"
        for side, run in (("first", first), ("second", second)):
            accuracy = _figure(one[f"{side}_accuracy"], run)
            yield f"{run.model}, {run.measure} {accuracy}: {one[side]}"
