"""The verifiers environment, by verifiers' own command in an environment of its own: what it asks
and what it rewards is what Précis does."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precis.config import DocumentsConfig, JudgeConfig, RolloutsConfig
from precis.environments.recorder import Recorder
from precis.environments.summaries.baselines import baselines
from precis.environments.summaries.prompt import summary_messages
from precis.inference.facts import open_judge
from precis.llm.providers import Endpoint
from precis.llm.server import ApiError, ChatRequest, Completion, completions_app
from precis.records.documents import Corpus, Document, load_corpus
from precis.records.rollout import Rollout
from precis.rollouts.sample import adapter_policy, sample_each
from tests.services.conftest import ROOT
from tests.support.environments import summaries
from tests.support.local_server import served

PACKAGE = ROOT / "environments" / "precis_summaries"
UV = Path(sys.executable).with_name("uv")
DOCUMENTS = load_corpus(DocumentsConfig(train_size=40, val_size=20))
COUNT = 4
KEY = "sk-of-the-policy"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def python(verifiers_python: Path) -> Path:
    """Verifiers' Python, with Précis and the package in its environment too."""
    install = (UV, "pip", "install", "--quiet", "--python", verifiers_python, "--no-deps")
    subprocess.run([*install, "--no-build-isolation", "-e", ROOT, "-e", PACKAGE], check=True)
    return verifiers_python


@pytest.fixture(scope="module")
def policies() -> Iterator[str]:
    """The address of the baselines, and of a judge that always fails."""
    models = baselines()

    async def complete(request: ChatRequest) -> Completion:
        if request.model not in models:
            raise ApiError(500, "Broken.", "server_error")
        return await models[request.model](request)

    with served(completions_app(complete, lambda: list(models), KEY)) as url:
        yield f"{url}/v1"


def run(*command: object) -> str:
    """What a program in verifiers' environment prints."""
    settings = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    given = {**settings, "POLICY_KEY": KEY, "JUDGE_API_KEY": KEY}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr
    return done.stdout


def episodes(
    python: Path, policies: str, folder: Path, model: str, **options: str
) -> list[dict[str, Any]]:
    """What became of each episode of a policy, as the README has it run."""
    where = ("--client.base-url", policies, "--client.api-key-var", "POLICY_KEY", "--no-push")
    given = [part for name, value in options.items() for part in (f"--env.{name}", value)]
    command = (python.with_name("vf-eval"), "precis-summaries", "-n", COUNT, "-m", model)
    run(*command, "--output-dir", folder / model, *where, *given)
    (file,) = (folder / model).glob("*/traces.jsonl")
    found = list(map(json.loads, file.read_text().splitlines()))
    return sorted(found, key=lambda one: int(one["task"]["data"]["idx"]))


async def by_precis(policies: str, documents: tuple[Document, ...]) -> list[Rollout]:
    """The same summaries, judged in the product."""
    config = RolloutsConfig()
    async with (
        open_judge(JudgeConfig()) as judge,
        Recorder() as recorder,
        adapter_policy(Endpoint(policies, "lead-350", KEY), 0, config) as policy,
    ):
        environment = summaries(Corpus((), documents), judge)
        scenarios = environment.scenarios("validation")
        return await sample_each(recorder, policy, environment, scenarios, config)


async def test_it_asks_and_rewards_as_precis(python: Path, policies: str, tmp_path: Path) -> None:
    documents = DOCUMENTS.validation[:COUNT]
    part = {"taskset.part": "validation"}
    found = episodes(python, policies, tmp_path, "lead-350", **part)
    assert [one["task"]["key"] for one in found] == [document.id for document in documents]
    expected = await by_precis(policies, documents)
    rewards = []
    for one, document, rollout in zip(found, documents, expected, strict=True):
        (trace,) = one["traces"]
        rewards.append(trace["rewards"]["accuracy"]["score"])
        assert rewards[-1] == rollout.reward
        asked = [node["message"] for node in trace["nodes"]]
        said = {"role": "assistant", "content": rollout.text}
        assert asked == [*summary_messages(document.text), said]
        assert one["ok"]
    assert len(set(rewards)) > 1, "the same rewards would prove little"


def test_what_is_unjudged_fails_and_is_no_zero(python: Path, policies: str, tmp_path: Path) -> None:
    broken = {"provider": "url", "base-url": policies, "model": "broken", "tries-max": "1"}
    judge = {f"judge.{name}": value for name, value in broken.items()}
    for model in ("empty", "lead-350"):
        found = episodes(python, policies, tmp_path, model, **judge)
        documents = [document.id for document in DOCUMENTS.train[:COUNT]]
        assert [one["task"]["key"] for one in found] == documents
        for one in found:
            (trace,) = one["traces"]
            if model == "empty":
                assert one["ok"]
                assert trace["rewards"]["accuracy"]["score"] == 0.0
                assert trace["metrics"]["disqualified"] == 1.0
            else:
                assert (one["ok"], trace["rewards"]) == (False, {})
                assert "The judge gave no verdict" in one["errors"][0]["message"]


def test_a_program_loads_it_with_its_settings(python: Path) -> None:
    program = (
        "from precis_summaries import load_environment as load; "
        "config = load(part='validation', words_max=99, judge={'provider': 'google'}).config; "
        "print(config.taskset.part, config.taskset.words_max, config.judge.provider)"
    )
    assert run(python, "-c", program).split() == ["validation", "99", "google"]
