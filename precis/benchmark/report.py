"""What a benchmark's page says of it beside the figures."""

from precis.benchmark.lineup import TrainedLineup
from precis.benchmark.run import BenchmarkRun, Comparison
from precis.records.cloze import crudeness_of
from precis.report.nights import verdict_in_words


def benchmark_facts(
    run: BenchmarkRun, trained: TrainedLineup | None, comparison: Comparison
) -> dict[str, str]:
    """Model, judge, documents, cost: each fact by its name."""
    spend = run.budget.spend
    unpriced = ", some at an unknown price" if spend.unpriced else ""
    crude = crudeness_of(run.corpus.validation)
    return {
        "Model": run.name,
        "Judge": run.judge.identity["model"],
        "Seed": str(run.config.seed),
        "Documents": _documents(run, trained),
        **({"Questions": crude} if crude else {}),
        "Began": f"{run.id.began:%Y-%m-%d %H:%M} UTC",
        "Summaries": f"${spend.usd:,.2f}{unpriced}",
        "Judging": f"${run.budget.usd - spend.usd:,.2f}",
        "Nights": verdict_in_words(comparison.changes, comparison.nights),
    }


def _documents(run: BenchmarkRun, trained: TrainedLineup | None) -> str:
    count = len(run.corpus.validation)
    own = run.config.test_documents
    found = f"{count} of {own.source}" if own else f"{count} held out"
    if trained is None:
        return found
    seen = trained.documents_seen
    if seen:
        return f"{found}, {seen} of them trained on"
    if own is None:  # of those that were held out nobody expects anything else
        return found
    if seen is None:
        return f"{found}; whether the model was trained on them is not known"
    return f"{found}, none of them trained on"
