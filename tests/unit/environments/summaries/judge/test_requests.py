"""How many requests a summary takes, and that what needs no grader is ruled rightly."""

from bench.judging.cases import Case, cases
from bench.judging.model import answer
from bench.judging.plain import right_answers, wrong_answers
from precis.config import DocumentsConfig
from precis.environments.summaries.judge.protocol import ruling
from precis.records.documents import read_documents

NOTEBOOK = 20
"""Requests of ART's notebook for a summary of five questions: for each an answer and a grade, from
the summary and from the document."""
HEDGES = 1.2
"""A fifth of the requests at most are sent again."""


def test_a_summary_takes_a_twelfth_of_the_notebooks_requests() -> None:
    """Where answers are as short as the prompt asks; `bench/judge.py compare` measures it."""
    judged = cases(groups=40, rollouts=4, seed=1)
    calls = [1 + _takes_a_grader(case) for case in judged]
    assert NOTEBOOK * len(judged) / (HEDGES * sum(calls)) >= 12


def _takes_a_grader(case: Case) -> bool:
    given = [(one, answer(case.summary, one.text)) for one in case.document.questions]
    return any(ruling(question, said) is None for question, said in given)


def test_only_right_answers_are_ruled_right_without_a_grader() -> None:
    documents = read_documents(DocumentsConfig())
    assert any(ruling(question, said) for question, said in right_answers(documents))
    assert not any(ruling(question, said) for question, said in wrong_answers(documents))
