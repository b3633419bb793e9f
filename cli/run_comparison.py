"""A comparison of two runs as text for a terminal."""

from collections.abc import Iterator

from cli.plain_table import PlainTable
from precis.report.run_comparison import RunComparison, SideBySide, seconds_of
from precis.run.overview import Overview
from precis.statistics.intervals import DOCUMENTS_MIN

_BLOCKS = "▁▂▃▄▅▆▇█"
_POINTS_MAX = 60


def runs_side_by_side(found: RunComparison) -> PlainTable:
    """What there is to say of each run as a whole, with its curves."""
    table = PlainTable("", found.first.model, found.second.model)
    for name, *cells in zip(_NAMES, _facts(found.first), _facts(found.second), strict=True):
        table.add_row(name, *cells)
    return table


def describe_difference(found: RunComparison) -> str:
    """Who is ahead, and how sure that is."""
    measured = found.difference
    if measured is None:
        return (
            "No benchmark of both has a document in common: benchmark both on the same documents "
            "to see which is better (`test_documents`)."
        )
    low = 100 * measured.accuracy.low
    high = 100 * measured.accuracy.high
    sentence = (
        f"{found.first.model} − {found.second.model}: {100 * measured.accuracy.mean:+.1f} points "
        f"({low:+.1f} to {high:+.1f}, 95 %; p = {measured.p_value:.3f}), paired over "
        f"{measured.documents} documents of their newest benchmarks."
    )
    if measured.documents < DOCUMENTS_MIN:
        sentence += " Too few documents to say."
    if len(found.protocols) > 1:
        sentence += f" They had different judges ({'; '.join(found.protocols)}): not comparable."
    return sentence


def summaries_side_by_side(found: RunComparison, count: int) -> Iterator[str]:
    """What both wrote of the documents on which they differ most."""
    for one in found.documents[:count]:
        yield f"── {one.document}"
        yield from _summaries(found, one)


_NAMES = ("steps", "reward", "held out", "last", "best", "dollars", "minutes")


def _facts(run: Overview) -> list[str]:
    ledger = run.ledger
    best = run.best
    return [
        str(ledger.next_step),
        curve([one.reward for one in ledger.steps]),
        curve([one.score.value for one in ledger.validations]),
        str(run.last.score) if run.last else "not validated",
        f"{best.score} at {best.step}" if best else "not validated",
        f"{ledger.usd:.2f}",
        f"{seconds_of(run) / 60:.1f}",
    ]


def curve(shares: list[float]) -> str:
    """Shares between 0 and 1 as blocks, on the same scale for all runs; long ones are thinned."""
    step = max(1, -(-len(shares) // _POINTS_MAX))
    # The last point is always there.
    thinned = shares[::-1][::step][::-1]
    tops = [min(max(share, 0.0), 1.0) * (len(_BLOCKS) - 1) for share in thinned]
    return "".join(_BLOCKS[round(top)] for top in tops)


def _summaries(found: RunComparison, one: SideBySide) -> Iterator[str]:
    yield f"{found.first.model}, {one.first_accuracy:.0%} kept: {one.first}"
    yield f"{found.second.model}, {one.second_accuracy:.0%} kept: {one.second}"
