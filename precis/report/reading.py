"""A summary to read, in markdown: its text, what it was asked, and how that was ruled."""

from precis.records.summary import JudgedSummary
from precis.records.verdict import Answer, Ranked, Unscored
from precis.report.markdown import escape, table


def example(title: str, judged: JudgedSummary) -> str:
    """A summary under a heading, with its questions and verdicts."""
    return "\n\n".join([f"### {title}", about(judged), quote(judged), questions(judged)])


def about(judged: JudgedSummary) -> str:
    """Document, score and length in a line."""
    document = judged.document
    return escape(f"{document.id} ({document.topic}): {_score(judged)}, {judged.words} words")


def quote(judged: JudgedSummary) -> str:
    """The summary as it came, as a quotation."""
    lines = judged.text.splitlines()
    kept = [f"> {escape(line)}" for line in lines if line.strip()] or ["> (empty)"]
    return "\n>\n".join(kept)


def questions(judged: JudgedSummary) -> str:
    """What was asked, what should have been answered, and what was."""
    by_id = {answer.question_id: answer for answer in judged.verdict.answers}
    rows = []
    for question in judged.document.questions:
        answer = by_id.get(question.id)
        gold = question.answer if question.answerable else "(the document does not say)"
        said, mark = (answer.answer, _mark(answer)) if answer else ("", "not scored")
        rows.append([question.text, gold, said, mark])
    return table(["Question", "Expected", "Answered from the summary", "Verdict"], rows)


def _mark(answer: Answer) -> str:
    return "✓" if answer.correct else "✗"


def _score(judged: JudgedSummary) -> str:
    verdict = judged.verdict
    if isinstance(verdict, Ranked):
        return f"ranked {verdict.score:.2f}"
    if isinstance(verdict, Unscored):
        return f"not scored ({verdict.cause})"
    zero = f" (scored zero: {judged.disqualified})" if judged.disqualified else ""
    return f"{verdict.correct} of {verdict.asked} right{zero}"
