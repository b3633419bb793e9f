"""What an answer has of the golden one is shown, and nothing else of it."""

from precis.markdown import mark_bold, table
from precis.text import common_words, decisive_words


def shown(question: str, gold: str, answer: str, common: frozenset[str] = frozenset()) -> list[str]:
    spans = decisive_words(question, gold, answer, common)
    return [answer[start:end] for start, end in spans]


def test_the_words_that_the_golden_answer_adds_to_its_question_decide() -> None:
    answer = "On 9 January the bridge, approved in 1987, was opened by Ada Kessler."
    question = "Who opened the bridge?"
    assert shown(question, "Ada Kessler", answer) == ["Ada", "Kessler"]
    assert shown("When was it?", "In 1987, after its approval", answer) == [
        "approved",
        "in",
        "1987",
    ]


def test_words_of_many_answers_decide_nothing() -> None:
    common = common_words(["It is by the sea.", "By the lake.", "By a hill.", "The sea"])
    assert common == {"by", "the"}
    assert shown("Where?", "by the sea", "It lies by the sea.", common) == ["sea"]


def test_a_training_reports_table_sets_them_in_bold_and_nothing_that_a_text_asks_for() -> None:
    answer = "The *mayor* Ada Kessler paid \ue00040 euros."
    spans = decisive_words("Who paid?", "Ada Kessler", answer, ())
    cell = table(["Answer"], [[mark_bold(answer, spans)]]).splitlines()[-1]
    assert cell == "| The &#42;mayor&#42; **Ada** **Kessler** paid 40 euros. |"


def test_a_metric_that_an_agent_names_stays_text_as_a_heading() -> None:
    head, *_ = table(["Step", "Won | <b>lost"], [["1", "2"]]).splitlines()
    assert head == "| Step | Won &#124; &#60;b&#62;lost |"
