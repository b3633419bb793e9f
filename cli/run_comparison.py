"""A comparison of runs as text for a terminal."""

from collections.abc import Iterator

from cli.plain_table import PlainTable
from precis.report.run_comparison import RunComparison, facts_of

_BLOCKS = "▁▂▃▄▅▆▇█"
_POINTS_MAX = 60


def runs_side_by_side(found: RunComparison) -> PlainTable:
    """Tabulate the facts of each run as a whole, with its curves."""
    columns = []
    for run in found.runs:
        steps, *others = facts_of(run).items()
        curves = {
            "reward": curve([one.reward for one in run.ledger.steps]),
            "held out": curve([one.score.value for one in run.ledger.validations]),
        }
        columns.append(dict([steps, *curves.items(), *others]))
    table = PlainTable("", *(run.model for run in found.runs))
    for name in dict.fromkeys(name for column in columns for name in column):
        table.add_row(name, *(column.get(name, "") for column in columns))
    return table


def summaries_side_by_side(found: RunComparison, count: int) -> Iterator[str]:
    """Yield the summaries of the first two runs for the documents on which they differ most."""
    first, second, *_ = (run.model for run in found.runs)
    for one in found.documents[:count]:
        yield f"── {one.document}"
        yield f"{first}, {one.first_accuracy:.0%} kept: {one.first}"
        yield f"{second}, {one.second_accuracy:.0%} kept: {one.second}"


def curve(shares: list[float]) -> str:
    """Shares between 0 and 1 as blocks, on the same scale for all runs; long ones are thinned."""
    step = max(1, -(-len(shares) // _POINTS_MAX))
    # The last point is always there.
    thinned = shares[::-1][::step][::-1]
    tops = [min(max(share, 0.0), 1.0) * (len(_BLOCKS) - 1) for share in thinned]
    return "".join(_BLOCKS[round(top)] for top in tops)
