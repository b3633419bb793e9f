"""The files that a benchmark leaves beside its rows."""

from precis.report.benchmark import Benchmark
from precis.report.canvas import DARK, LIGHT


def report_files(benchmark: Benchmark, page: str) -> dict[str, bytes]:
    """By name: `report.html`, and every picture as SVG and PNG, each light and dark.

    Args:
        benchmark: what the pictures show.
        page: the page, from `precis.report.html.report_html`.
    """
    files = {"report.html": page.encode()}
    for name, chart in benchmark.charts().items():
        for theme, suffix in ((LIGHT, ""), (DARK, "-dark")):
            files[f"{name}{suffix}.svg"] = chart.svg(theme).encode()
            files[f"{name}{suffix}.png"] = chart.png(theme)
    return files
