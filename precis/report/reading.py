"""A summary to read, in markdown: its text, what it was asked, and how that was ruled."""

from collections.abc import Sequence

from precis.records.results import Judged
from precis.records.verdict import Answer, Ranked, Scored, Unscored
from precis.report.markdown import escape, table
from precis.text import count_words


def example(title: str, judged: Judged) -> str:
    """A summary under a heading, with its questions and verdicts."""
    return "\n\n".join([f"### {title}", about(judged), quote(judged), questions(judged)])


def about(judged: Judged) -> str:
    """Document, score and length in a line."""
    document = judged.document
    words = count_words(judged.summary.text)
    return escape(f"{document.id} ({document.topic}): {_score(judged)}, {words} words")


def quote(judged: Judged) -> str:
    """The summary as it came, as a quotation."""
    lines = judged.summary.text.splitlines()
    kept = [f"> {escape(line)}" for line in lines if line.strip()] or ["> (empty)"]
    return "\n>\n".join(kept)


def questions(judged: Judged) -> str:
    """What was asked, what should have been answered, and what was."""
    verdict = judged.verdict
    answers: Sequence[Answer] = verdict.answers if isinstance(verdict, Scored) else ()
    by_id = {answer.question_id: answer for answer in answers}
    rows = []
    for question in judged.document.questions:
        answer = by_id.get(question.id)
        gold = question.answer if question.answerable else "(the document does not say)"
        said, mark = (answer.answer, _mark(answer)) if answer else ("", "not scored")
        rows.append([question.text, gold, said, mark])
    return table(["Question", "Expected", "Answered from the summary", "Verdict"], rows)


def _mark(answer: Answer) -> str:
    return "✓" if answer.correct else "✗"


def _score(judged: Judged) -> str:
    verdict = judged.verdict
    if isinstance(verdict, Ranked):
        return f"ranked {verdict.score:.2f}"
    if isinstance(verdict, Unscored):
        return f"not scored ({verdict.cause})"
    zero = f" (scored zero: {judged.disqualified})" if judged.disqualified else ""
    return f"{verdict.correct} of {verdict.asked} right{zero}"
