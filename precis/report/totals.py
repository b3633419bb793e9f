"""What a run has left out and what it has paid, summed over its steps."""

from collections import Counter
from collections.abc import Iterable

from precis.judge.spend import Spend
from precis.ledger import Ledger
from precis.report.wording import causes


def totals(ledger: Ledger) -> str:
    """Markdown: rollouts and groups left out by cause, and the judge's calls and dollars."""
    steps = ledger.steps
    spend = sum((step.judge for step in steps), Spend())
    tokens = spend.prompt_tokens + spend.completion_tokens
    judge = f"{spend.calls:,} calls and {spend.cached:,} from the cache, {tokens:,} tokens"
    dollars = f"${ledger.usd:,.2f}" + (", some at an unknown price" if spend.unpriced else "")
    rows = {
        "Groups trained on": f"{sum(step.groups_trained for step in steps):,}",
        "Groups dropped": _sum(step.groups_dropped for step in steps),
        "Rollouts not scored": _sum(step.unscored for step in steps),
        "Scored zero unread": _sum(step.disqualified for step in steps),
        "Judge": judge,
        "Spent, validation included": dollars,
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["| So far | |", "| --- | --- |", *lines])


def _sum(counts: Iterable[dict[str, int]]) -> str:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return causes(total) or "none"
