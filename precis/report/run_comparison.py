"""Comparison of runs: their curves, differences, costs and summaries."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, product

import polars as pl

from precis.errors import UnusableRun
from precis.records.ledger import TURNS
from precis.records.results import TRAINED, newest_results
from precis.report.charts import Chart, Line, line_chart, shorten
from precis.report.curve import curve_of, exact
from precis.report.page import picture_of, render_page
from precis.report.wording import Words, spent
from precis.runs.overview import Overview, overview
from precis.statistics.intervals import DOCUMENTS_MIN, Difference, Interval
from precis.statistics.standings import Contender, differences
from precis.store import Store

_MARKERS = "osD^vPX*"
"""They distinguish lines without colours."""


@dataclass(frozen=True)
class RunComparison:
    """Two runs or more.

    Attributes:
        differences: for each run but the first, by name: the first's accuracy minus its own, on the
            common documents of their newest benchmarks, with a p-value corrected for their number;
            None without any.
        protocols: the judges, if any, and rules of all benchmarks; if they differ, so may the
            accuracies.
        documents: the documents of the first two runs, the most different first, with the text
            and the accuracy of each.
        corpora: the digests of the documents and splits of all benchmarks.
        exposed: the runs that may have been trained on some of the compared documents: by their
            ledgers they, or the runs that they began from, held out others.
    """

    runs: tuple[Overview, ...]
    differences: Mapping[str, Difference | None]
    protocols: tuple[str, ...]
    documents: pl.DataFrame
    exposed: tuple[str, ...] = ()
    corpora: tuple[str, ...] = ()


def compare(store: Store, models: Sequence[str]) -> RunComparison:
    """Compare runs of a store. Raises UnusableRun with fewer than two."""
    if len(set(models)) < 2 or len(set(models)) < len(models):
        raise UnusableRun("A comparison takes two runs or more.", "Name each of them once.")
    runs = tuple(overview(store, model) for model in models)
    is_trained = pl.col("model") == TRAINED
    rows = {}
    for model in models:  # the newest checkpoint's of its newest benchmark with one
        own_rows = newest_results(store, model, is_trained).filter(is_trained)
        newest = own_rows.filter(pl.col("step") == pl.col("step").max())
        rows[model] = newest.with_columns(model=pl.lit(model), step=pl.lit(None, pl.Int64))
    first, second, *_ = rows.values()
    everyone = pl.concat(rows.values())
    judges = everyone.select("judge", "protocol").unique().sort(pl.all())
    documents = _by_document(first, "first").join(_by_document(second, "second"), on="document")
    apart = (pl.col("first_accuracy") - pl.col("second_accuracy")).abs()
    own, *others = map(Contender, models)
    measured = differences(everyone, product([own], others))
    exposed = []
    for run in runs:
        held_out = {run.ledger.corpus, *rows[run.model]["corpus_digest"]}
        if run.ledger.origin:
            held_out.add(run.ledger.origin.corpus)
        if len(held_out) > 1:
            exposed.append(run.model)
    return RunComparison(
        runs,
        {other.model: measured.get((own, other)) for other in others},
        tuple(", ".join(filter(None, row)) for row in judges.iter_rows()),
        documents.sort([apart, "document"], descending=[True, False]),
        tuple(exposed),
        tuple(everyone["corpus_digest"].drop_nulls().unique().sort()),
    )


def facts_of(run: Overview) -> dict[str, str]:
    """Return the facts of a run as text, by name."""
    ledger = run.ledger
    best = run.ledger.best
    turns = run.last.metrics.get(TURNS) if run.last else None
    return {
        "steps": str(ledger.next_step),
        "last": str(run.last.score) if run.last else "not validated",
        "best": f"{best.score} at {best.step}" if best else "not validated",
        **({"turns to success": str(turns)} if turns else {}),
        "dollars": spent(ledger.usd, is_lower_bound=ledger.is_lower_bound),
        "minutes": f"{ledger.wall_s / 60:.1f}",
    }


def describe_differences(found: RunComparison) -> Iterator[str]:
    """Yield the differences and their certainty, a sentence or two each."""
    first = found.runs[0].model
    is_share = all(run.last is None or run.last.score.is_share for run in found.runs)
    words = Words(is_share=is_share)
    environment = found.runs[0].ledger.settings.get("environment") or {"kind": "summaries"}
    scenarios = "documents" if environment.get("kind") == "summaries" else "scenarios"
    known = [each for each in found.differences.values() if each]
    corrected = "corrected " if len(known) > 1 else ""
    for model, measured in found.differences.items():
        if measured is None:
            yield (
                f"No benchmark of both {first} and {model} has {scenarios} in common: benchmark "
                "both on the same ones to see which is better."
            )
            continue
        bounds = words.gap_bounds(measured.accuracy)
        if None not in measured.accuracy.ends:
            bounds += ", 95 %"
        sentence = (
            f"{first} − {model}: {words.gap(measured.accuracy.mean)}{words.unit} ({bounds}; "
            f"{corrected}{measured.chance} by permutation), paired over {measured.documents} "
            f"{scenarios} of their newest benchmarks."
        )
        if measured.documents < DOCUMENTS_MIN:
            sentence += f" Too few {scenarios} to say."
        yield sentence
    if found.exposed and known:
        benchmarks = "its benchmark" if len(found.exposed) == 1 else "their benchmarks"
        yield (
            f"{' and '.join(found.exposed)} may have been trained on some of these {scenarios}: "
            f"see the report of {benchmarks}."
        )
    if len(found.corpora) > 1 and known:
        yield (
            f"Their benchmarks are on other {scenarios} or splits: those with the same id count as "
            "the same."
        )
    if len(found.protocols) > 1 and known:
        yield f"They were scored by different rules ({'; '.join(found.protocols)}): not comparable."
    measures = sorted({run.last.measure for run in found.runs if run.last})
    if len(measures) > 1 and known:
        yield f"They are measured by {' and by '.join(measures)}: not comparable."


def comparison_html(found: RunComparison, place: str, now: datetime) -> str:
    """Return the comparison as a self-contained page: overlaid curves, and the table."""
    facts = {run.model: facts_of(run) for run in found.runs}
    names = list(dict.fromkeys(chain.from_iterable(facts.values())))
    return render_page(
        "comparison.html.j2",
        title="Runs compared",
        facts={"store": place, "read": f"{now:%Y-%m-%d %H:%M} UTC"},
        pictures=list(map(picture_of, overlays(found.runs))),
        names=names,
        rows={model: [each.get(name, "") for name in names] for model, each in facts.items()},
        sentences=list(describe_differences(found)),
    )


def overlays(runs: Iterable[Overview]) -> list[Chart]:
    """Return charts of the held-out score, the reward and the turns to success by step, if
    known."""
    scores: dict[str, Mapping[int, Interval]] = {}
    rewards: dict[str, dict[int, Interval]] = {}
    turns: dict[str, dict[int, Interval]] = {}
    measures: dict[str, bool] = {}
    for run in runs:
        scores[run.model] = curve_of(run.ledger).held_out
        rewards[run.model] = {one.step: exact(one.reward) for one in run.ledger.steps}
        turns[run.model] = {}
        for one in run.ledger.steps:
            if TURNS in one.metrics:
                turns[run.model][one.step] = exact(one.metrics[TURNS])
        for validation in run.ledger.validations:
            measures[validation.measure] = validation.score.is_share
    is_share = bool(measures) and all(measures.values())
    charts = []
    for title, by_run, of_share in (
        (f"Held-out {' or '.join(measures) or 'score'}, by training step", scores, is_share),
        ("Reward in training, by step", rewards, False),
        ("Turns that a success takes, by step", turns, False),
    ):
        lines = []
        lasts = []
        for place, (name, points) in enumerate(by_run.items()):
            if not points:
                continue  # but keep its colour and marker for the other charts
            value = points[max(points)].mean
            lasts.append(f"{name} {value:.1%}" if of_share else f"{name} {value:.3g}")
            style = "-" if place < 5 else "--"
            marker = _MARKERS[place % len(_MARKERS)]
            lines.append(Line(shorten(name), points, place % 5, style, marker, width=1.8))
        if lines:
            alt = f"{title}; at the end: {', '.join(lasts)}"
            charts.append(line_chart(title, "", lines, alt, is_share=of_share))
    return charts


def _by_document(rows: pl.DataFrame, side: str) -> pl.DataFrame:
    return rows.filter(pl.col("score").is_not_null()).select(
        pl.col("scenario_id").alias("document"),
        pl.col("text").alias(side),
        (pl.col("score") / pl.col("weight")).alias(f"{side}_accuracy"),
    )
