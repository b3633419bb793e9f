"""Reports of a benchmark: its page, its results in store and W&B, and its regressions."""

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from precis.benchmark.lineup import TrainedLineup
from precis.benchmark.measure import Measured
from precis.benchmark.run import BenchmarkRun, words_of
from precis.observe.samples import tell_benchmark
from precis.observe.wandb import wandb_log
from precis.records.results import write_results
from precis.report import wording
from precis.report.benchmark_view import Benchmark
from precis.report.curve import Curve, curve_of
from precis.report.nights import Comparison
from precis.report.page import benchmark_report, report_files, report_html
from precis.statistics.standings import has_bound
from precis.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BenchmarkReport:
    """The folder of a benchmark's results in the store, and its standings as text: contender,
    measure with interval, and the first other figures; best first. `incomplete` is a sentence on
    the contenders that are not ranked; empty without any."""

    steps: int
    folder: str
    held_out: str
    headings: tuple[str, ...]
    standings: tuple[tuple[str, ...], ...]
    regressions: tuple[str, ...] = ()
    incomplete: str = ""
    caveat: str = ""


async def publish(
    run: BenchmarkRun,
    trained: TrainedLineup | None,
    measured: Measured,
    comparison: Comparison,
    wandb_folder: Path,
) -> tuple[BenchmarkReport, str]:
    """Upload results, charts and page to the store and W&B; return their place, and the report as
    Markdown."""
    config = run.config
    environment = run.environment
    ledger = trained.ledger if trained else None
    steps = ledger.next_step if ledger else 0
    folder = report_folder(run, trained)
    benchmark = Benchmark(
        measured.frame,
        # The curve is of the run's held-out documents.
        curve_of(ledger) if ledger and not config.test_documents else Curve(),
        measured.ceiling,
        comparison,
        measured.questions,
        words_of(run, measured, trained),
        measured.attempts,
    )
    facts = benchmark_facts(run, trained, benchmark)
    # In threads: of thousands of documents it takes longer than a lease lasts without renewal. The
    # page comes first, since it computes all figures, which the benchmark keeps.
    page = await asyncio.to_thread(report_html, benchmark, facts)
    await asyncio.to_thread(store_report, run.store, run.name, run.id, folder, benchmark, page)
    run_id = ledger.run_id if ledger else run.id
    with TemporaryDirectory() as files:
        # The wait for it is bounded.
        async with wandb_log(run.name, run_id, config.model_dump(), wandb_folder) as log:
            if log:
                await asyncio.to_thread(tell_benchmark, log, run.name, benchmark, Path(files))
    nouns = environment.nouns
    headings, *standings = standings_lines(benchmark)
    count = len(environment.scenarios("validation"))
    unranked = []
    for each in benchmark.standings:
        if not each.complete:
            unranked.append(f"{wording.name(each.contender)} ({wording.causes(each.unscored)})")
    incomplete = ""
    if unranked:
        incomplete = f"Too much is unscored to rank {', '.join(unranked)}."
        _log.warning("%s", incomplete)
    report = BenchmarkReport(
        steps,
        f"{run.store.url}/{folder}",
        f"{count} held-out {nouns.scenario if count == 1 else nouns.scenarios}",
        headings,
        tuple(standings),
        tuple(map(str, comparison.regressions)),
        incomplete,
        benchmark.words.caveat,
    )
    return report, benchmark_report(benchmark) + comparison.section()


def report_folder(run: BenchmarkRun, trained: TrainedLineup | None) -> str:
    """Return the folder in the store of the newest report after so many steps of training; with
    `test_documents` it is another."""
    steps = trained.ledger.next_step if trained else 0
    own = f"-{run.environment.digest[:8]}" if run.config.test_documents else ""
    return f"{run.name}/benchmarks/{steps:04d}{own}/"


