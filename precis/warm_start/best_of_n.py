"""The best of several summaries, by the judge: what a policy can imitate without a teacher."""

from collections.abc import Sequence

from openai.types.chat.chat_completion import Choice

from precis.sampling.rollouts import Rollout
from precis.warm_start.demonstrations import Demonstration


def choose_best(row: Sequence[Rollout]) -> Demonstration:
    """The summary of a document that earned most; of several, the first.

    One that earned nothing is no example: the document is left out.
    """
    document_id = row[0].document.id
    best: Rollout | None = None
    most = 0.0
    for rollout in row:
        earned = rollout.verdict.reward
        if earned is not None and earned > most:
            best = rollout
            most = earned
    if best is not None and best.summary is not None:
        return Demonstration(
            document_id=document_id,
            summary=best.summary.text,
            tokens=_tokens(best),
            reward=most,
        )
    scored = any(rollout.verdict.reward is not None for rollout in row)
    return Demonstration(
        document_id=document_id, cause="nothing_earned" if scored else "not_scored"
    )


def _tokens(rollout: Rollout) -> tuple[str, ...]:
    """What the policy has sampled, token by token."""
    choice = rollout.conversation[-1] if rollout.conversation else None
    if not isinstance(choice, Choice) or choice.logprobs is None:
        return ()
    return tuple(one.token for one in choice.logprobs.content or ())
