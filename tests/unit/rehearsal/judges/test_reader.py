"""The rule-based reader agrees with hand-written answers, and knows what it was not told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.rehearsal.judges.grader import UNANSWERABLE, grade
from precis.rehearsal.judges.reader import answer

COUNCIL = """The ferry council met in Port Anselm on 14 March 2023. Councillor Ada Brightwater
presided over the meeting. The pool on Ferry Street was shut because the roof beams had rotted
through. Repairs will cost $1.2 million, far more than the $300,000 that had been set aside.
Until autumn, swimmers will use the baths behind the brewery at Colter Lane. About 450 members
signed a petition against the closure. The doors of the old pool used to open at 7:30 a.m. on
weekdays. A café called the Tin Whistle is to move into the lobby. Two thirds of the seats were
empty, and 38 percent of the members had never heard of the plan.""".replace("\n", " ")

FARM = """Marta Quill bought the orchard in 1987 from a retired sea captain. She planted 2,400 pear
trees to keep the slope from sliding into the river. The harvest of 2019 was lost after a swarm
of locusts crossed the border. Since then, the barrels have been stored in the tunnel under the
castle hill. The juice is pressed by hand, with a screw made by Hollis & Sons. Visitors have to
book twelve days ahead. Owing to the frost, the festival was moved to Saturday, June 8. The
orchard's best-known cider is sold under the name “Grey Heron”.""".replace("\n", " ")

ANSWERED = [
    (COUNCIL, "When did the ferry council meet in Port Anselm?", "March 14, 2023"),
    (COUNCIL, "Who presided over the meeting?", "Ada Brightwater"),
    (COUNCIL, "Why was the pool shut?", "The roof beams had rotted through"),
    (COUNCIL, "What was the reason for shutting the pool?", "because the roof beams had rotted"),
    (COUNCIL, "How much will the repairs cost?", "1,200,000 dollars"),
    (COUNCIL, "How much had been set aside for the repairs?", "$300,000"),
    (COUNCIL, "Where will swimmers go until autumn?", "the baths behind the brewery"),
    (COUNCIL, "How many members signed the petition against the closure?", "450"),
    (COUNCIL, "At what time did the doors of the old pool open?", "7.30 am"),
    (COUNCIL, "What is the café called that moves into the lobby?", "The Tin Whistle"),
    (COUNCIL, "What percentage of the members had never heard of the plan?", "38%"),
    (COUNCIL, "What share of the seats were empty?", "Two thirds"),
    (FARM, "Who bought the orchard from a retired sea captain?", "Marta Quill"),
    (FARM, "In what year was the orchard bought?", "1987"),
    (FARM, "How many pear trees were planted on the slope?", "2400"),
    (FARM, "Why were pear trees planted?", "To keep the slope from sliding into the river"),
    (FARM, "Why was the harvest of 2019 lost?", "A swarm of locusts crossed the border"),
    (FARM, "Where have the barrels been stored since then?", "In the tunnel under the castle hill"),
    (FARM, "Which firm made the screw with which the juice is pressed?", "Hollis & Sons"),
    (FARM, "How many days ahead do visitors have to book?", "12 days"),
    (FARM, "To which date was the festival moved?", "June 8"),
    (FARM, "Why was the festival moved?", "the frost"),
    (FARM, "Under which name is the orchard's best-known cider sold?", "Grey Heron"),
]

NOT_IN_THE_TEXT = [
    (COUNCIL, "Which airline sponsors the regatta?"),
    (COUNCIL, "Which airline flies to the capital twice a day?"),
    (COUNCIL, "How many ducks live on the village pond?"),
    (COUNCIL, "Why did the mayor resign last winter?"),
    (FARM, "When did the beekeeper open her museum?"),
    (FARM, "How tall is the lighthouse at Cape Vasta?"),
    (FARM, "How much does a ticket for the steam railway cost?"),
]


@pytest.mark.parametrize(("text", "question", "gold"), ANSWERED)
def test_an_answer_that_the_text_has_is_read_and_graded_true(
    text: str, question: str, gold: str
) -> None:
    given = answer(text, question)
    assert grade(question, gold, given), given


@pytest.mark.parametrize(("text", "question"), NOT_IN_THE_TEXT)
def test_a_question_that_the_text_does_not_answer_is_unanswerable(text: str, question: str) -> None:
    assert answer(text, question) == UNANSWERABLE


@pytest.mark.parametrize(("text", "question", "gold"), ANSWERED)
def test_without_its_sentence_a_question_is_never_graded_true(
    text: str, question: str, gold: str
) -> None:
    other = FARM if text is COUNCIL else COUNCIL
    assert not grade(question, gold, answer(other, question))


def test_without_a_text_or_a_question_there_is_no_answer() -> None:
    assert answer("", "Who leads the choir?") == answer(COUNCIL, "Why?") == UNANSWERABLE


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


@given(text=st.text(max_size=300), question=st.text(max_size=80))
def test_whatever_is_put_in_an_answer_comes_out_and_can_be_graded(text: str, question: str) -> None:
    given_answer = answer(text, question)
    known = " ".join(text.split())
    assert all(word in known for word in given_answer.split()) or given_answer == UNANSWERABLE
    assert isinstance(grade(question, text, given_answer), bool)
