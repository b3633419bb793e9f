"""Words as a reader counts them, sentences and tokens, in any script."""

import pytest

from precis.text import copied_share, count_glued, count_words, pieces, sentences, tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The mayor opened the bridge.", 5),
        ("It cost $1,200,000.50 at 7:30, o'clock sharp", 7),
        ("don’t re-open naïve cafés", 5),
        ("nai\u0308ve", 1),
        ("snow/rain_hail-sleet", 4),
        ("soft\u00adhyphen zero\u200bwidth", 2),
        ("a" * 30, 1),
        ("a" * 31, 7),
        ("हिन्दी में लिखा गया", 4),
        ("أعلن الوزير عن المشروع الجديد", 5),
        ("안녕하세요 세계", 2),
        ("…", 1),
        ("", 0),
    ],
)
def test_words_are_counted_as_a_reader_does(text: str, words: int) -> None:
    assert count_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("東京タワーは1958年に完成した。", ["東京タワー", "は", "年", "に", "完成", "した"]),
        ("中国的首都是北京。", ["中国", "的", "首都", "是", "北京"]),
        ("ภาษาไทยเป็นภาษาราชการ", ["ภาษา", "ไทย", "เป็น", "ภาษา", "ราชการ"]),
    ],
)
def test_scripts_without_spaces_are_divided_into_words(text: str, words: list[str]) -> None:
    assert [piece for piece in pieces(text) if not piece.isdigit()] == words


def test_words_of_the_vocabulary_that_are_written_as_one_are_found() -> None:
    vocabulary = frozenset(pieces("the fox jumps over the lazy dog in 1923"))
    assert count_glued("thefox jumpsoverthe lazy'dog in1923", vocabulary) == 5
    assert count_glued("The fox jumps over foxgloves", vocabulary) == 0


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
def test_a_word_stays_whole_and_other_script_comes_in_pairs(text: str, found: list[str]) -> None:
    assert tokens(text) == found
