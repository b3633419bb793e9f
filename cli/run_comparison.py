"""A comparison of runs as text for a terminal."""

from collections.abc import Iterator
from itertools import chain

from cli.tables import PlainTable
from precis.report.run_comparison import RunComparison, facts_of

_BLOCKS = "▁▂▃▄▅▆▇█"
_POINTS_MAX = 60


def runs_side_by_side(found: RunComparison) -> PlainTable:
    """Tabulate the facts of each run as a whole, with its curves."""
    rewards = [[one.reward for one in run.ledger.steps] for run in found.runs]
    scores = [[one.score.value for one in run.ledger.validations] for run in found.runs]
    columns = []
    for place, run in enumerate(found.runs):
        steps, *others = facts_of(run).items()
        curves = {
            "reward": curve(rewards[place], *ends(rewards)),
            "held out": curve(scores[place], *ends(scores)),
        }
        columns.append(dict([steps, *curves.items(), *others]))
    table = PlainTable("", *(run.model for run in found.runs))
    for name in dict.fromkeys(chain.from_iterable(columns)):
        table.add_row(name, *(column.get(name, "") for column in columns))
    return table


def summaries_side_by_side(found: RunComparison, count: int) -> Iterator[str]:
    """Yield the summaries of the first two runs for the documents on which they differ most."""
    first, second, *_ = (run.model for run in found.runs)
    for one in found.documents[:count]:
        yield f"── {one.document}"
        yield f"{first}, {one.first_accuracy:.0%} kept: {one.first}"
        yield f"{second}, {one.second_accuracy:.0%} kept: {one.second}"


def ends(runs: list[list[float]]) -> tuple[float, float]:
    """Return the ends of a scale for all runs: 0 to 1, or wider if values need it."""
    values = list(chain.from_iterable(runs))
    return min([0.0, *values]), max([1.0, *values])


def curve(values: list[float], low: float, high: float) -> str:
    """Draw values between two ends as blocks; if there are many, every n-th, the last included."""
    step = max(1, -(-len(values) // _POINTS_MAX))
    blocks = ""
    for value in values[::-1][::step][::-1]:
        blocks += _BLOCKS[round((value - low) / (high - low) * (len(_BLOCKS) - 1))]
    return blocks