def store_report(
    store: Store, model: str, benchmark_id: str, folder: str, benchmark: Benchmark, page: str
) -> None:
    """Upload results, charts and page to the store: to `folder` as the newest, and to a lasting
    one below it."""
    folders = (f"{folder}{benchmark_id}/", folder)
    with TemporaryDirectory() as temporary:
        tables = Path(temporary)
        write_results(benchmark.frame, tables / "results.parquet")
        benchmark.questions.write_parquet(tables / "questions.parquet")
        if not benchmark.attempts.is_empty():
            benchmark.attempts.write_parquet(tables / "attempts.parquet")
        files = report_files(benchmark, page)
        for each in folders:
            for name, content in files.items():
                store.put(f"{each}{name}", content)
            for file in tables.iterdir():
                store.upload(file, f"{each}{file.name}")
        for file in tables.iterdir():
            # Last, since later benchmarks are compared with it: where `scan_results` reads them.
            store.upload(file, f"{model}/{file.stem}/{benchmark_id}.parquet")


def standings_lines(benchmark: Benchmark) -> list[tuple[str, ...]]:
    """Return the table's headings, and a line for each contender, best first: its measure with
    interval, and the first three other figures, which a terminal has room for."""
    words = benchmark.words
    columns = list(benchmark.columns.items())[:3]
    measure = f"{words.measure.capitalize()} (95 % interval)"
    lines = [("Contender", measure, *(heading for heading, _ in columns))]
    for each in benchmark.shown:
        name = wording.of_standing(each)
        score = words.interval(each.accuracy) or "not scored"
        lines.append((name, score, *(column[each.contender] for _, column in columns)))
    return lines


def benchmark_facts(
    run: BenchmarkRun, trained: TrainedLineup | None, benchmark: Benchmark
) -> dict[str, str]:
    """Return the facts of a benchmark (model, judge, scenarios, cost) by name."""
    spend = run.budget.spend
    is_bound = spend.given_up or has_bound(benchmark.frame)
    at_most = "at most " if spend.usd and is_bound else ""
    asked = f"{at_most}{wording.total(spend.usd, is_lower_bound=spend.unpriced > 0)}"
    kept = benchmark.frame["kept"].sum()
    asked += f"; {kept:,} of {len(benchmark.frame):,} kept from earlier benchmarks" if kept else ""
    environment = run.environment
    nouns = environment.nouns
    judge = environment.identity.get("model")
    judging = run.budget.judging()
    judged = wording.total(judging.usd, is_lower_bound=judging.unpriced > 0)
    attempts = (
        f"one greedy, which all figures but pass@k are of, and {run.sampled} sampled at "
        f"temperature {run.config.rollouts.temperature:g} (models that reason: at their own); "
        f"pass@k counts the {nouns.scenarios} with at least k scored attempts"
    )
    lost = dict(benchmark.attempts["cause"].drop_nulls().value_counts().iter_rows())
    attempts += f"; sampled without a score: {wording.causes(lost)}" if lost else ""
    origin = trained.ledger.origin if trained else None
    return {
        "Model": run.name,
        **({"The start": f"{origin.model}, step {origin.step}"} if origin else {}),
        **({"Judge": judge} if judge else {}),
        "Seed": str(run.config.seed),
        nouns.scenarios.capitalize(): count_scenarios(run, trained),
        **({"Caveat": benchmark.words.caveat} if benchmark.words.caveat else {}),
        **({"Attempts": attempts} if run.sampled else {}),
        "Began": f"{run.began:%Y-%m-%d %H:%M} UTC",
        nouns.rollouts.capitalize(): asked,
        **({"Judging": judged} if judge else {}),
        **({"Machine": f"${run.machine_usd:,.2f}"} if run.machine_usd else {}),
        "Nights": benchmark.comparison.verdict,
    }


def count_scenarios(run: BenchmarkRun, trained: TrainedLineup | None) -> str:
    """Return a phrase with the number of held-out scenarios, and of those trained on."""
    count = len(run.environment.scenarios("validation"))
    own = run.config.test_documents
    found = f"{count} of {own.source}" if own else f"{count} held out"
    if trained is None or (own is None and not trained.seen):  # the run's own, held out
        return found
    if trained.seen is None:
        return f"{found}; whether the model was trained on them is not known"
    return f"{found}, {trained.seen or 'none'} of them trained on"
