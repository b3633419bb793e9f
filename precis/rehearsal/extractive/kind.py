"""The embedded policy that picks sentences, as a kind of policy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from precis.environments.summaries.prompt import SummaryRequest, request_in
from precis.errors import RolloutError
from precis.llm.server import ApiError, ChatRequest, Choice
from precis.rehearsal.endpoint import generator_of, logprob_entries
from precis.rehearsal.extractive.features import FEATURES_VERSION, NAMES, featurize
from precis.rehearsal.extractive.policy import logprobs, pick, summary
from precis.rehearsal.extractive.samples import PickBatch, PickedSample, batch_of
from precis.rehearsal.extractive.trajectories import demonstration_of, sample_of
from precis.rehearsal.kind import Layout, LinearPolicy

if TYPE_CHECKING:
    import art


class SentencePicks:
    """Answers requests for summaries with sentences of the document; a sentence is a token."""

    layout = Layout("sentences", FEATURES_VERSION, len(NAMES), NAMES)

    def answer(self, policy: LinearPolicy, asked: ChatRequest) -> list[Choice]:
        try:
            request = request_in(asked.messages)
        except RolloutError as error:
            raise ApiError(400, str(error), "no_document") from error
        generator = generator_of(asked)
        return [_choice(policy, request, asked, generator) for _ in range(asked.n)]

    def samples_of(self, trajectory: "art.Trajectory") -> list[PickedSample]:
        return [sample_of(trajectory)]

    def demonstrations_of(self, trajectory: "art.Trajectory") -> list[PickedSample]:
        return [demonstration_of(trajectory)]

    def batch_of(self, samples: Sequence[PickedSample]) -> PickBatch:
        return batch_of(samples)

    def count_tokens(self, samples: Sequence[PickedSample]) -> float:
        """Return the words of all picks."""
        return sum(float(one.features.words[list(one.picks)].sum()) for one in samples)


SENTENCES = SentencePicks()


def _choice(
    policy: LinearPolicy,
    request: SummaryRequest,
    asked: ChatRequest,
    generator: np.random.Generator,
) -> Choice:
    features = featurize(request.text)
    picks = pick(policy, features, request.words_max, asked.temperature, generator)
    kept = picks
    words = asked.max_completion_tokens or asked.max_tokens
    if words is not None:  # a word is a token
        spent = np.cumsum(features.words[list(picks)])
        kept = picks[: int(np.searchsorted(spent, words, side="right"))]
    entries: list[dict[str, Any]] | None = None
    if asked.logprobs:
        values = logprobs(policy, features, kept, request.words_max).tolist()
        entries = logprob_entries(kept, values)
    return Choice(
        summary(features, kept),
        "length" if len(kept) < len(picks) else "stop",
        entries,
        int(features.words[list(kept)].sum()),
        token_ids=list(kept) if asked.return_token_ids else None,
    )
