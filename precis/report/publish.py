"""A benchmark's report, put into the store."""

from pathlib import Path
from tempfile import TemporaryDirectory

from precis.records.questions import questions_key
from precis.records.results import attempts_key, results_key, write_results
from precis.report import wording
from precis.report.benchmark_view import Benchmark
from precis.report.page import report_files
from precis.store import Store

_COLUMNS_MAX = 3
"""Of the figures beside the measure, in a terminal."""


def own_folder(folder: str, benchmark_id: str) -> str:
    """Return the lasting folder of one benchmark's report, below the folder of the newest."""
    return f"{folder}{benchmark_id}/"


def store_report(
    store: Store, model: str, benchmark_id: str, folder: str, benchmark: Benchmark, page: str
) -> None:
    """Put results, charts and page into the store: into `folder` as the newest, and for good."""
    folders = (own_folder(folder, benchmark_id), folder)
    with TemporaryDirectory() as temporary:
        results = Path(temporary) / "results.parquet"
        write_results(benchmark.frame, results)
        store.upload(results, results_key(model, benchmark_id))
        for each in folders:
            store.upload(results, f"{each}results.parquet")
        questions = Path(temporary) / "questions.parquet"
        benchmark.questions.write_parquet(questions)
        store.upload(questions, questions_key(model, benchmark_id))
        for each in folders:
            store.upload(questions, f"{each}questions.parquet")
        if not benchmark.attempts.is_empty():
            attempts = Path(temporary) / "attempts.parquet"
            benchmark.attempts.write_parquet(attempts)
            store.upload(attempts, attempts_key(model, benchmark_id))
            for each in folders:
                store.upload(attempts, f"{each}attempts.parquet")
    files = report_files(benchmark, page)
    for each in folders:
        for name, content in files.items():
            store.put(f"{each}{name}", content)


def standings_lines(benchmark: Benchmark) -> list[tuple[str, ...]]:
    """Return the table's headings, and a line for each contender, best first: its measure with
    interval, and the first figures besides."""
    words = benchmark.words
    columns = list(benchmark.columns.items())[:_COLUMNS_MAX]
    measure = f"{words.measure.capitalize()} (95 % interval)"
    lines = [("Contender", measure, *(heading for heading, _ in columns))]
    for each in benchmark.shown:
        name = wording.name(each.contender)
        score = words.interval(each.accuracy) or "not scored"
        lines.append((name, score, *(column[each.contender] for _, column in columns)))
    return lines
