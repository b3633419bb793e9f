"""Processes that train don't wait for litellm, transformers, pandas, games and puzzles; those that
use them do, as ever."""

import json
import subprocess
import sys

import pytest

TRAIN = """
import sys

import flows.train, precis.trainer.server
import precis.environments.reasoning_gym.environment
import precis.environments.textarena.environment
from precis.config import DocumentsConfig
from precis.records.documents import read_documents
import art

read_documents(DocumentsConfig(source="bundled"))
refused = {"litellm", "transformers", "pandas", "textarena", "reasoning_gym", "nltk", "sympy"}
assert not refused & set(sys.modules)
"""
WRITE = """
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import transformers
from litellm.types.utils import Choices, Message
from art.utils.trajectory_logging import write_trajectory_groups_parquet
import polars

choice = Choices(message=Message(role="assistant", content="Ann won."))
question = {"role": "user", "content": "Who won?"}
trajectory = art.Trajectory(messages_and_choices=[question, choice], reward=1)
with TemporaryDirectory() as folder:
    path = Path(folder) / "groups.parquet"
    write_trajectory_groups_parquet([art.TrajectoryGroup([trajectory])], path)
    print(json.dumps(polars.read_parquet(path)["messages"][0].to_list()))
"""


def run(program: str) -> str:
    """What a program prints, and a failure where it has anything to warn of."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_process_that_trains_imports_none_of_them() -> None:
    run(TRAIN)


@pytest.mark.long  # five seconds of a core, to import what few use
def test_art_without_litellm_tells_its_choices_from_messages_all_the_same() -> None:
    messages = json.loads(run(TRAIN + WRITE))
    assert [(one["role"], one["content"]) for one in messages] == [
        ("user", "Who won?"),
        ("assistant", "Ann won."),
    ]
    assert [one["trainable"] for one in messages] == [False, True]
