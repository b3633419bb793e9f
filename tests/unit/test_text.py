"""Sentences and tokens, in any script."""

import pytest

from precis.text import copied_share, sentences, tokens


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("今日は雨です。寒い！終わり？次", ["今日は雨です。", "寒い！", "終わり？", "次"]),
        ("ما هذا؟ هذا كتاب. انتهى الأمر۔ نعم", ["ما هذا؟", "هذا كتاب.", "انتهى الأمر۔", "نعم"]),
        ("यह किताब है। वह घर है। ठीक", ["यह किताब है।", "वह घर है।", "ठीक"]),
        ("Это дом. Он стар. И т. д. и т. п.", ["Это дом.", "Он стар.", "И т. д. и т. п."]),
        ("She came at 3 p.m. on foot. Élan won.", ["She came at 3 p.m. on foot.", "Élan won."]),
    ],
)
def test_a_sentence_ends_where_its_script_ends_one(text: str, found: list[str]) -> None:
    assert sentences(text) == found


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("The mayor opened the new bridge on Monday.", 1.0),
        ("The mayor opened the new bridge, and left by noon with her dog.", 0.5),
        ("Opened on Monday the new bridge was, the mayor said.", 0.0),
        ("", 0.0),
    ],
)
def test_what_is_copied_stands_in_the_source_word_for_word(text: str, share: float) -> None:
    source = "On Monday? The mayor opened the new bridge on Monday. It had rained."
    assert copied_share(text, source) == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It cost 3.5 re-opened o'clock_x", ["it", "cost", "3.5", "re-opened", "o'clock", "x"]),
        ("यह हिन्दी है।", ["यह", "हिन्दी", "है"]),
        ("東京タワー 3.5km", ["東京", "京タ", "タワ", "ワー", "3.5km"]),
        ("駅", ["駅"]),
        ("ｶﾀｶﾅ", ["ｶﾀ", "ﾀｶ", "ｶﾅ"]),
        ("ꩠꩡꩢ", ["ꩠꩡ", "ꩡꩢ"]),
    ],
)
def test_a_word_stays_whole_and_undivided_script_comes_in_pairs(
    text: str, found: list[str]
) -> None:
    assert tokens(text) == found
