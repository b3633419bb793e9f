"""The example ART·E with mails and questions of a data set in place of its own."""

import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import polars
import pytest

from precis.environments.python import PythonEnvironment
from precis.errors import ConfigError
from precis.llm.server import ChatRequest, ToolCall
from tests.support.examples import EXAMPLES, call, play, score_of, with_settings
from tests.support.scripted_policy import ScriptedPolicy

HOME = "my #1 home? 100%20"
"""It has the signs of an address."""
VINCE, JEFF = "vince@enron.com", "Jeff.Dasovich@enron.com"


def mail(number: int, **values: Any) -> dict[str, Any]:
    return {
        "message_id": f"<{number}@thyme>",
        "from": VINCE,
        "to": [JEFF],
        "cc": None,
        "bcc": [],
        "date": datetime(2001, 5, number, 9, 30),
        "subject": f"Contract {number}",
        "body": f"The contract of May {number} is worth {number}00 dollars.",
        "file_name": f"kaminski-v/{number}.",
        **values,
    }


def question(number: int, **values: Any) -> dict[str, Any]:
    return {
        "id": number,
        "question": f"How many dollars is the contract of May {number} worth?",
        "answer": f"{number}00",
        "message_ids": [f"<{number}@thyme>"],
        "how_realistic": 0.9,
        "inbox_address": JEFF,
        "query_date": "2001-05-20",
        **values,
    }


MAILS = [
    *map(mail, range(1, 11)),
    mail(3, body="A message id that is there twice: 999 dollars."),
    mail(11, subject=None, body=None, **{"from": None, "to": None}, date=None),
    mail(12, to=["kay@enron.com"], body="A contract for other eyes, worth 5 dollars."),
    mail(25, body="The contract is worth 6 dollars since after the question."),
]
QUESTIONS = {
    "train": [
        *map(question, range(1, 7)),
        question(7, message_ids=["<7@thyme>", "<8@thyme>"]),
        question(8, message_ids=["<80@thyme>"]),
    ],
    "test": [question(9), question(10)],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with both data sets, and room for an edited example."""
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / HOME))
    write(tmp_path / "mails", {"train": MAILS})
    write(tmp_path / "questions", QUESTIONS)
    for file in EXAMPLES.glob("art_e_*.py"):
        shutil.copy(file, tmp_path)
    return tmp_path


def write(folder: Path, splits: Mapping[str, list[dict[str, Any]]]) -> None:
    folder.mkdir()
    for split, rows in splits.items():
        polars.DataFrame(rows).write_parquet(folder / f"{split}-00000-of-00001.parquet")


def opened(folder: Path, **settings: Any) -> PythonEnvironment:
    names = {"DATASET": str(folder / "mails"), "DATASET_QUESTIONS": str(folder / "questions")}
    return with_settings("art_e.py", folder, **{**names, **settings})


def reader(request: ChatRequest) -> ToolCall:
    """Searches for all contracts, reads the mail of the day, and says what it is worth."""
    asked, last = request.messages[1]["content"], request.messages[-1]
    day = asked.split("May ")[1].split()[0]
    if last["role"] == "user":
        return call(request, "search_inbox", keywords=f"contract May {day}")
    if last["content"].startswith("1. "):
        lines = last["content"].splitlines()
        at = next(place for place, line in enumerate(lines, 1) if line.endswith(f"Contract {day}"))
        return call(request, "read_email", number=at)
    return call(request, "return_final_answer", answer=f"{day}00")


async def test_its_mails_and_questions_take_the_inbox_s_place(folder: Path) -> None:
    environment = opened(folder, MINIATURE=False, JUDGE="a-judge")
    policy = ScriptedPolicy(reader)
    rollouts = await play(environment, policy, 6)
    for rollout in rollouts:
        assert score_of(rollout).success
        assert rollout.metrics == {"turns": 3, "illegal": 0, "found": 1, "read": 1}
    asked = policy.requests[0].messages[1]["content"]
    assert asked.endswith("The inbox is jeff.dasovich@enron.com's, and it is 2001-05-20.")
    assert not await environment.checks()
    splits = [environment.scenarios("train"), environment.scenarios("validation")]
    assert {one["answer"] for one in splits[0]} == {f"{n}00" for n in range(1, 7)}
    assert {one["answer"] for one in splits[1]} == {"900", "1000"}
    assert [one.id for one in splits[1]] == ["question-6", "question-7"]


async def test_a_search_finds_no_mail_of_other_people_or_of_later_days(folder: Path) -> None:
    def say(request: ChatRequest) -> ToolCall:
        if len(request.messages) == 2:
            return call(request, "search_inbox", keywords="contract dollars")
        return call(request, "return_final_answer", answer="?")

    environment = opened(folder, MINIATURE=False, HITS_MAX=50)
    (rollout,) = await play(environment, ScriptedPolicy(say), 1)
    hits = rollout.calls[-1].messages[-1]["content"].splitlines()
    assert sorted(line.split("Contract ")[1] for line in hits) == sorted(map(str, range(1, 11)))
    assert all(f", {VINCE}: " in line and " 2001-05-" in line for line in hits)


def test_they_are_loaded_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = opened(folder)
    assert "once" in capsys.readouterr().out
    shutil.rmtree(folder / "mails")
    shutil.rmtree(folder / "questions")
    again = opened(folder)
    assert capsys.readouterr().out == ""
    assert again.digest == first.digest


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ({"mails": {"train": [{"message_id": "1", "body": "No sender."}]}}, "no column 'from'"),
        ({"questions": {"train": [{"question": "?"}]}}, r"\(train\) has no column 'answer'"),
        ({"questions": {**QUESTIONS, "test": [question(80)]}}, r"no question of .* \(test\) has"),
        ({"mails": {}}, "mails"),
    ],
)
def test_data_sets_without_what_it_takes_are_refused_and_leave_nothing(
    folder: Path, spoil: dict[str, Any], problem: str
) -> None:
    for name, splits in spoil.items():
        shutil.rmtree(folder / name)
        write(folder / name, splits)
    with pytest.raises(ConfigError, match=problem):
        opened(folder)
    assert not list((folder / HOME).glob("art_e_*"))


async def test_without_a_judge_the_preflight_says_so(folder: Path) -> None:
    (problem,) = await opened(folder).checks()
    assert problem.endswith("are sentences: set JUDGE to rule on them.")
