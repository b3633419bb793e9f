"""A summary's reward by its length, its baselines, and its place in a report."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precis.environments.summaries.baselines import baselines, centroid, lead, random_sentences
from precis.environments.summaries.prompt import summary_messages
from precis.environments.summaries.rewards import reward_share
from precis.environments.summaries.show import show_summary
from precis.llm.server import ApiError, ChatRequest
from precis.records.verdict import Disqualified
from precis.text import count_words, sentences
from tests.support.corpora import BUNDLED
from tests.support.reports import judged

PARAGRAPHS = st.lists(
    st.lists(st.sampled_from(["Ada", "went", "home", "in", "May", "!", "3.5"]), min_size=1).map(
        lambda words: " ".join(words) + "."
    ),
    max_size=12,
).map(" ".join)


@pytest.mark.parametrize("summarize", [lead, random_sentences, centroid])
@settings(max_examples=40)
@given(text=PARAGRAPHS, words_max=st.integers(1, 60))
def test_a_baseline_keeps_whole_sentences_in_order_within_the_limit(
    summarize: Callable[[str, int], str], text: str, words_max: int
) -> None:
    summary = summarize(text, words_max)
    assert count_words(summary) <= words_max
    position = 0
    for sentence in sentences(summary):
        position = text.index(sentence[:3], position)


async def test_baselines_answer_as_a_policy_does() -> None:
    for name, complete in baselines().items():
        asked = ChatRequest(model=name, messages=summary_messages(BUNDLED[0].text, 20), n=2)
        answer = await complete(asked)
        first, second = (choice.content for choice in answer.choices)
        assert answer.model == name
        assert first == second
        assert (0 < count_words(first) <= 20) is (name != "empty")
    with pytest.raises(ApiError, match="No document found"):
        await complete(ChatRequest(model=name, messages=[{"role": "user", "content": "Hello"}]))


@pytest.mark.parametrize(
    ("words", "share"), [(0, 1), (200, 1), (315, 1), (329, 0.6), (350, 0), (400, 0)]
)
def test_the_reward_falls_over_the_last_tenth_of_the_words(words: int, share: float) -> None:
    assert reward_share("word " * words, 350, 0.1) == pytest.approx(share)


@pytest.mark.parametrize(
    ("prose", "why", "earned"),
    [
        (1.0, None, "3 of 4 right, "),
        (0.6, None, "3 of 4 right, 60% prose, "),
        (0.0, "judged_not_prose", "3 of 4 right (scored zero: judged_not_prose), "),
    ],
)
def test_a_summary_shows_its_answers(prose: float, why: Disqualified | None, earned: str) -> None:
    [summary], _ = judged("trained", 3, [3])
    shown = show_summary(replace(summary, prose=prose, disqualified=why).rollout)
    assert earned in shown
    assert shown.count("✓") == 4, "three answers, and a question declined"
