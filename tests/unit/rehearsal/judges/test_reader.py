"""The rule-based reader agrees with hand-written answers, and knows what it was not told."""

import pytest

from precis.rehearsal.judges.grader import grade
from precis.rehearsal.judges.reader import answer


@pytest.mark.parametrize(
    ("text", "question", "gold"),
    [
        ("大桥于1958年建成。它长350米。市长是李华。", "大桥是哪一年建成的？", "1958年"),
        ("بني الجسر في عام 1958. يبلغ طوله 350 مترا؟ العمدة هو سامي.", "متى بني الجسر؟", "1958"),
        ("पुल 1958 में बना था। महापौर रवि हैं। नदी गहरी है।", "पुल कब बना था?", "1958"),
    ],
)
def test_any_script_is_read(text: str, question: str, gold: str) -> None:
    assert grade(question, gold, answer(text, question))
