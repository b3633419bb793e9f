"""A summary as Markdown: a quotation, with its questions and verdicts."""

from precis.markdown import escape, mark_bold, quote, table
from precis.records.questions import QuestionRow
from precis.records.rollout import Rollout, Score, Unscored
from precis.text import count_words, decisive_words


def show_summary(rollout: Rollout) -> str:
    """Return a summary as Markdown, with its questions and answers."""
    document = rollout.scenario
    words = count_words(rollout.text)
    score = rollout.score
    if isinstance(score, Unscored):
        earned = f"not scored ({score.cause})"
    elif "correct" not in score.metrics:
        earned = f"ranked {score.reward:.2f}"
    else:
        # The metric `correct` is this number times the share of prose.
        right = [one.correct for one in questions_about(rollout) if one.answerable]
        earned = f"{sum(map(bool, right))} of {len(right)} right"
        why = score.details.get("disqualified")
        prose = f"{score.metrics['prose']:.0%} prose"
        if why:
            earned += f" (scored zero: {why})"
        elif prose != "100% prose":
            earned += f", {prose}"
    about = f"{document.id} ({document['topic']}): {earned}, {words} words"
    # The question, the golden answer, and the given one.
    rows = []
    for question in questions_about(rollout):
        gold = question.gold if question.answerable else "(the document does not say)"
        said = question.answer or ""
        mark = {None: "not scored", True: "✓", False: "✗"}[question.correct]
        if question.correct and question.answerable:
            said = mark_bold(said, decisive_words(question.question, gold, said, ()))
        rows.append([question.question, gold, said, mark])
    return "\n\n".join(
        [
            escape(about),
            quote(rollout.text),
            table(["Question", "Expected", "Answered from the summary", "Verdict"], rows),
        ]
    )


def questions_about(rollout: Rollout) -> list[QuestionRow]:
    """Return the questions about a summary, with its judge's answers."""
    score = rollout.score
    answers = score.details.get("answers", ()) if isinstance(score, Score) else ()
    by_id = {one["question_id"]: one for one in answers}
    rows = []
    for one in rollout.scenario["questions"]:
        found = by_id.get(one["id"], {})
        asked = (one["id"], one["text"], one["answer"], one["answerable"])
        rows.append(QuestionRow(*asked, found.get("answer"), found.get("correct")))
    return rows
