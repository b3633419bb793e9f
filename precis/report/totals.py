"""What a run has left out and what it has paid, summed over its steps."""

from collections import Counter
from collections.abc import Iterable

from precis.records.ledger import Ledger
from precis.records.spend import Spend
from precis.report.wording import causes
from precis.run.outlook import Projection


def totals(ledger: Ledger, ahead: Projection) -> str:
    """Markdown: rollouts and groups left out by cause, the judge's calls, dollars and forecast."""
    steps = ledger.steps
    spend = sum((step.judge for step in steps), Spend())
    tokens = spend.prompt_tokens + spend.completion_tokens
    judge = f"{spend.calls:,} calls and {spend.cached:,} from the cache, {tokens:,} tokens"
    rows = {
        "Groups trained on": f"{sum(step.groups_trained for step in steps):,}",
        "Groups dropped": _sum(step.groups_dropped for step in steps),
        "Rollouts not scored": _sum(step.unscored for step in steps),
        "Scored zero unread": _sum(step.disqualified for step in steps),
        "Judge": judge,
        "Spent, validation included": _dollars(ledger.usd, ahead) + _machine(ledger),
        "At the end, if it goes on like this": _forecast(ahead),
    }
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["| So far | |", "| --- | --- |", *lines])


def _dollars(usd: float, ahead: Projection) -> str:
    return f"${usd:,.2f}" + (", some at an unknown price" if ahead.is_lower_bound else "")


def _machine(ledger: Ledger) -> str:
    return f", ${ledger.machine_usd:,.2f} of it for the machine" if ledger.machine_usd else ""


def _forecast(ahead: Projection) -> str:
    if ahead.usd_at_end is None:
        return "known after the first step"
    stops = f"; the budget is reached at step {ahead.budget_step}" if ahead.budget_step else ""
    return f"about {_dollars(ahead.usd_at_end, ahead)}{stops}"


def _sum(counts: Iterable[dict[str, int]]) -> str:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return causes(total) or "none"
