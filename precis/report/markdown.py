"""The same reports as markdown, for a page such as Prefect's that renders nothing else.

Pictures travel inside the text as PNG data. Whatever a document, a summary or a judge wrote is
escaped to the last punctuation mark: it can't become a heading, a link, a table or a tag.
"""

import base64
import string
from collections.abc import Mapping, Sequence

from precis.judge.verdict import Answer, Ranked, Scored, Unscored
from precis.report import wording
from precis.report.benchmark import Benchmark
from precis.report.canvas import Chart
from precis.report.curve import StepPoint, learning_curve
from precis.report.standings import Standing
from precis.results import Judged
from precis.text import count_words

_DPI = 100
_STEPS_SHOWN = 10
_CHARACTERS_MAX = 6000
_ENTITIES = {ord(mark): f"&#{ord(mark)};" for mark in string.punctuation if mark not in ",'"}


def training_progress(
    curve: Sequence[StepPoint],
    baselines: Mapping[str, float] | None = None,
    ceiling: float | None = None,
    best: Judged | None = None,
    worst: Judged | None = None,
) -> str:
    """How a training run stands: learning curve, its last steps, its best and worst summary.

    Args:
        curve: all steps so far.
        baselines: accuracy of contenders that do not train.
        ceiling: the judge's accuracy when it reads the full document.
        best: the best summary of the last step.
        worst: the worst one.
    """
    parts = [_picture(learning_curve(curve, baselines, ceiling)), _steps(curve)]
    parts += [_example("Best summary of the last step", best)] if best else []
    parts += [_example("Worst summary of the last step", worst)] if worst else []
    return "\n\n".join(parts) + "\n"


def benchmark_report(benchmark: Benchmark) -> str:
    """The benchmark's figures, charts and standings."""
    figures = [
        f"**{escape(each.label)}: {escape(each.value)}** ({escape(each.detail)})"
        for each in benchmark.headlines()
    ]
    charts = map(_picture, benchmark.charts().values())
    parts = ["  \n".join(figures), *charts, _standings(benchmark.standings)]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """Text that any markdown renderer shows as it is, on one line, whatever it holds.

    Punctuation becomes character references, which markdown never takes for syntax.
    """
    shortened = text if len(text) <= _CHARACTERS_MAX else f"{text[:_CHARACTERS_MAX]}…"
    return " ".join(shortened.split()).translate(_ENTITIES)


def _picture(chart: Chart) -> str:
    data = base64.b64encode(chart.png(dpi=_DPI)).decode()
    return f"![{escape(chart.alt)}](data:image/png;base64,{data})"


def _steps(curve: Sequence[StepPoint]) -> str:
    last = sorted(curve, key=lambda point: point.step)[-_STEPS_SHOWN:]
    rows = [
        [
            str(point.step),
            wording.number(point.reward),
            str(point.accuracy or ""),
            wording.number(point.seconds),
        ]
        for point in last
    ]
    return _table(["Step", "Reward", "Held-out accuracy (95% interval)", "Seconds"], rows)


def _standings(standings: Sequence[Standing]) -> str:
    head = ["Contender", "Accuracy (95% interval)", "Words", "Over length", "Honest", "Not scored"]
    rows = [
        [
            wording.name(each.contender) + ("" if each.complete else " (incomplete)"),
            str(each.accuracy or ""),
            wording.number(each.words),
            wording.percent(each.over_length),
            wording.percent(each.honesty),
            wording.causes(each.unscored),
        ]
        for each in standings
    ]
    return _table(head, rows)


def _example(title: str, judged: Judged) -> str:
    document, summary = judged.document, judged.summary.text
    lines = [f"> {escape(line)}" for line in summary.splitlines() if line.strip()] or ["> (empty)"]
    about = f"{document.id} ({document.topic}): {_score(judged)}, {count_words(summary)} words"
    return "\n\n".join([f"### {title}", escape(about), "\n>\n".join(lines), _questions(judged)])


def _score(judged: Judged) -> str:
    verdict = judged.verdict
    if isinstance(verdict, Ranked):
        return f"ranked {verdict.score:.2f}"
    if isinstance(verdict, Unscored):
        return f"not scored ({verdict.cause})"
    zero = f" (scored zero: {judged.disqualified})" if judged.disqualified else ""
    return f"{verdict.correct} of {verdict.asked} right{zero}"


def _questions(judged: Judged) -> str:
    answers: Sequence[Answer] = judged.verdict.answers if isinstance(judged.verdict, Scored) else ()
    by_id = {answer.question_id: answer for answer in answers}
    rows = []
    for question in judged.document.questions:
        answer = by_id.get(question.id)
        said, mark = (
            (answer.answer, "✓" if answer.correct else "✗") if answer else ("", "not scored")
        )
        gold = question.answer if question.answerable else "(the document does not say)"
        rows.append([question.text, gold, said, mark])
    return _table(["Question", "Expected", "Answered from the summary", "Verdict"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
