"""What a benchmark's page says of it beside the figures."""

from precis.benchmark.lineup import TrainedLineup
from precis.benchmark.run import BenchmarkRun, Comparison
from precis.report.nights import verdict_in_words


def benchmark_facts(
    run: BenchmarkRun, trained: TrainedLineup | None, comparison: Comparison
) -> dict[str, str]:
    """Model, judge, scenarios, cost: each fact by its name."""
    spend = run.budget.spend
    unpriced = ", some at an unknown price" if spend.unpriced else ""
    environment = run.environment
    nouns = environment.nouns
    judge = environment.identity.get("model")
    scoring_usd = run.budget.usd - spend.usd
    return {
        "Model": run.name,
        **({"Judge": judge} if judge else {}),
        "Seed": str(run.config.seed),
        nouns.scenarios.capitalize(): count_scenarios(run, trained),
        **({"Caveat": environment.caveat} if environment.caveat else {}),
        **({"Attempts": _attempts(run)} if run.sampled else {}),
        "Began": f"{run.id.began:%Y-%m-%d %H:%M} UTC",
        nouns.rollouts.capitalize(): f"${spend.usd:,.2f}{unpriced}",
        **({"Judging": f"${scoring_usd:,.2f}"} if judge else {}),
        "Nights": verdict_in_words(comparison.changes, comparison.nights),
    }


def _attempts(run: BenchmarkRun) -> str:
    temperature = run.config.rollouts.temperature
    return (
        f"one greedy, which all figures but pass@k are of, and {run.sampled} sampled at "
        f"temperature {temperature:g} (models that reason: at their own)"
    )


def count_scenarios(run: BenchmarkRun, trained: TrainedLineup | None) -> str:
    """Say how many held-out scenarios there are, and how many of them were trained on."""
    count = len(run.environment.scenarios("validation"))
    own = run.config.test_documents
    found = f"{count} of {own.source}" if own else f"{count} held out"
    if trained is None:
        return found
    if trained.seen:
        return f"{found}, {trained.seen} of them trained on"
    if own is None:  # of those that were held out nobody expects anything else
        return found
    if trained.seen is None:
        return f"{found}; whether the model was trained on them is not known"
    return f"{found}, none of them trained on"
