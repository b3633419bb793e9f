"""A summary as a person reads it: as a quotation, with its questions and verdicts."""

from precis.markdown import escape, mark_bold, quote, table
from precis.records.rollout import Rollout, Unscored
from precis.text import count_words, decisive_words


def show_summary(rollout: Rollout) -> str:
    """Return a summary as Markdown, with what was asked and answered of it."""
    document = rollout.scenario
    words = count_words(rollout.text)
    about = f"{document.id} ({document['topic']}): {_score(rollout)}, {words} words"
    # What was asked, what should have been answered, and what was.
    score = rollout.score
    answers = [] if isinstance(score, Unscored) else score.details.get("answers", [])
    by_id = {answer["question_id"]: answer for answer in answers}
    rows = []
    for question in rollout.scenario["questions"]:
        gold = question["answer"] if question["answerable"] else "(the document does not say)"
        answer = by_id.get(question["id"])
        if answer is None:
            rows.append([question["text"], gold, "", "not scored"])
        else:
            mark = "✓" if answer["correct"] else "✗"
            said = answer["answer"]
            if answer["correct"] and question["answerable"]:
                said = mark_bold(said, decisive_words(question["text"], gold, said, ()))
            rows.append([question["text"], gold, said, mark])
    return "\n\n".join(
        [
            escape(about),
            quote(rollout.text),
            table(["Question", "Expected", "Answered from the summary", "Verdict"], rows),
        ]
    )


def _score(rollout: Rollout) -> str:
    score = rollout.score
    if isinstance(score, Unscored):
        return f"not scored ({score.cause})"
    if "correct" not in score.metrics:
        return f"ranked {score.reward:.2f}"
    why = score.details.get("disqualified")
    zero = f" (scored zero: {why})" if why else ""
    return f"{score.metrics['correct']:.0f} of {score.metrics['asked']:.0f} right{zero}"
