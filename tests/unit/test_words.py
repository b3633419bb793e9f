"""Words as a reader counts them, in any script."""

import pytest

from precis.words import count_glued, count_words, pieces


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


def test_350_words_of_japanese_are_a_summary_and_not_a_book() -> None:
    sentence = "市長は新しい橋を開通させ、費用は三億円だった。"
    assert 10 <= count_words(sentence) <= 16
    assert count_words(sentence * 30) == 30 * count_words(sentence)


def test_words_of_the_vocabulary_that_are_written_as_one_are_found() -> None:
    vocabulary = frozenset(pieces("the fox jumps over the lazy dog in 1923"))
    assert count_glued("thefox jumpsoverthe lazy'dog in1923", vocabulary) == 5
    assert count_glued("The fox jumps over foxgloves", vocabulary) == 0
