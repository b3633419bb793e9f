"""The verifiers environment, in an environment of its own: what it asks and what it rewards is
what Précis does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest

from precis.config import DocumentsConfig, JudgeConfig, RolloutsConfig
from precis.environments.recorder import Recorder
from precis.environments.summaries.baselines import baselines
from precis.environments.summaries.prompt import summary_messages
from precis.inference.facts import open_judge
from precis.llm.server import completions_app
from precis.records.documents import Corpus, Document, load_corpus
from precis.records.rollout import Rollout
from precis.rollouts.sample import adapter_policy, sample_each
from tests.services.conftest import ROOT
from tests.support.environments import summaries
from tests.support.local_server import serving

PACKAGE = ROOT / "environments" / "precis_summaries"
UV = Path(sys.executable).with_name("uv")
DOCUMENTS = load_corpus(DocumentsConfig(train_size=40, val_size=20))
COUNT = 4

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def python(verifiers_python: Path) -> Path:
    """Verifiers' Python, with Précis and the package in its environment too."""
    install = (UV, "pip", "install", "--quiet", "--python", verifiers_python, "--no-deps")
    subprocess.run([*install, "--no-build-isolation", "-e", ROOT, "-e", PACKAGE], check=True)
    return verifiers_python


def run(python: Path, *arguments: object) -> str:
    """What a program in verifiers' environment prints."""
    program = ROOT / "tests/services/verifiers_run.py"
    settings = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    command = [str(python), str(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sk-of-the-policy" not in done.stdout + done.stderr
    return done.stdout


def episodes(python: Path, part: str, judge: str = "lexical") -> list[dict[str, Any]]:
    """What became of each episode of the two policies."""
    found: list[dict[str, Any]] = json.loads(run(python, "episodes", part, COUNT, judge))
    return found


async def by_precis(documents: tuple[Document, ...]) -> list[Rollout]:
    """The same summaries, judged in the product."""
    models = baselines()
    config = RolloutsConfig()
    app = completions_app(lambda asked: models[asked.model](asked), list, "key")
    async with (
        serving(app) as url,
        open_judge(JudgeConfig()) as judge,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="key") as client,
        Recorder() as recorder,
        adapter_policy(client, "lead-350", 0, config) as policy,
    ):
        environment = summaries(Corpus((), documents), judge)
        scenarios = environment.scenarios("validation")
        return await sample_each(recorder, policy, environment, scenarios, config)


async def test_it_asks_and_rewards_as_precis_does(python: Path) -> None:
    documents = DOCUMENTS.validation[:COUNT]
    found = [one for one in episodes(python, "validation") if one["policy"] == "lead-350"]
    assert [one["document"] for one in found] == [document.id for document in documents]
    expected = await by_precis(documents)
    assert [one["reward"] for one in found] == [one.reward for one in expected]
    assert len({one["reward"] for one in found}) > 1, "the same rewards would prove little"
    for one, document, rollout in zip(found, documents, expected, strict=True):
        asked = [
            [message["role"], message["content"]] for message in summary_messages(document.text)
        ]
        assert one["messages"] == [*asked, ["assistant", rollout.text]]
        assert one["ok"]


def test_what_is_disqualified_scores_zero_and_what_is_unjudged_fails(python: Path) -> None:
    found = episodes(python, "train", "broken")
    assert [one["document"] for one in found[:COUNT]] == [
        document.id for document in DOCUMENTS.train[:COUNT]
    ]
    for one in found:
        if one["policy"] == "empty":
            assert (one["ok"], one["reward"], one["scored"]) == (True, 0.0, True)
            assert one["metrics"]["disqualified"] == 1.0
        else:
            assert (one["ok"], one["scored"]) == (False, False)
            assert "The judge gave no verdict" in one["errors"][0]


def test_verifiers_own_command_finds_and_runs_it(python: Path, tmp_path: Path) -> None:
    said = run(python, "eval", tmp_path, 2)
    assert "accuracy" in said
    (traces,) = tmp_path.glob("*/traces.jsonl")
    assert len(traces.read_text().splitlines()) == 2
