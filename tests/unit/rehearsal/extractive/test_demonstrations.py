"""Which sentences a summary stands for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.rehearsal.extractive.features import featurize
from precis.rehearsal.extractive.kind import SENTENCES, choose_alike
from precis.rehearsal.extractive.policy import pick, summary
from precis.rehearsal.kind import untrained

DOCUMENT = " ".join(
    f"{name} paid {20 + n} crowns to the {trade} on {day}."
    for n, (name, trade, day) in enumerate(
        zip(
            ["Ada", "Bo", "Cleo", "Dag", "Eva", "Finn", "Gro"],
            ["baker", "smith", "weaver", "miller", "tanner", "cooper", "mason"],
            ["Monday", "Tuesday", "Friday", "Sunday", "Easter", "Thursday", "Saturday"],
            strict=True,
        )
    )
)
FEATURES = featurize(DOCUMENT)


@given(seed=st.integers(0, 10_000))
def test_sentences_that_a_summary_repeats_are_found_again(seed: int) -> None:
    picks = pick(untrained(SENTENCES.layout, 1), FEATURES, 30, 1.0, np.random.default_rng(seed))
    assert choose_alike(FEATURES, summary(FEATURES, picks), 30) == tuple(sorted(picks))


def test_other_words_stand_for_the_sentences_they_share_most_with() -> None:
    told = "The weaver got 22 crowns from Cleo. Finn gave the cooper 25 crowns on Thursday."
    assert choose_alike(FEATURES, told, 30) == (2, 5)


def test_no_more_is_chosen_than_a_summary_may_hold() -> None:
    assert len(choose_alike(FEATURES, DOCUMENT, 20)) == 2


@pytest.mark.parametrize("told", ["", "Zzz.", "!"])
def test_what_shares_nothing_stands_for_nothing(told: str) -> None:
    assert choose_alike(FEATURES, told, 30) == ()
