"""An environment of one file: what it may hold, and the sentence for one that can't be used."""

import asyncio
import json
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai.resources.chat  # noqa: F401  (a second of imports is no part of a deadline)
import pytest
from pydantic import ValidationError

from precis.config import BenchmarkConfig, TrainConfig
from precis.environments import python, threads
from precis.environments.python import PythonEnvironment, load_python
from precis.environments.recorder import Recorder
from precis.errors import ConfigError, RolloutError
from precis.llm.server import ChatRequest, ToolCall
from precis.records.rollout import Rollout, Scenario, Score, Unscored
from tests.services.patience import patience_s
from tests.support.examples import play
from tests.support.scripted_policy import ScriptedPolicy, asked

AGENT = """
from precis.environments.protocol import Nouns

nouns = Nouns("game", "games", "board", "boards", success="win rate")


def scenarios(split):
    seeds = range(4) if split == "train" else range(4, 6)
    return [{"id": f"game-{seed}", "seed": seed} for seed in seeds]


async def rollout(model, scenario):
    return scenario["seed"] % 2 == 0
"""


def write(folder: Path, text: str) -> str:
    file = folder / "agent.py"
    file.write_text(text)
    return str(file)


async def test_what_else_it_defines_is_taken(tmp_path: Path) -> None:
    more = """
from dataclasses import replace
from precis.environments.protocol import Score

async def checks(): return ["The board is missing."]
def show(rollout): return f"reward {rollout.reward}"
async def rank(group): return [group[0], replace(group[1], score=Score(float("nan")))]
"""
    async with load_python(write(tmp_path, AGENT + more)) as environment:
        played = Rollout(Scenario("game-0"), 0, (), Score(1.0))
        assert await environment.checks() == ["The board is missing."]
        assert environment.show(played) == "reward 1.0"
        kept, spoiled, *others = await environment.rank([played] * 3)
        assert (kept, others) == (played, [])
        assert spoiled.score.cause == "no_score"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def checks(): {}['board']", r"checks failed: KeyError: 'board' \(.*agent.py, line \d+\)"),
        ("def rank(group): raise SystemExit(3)", "rank failed: SystemExit: 3"),
        ("def rank(group): pass", "rank returned None. Have it return the rollouts"),
        ("def rank(group): return [0.5]", r"rank returned \[0.5\]. Have it return the rollouts"),
        ("def rank(group): return 0.5", "rank returned 0.5. Have it return the rollouts"),
        ("def baselines(): pass", "baselines returned None. Have it return a dictionary"),
        ("def baselines(): raise RolloutError('It is out.')", "^It is out"),
    ],
)
async def test_a_bad_optional_function_ends_the_step(tmp_path: Path, text: str, said: str) -> None:
    text = f"{AGENT}\nfrom precis.errors import RolloutError\n{text}"
    environment = load_python(write(tmp_path, text))
    with pytest.raises(RolloutError, match=said):
        await environment.checks()
        await environment.rank([Rollout(Scenario("game-0"), 0, (), Score(1.0))])
        environment.baselines()


async def test_no_function_runs_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "_OPTIONAL_S", 0.06)
    monkeypatch.setattr(threads, "_GRACE_S", 0.05)
    stuck = "async def rank(group): await asyncio.Event().wait()"
    environment = load_python(write(tmp_path, f"import asyncio\n{AGENT}\n{stuck}"))
    with pytest.raises(RolloutError, match=r"rank did not end within 0.001 minutes. Give"):
        await environment.rank([])


def test_a_changed_file_is_another_run(tmp_path: Path) -> None:
    def identity(environment: PythonEnvironment) -> str:
        config = TrainConfig.model_validate({"store": "s", **ART, "environment": "agent.py"})
        return config.identity(environment.digest, environment.identity)

    first = load_python(write(tmp_path, AGENT))
    rewarded = load_python(write(tmp_path, AGENT.replace("== 0", "== 1")))
    assert first.digest == rewarded.digest
    assert identity(first) != identity(rewarded)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert identity(load_python(write(elsewhere, AGENT))) == identity(first)


BLOCKING = """
import threading
import time

import httpx

released = threading.Event()


def scenarios(split):
    return [{"id": f"{split}-{how}", "how": how} for how in ("sleeps", "spins", "works", "asks")]


def ask(model):
    address = f"{model.inference_base_url}/chat/completions"
    headers = {"Authorization": f"Bearer {model.inference_api_key}"}
    body = {"model": "m", "messages": [{"role": "user", "content": "Move."}]}
    httpx.post(address, headers=headers, json=body).raise_for_status()


async def rollout(model, scenario):
    ask(model)
    while scenario["how"] == "sleeps" and not released.is_set():
        time.sleep(0.1)
    while scenario["how"] == "spins" and not released.is_set():
        pass
    if scenario["how"] == "asks":
        messages = [{"role": "user", "content": "And now?"}]
        await model.openai_client().chat.completions.create(model="m", messages=messages)
    return 1.0
"""


async def test_blocking_costs_one_rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the flow's event loop those that block would never be given up."""
    monkeypatch.setattr(threads, "_GRACE_S", 0.05)
    environment = load_python(write(tmp_path, BLOCKING))
    async with Recorder() as recorder, asked(ScriptedPolicy()) as policy:
        hurried = replace(policy, limits=replace(policy.limits, deadline_s=0.5))
        patient = replace(policy, limits=replace(policy.limits, deadline_s=120))
        # The others have all the time of a busy machine: those that block are not released before.
        policies = (hurried, hurried, patient, patient)
        pairs = zip(policies, environment.scenarios("train"), strict=True)
        plays = [recorder.run(one, environment, scenario) for one, scenario in pairs]
        try:
            sleeps, spins, works, asks = await asyncio.gather(*plays)
        finally:
            release(environment)
    assert sleeps.score.cause == spins.score.cause == "rollout_timeout"
    assert (works.reward, asks.reward) == (1.0, 1.0)
    assert len(asks.calls) == 2


async def test_endless_threads_stop_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_GRACE_S", 0.05)
    monkeypatch.setattr(threads, "ABANDONED_MAX", 2)
    environment = load_python(write(tmp_path, BLOCKING))
    sleeps, _, works, _ = environment.scenarios("train")
    async with Recorder() as recorder, asked(ScriptedPolicy()) as policy:
        hurried = replace(policy, limits=replace(policy.limits, deadline_s=0.3))
        try:
            for _ in range(2):
                played = await recorder.run(hurried, environment, sleeps)
                assert played.score.cause == "rollout_timeout"
            with pytest.raises(RolloutError, match=r"agent.py: 2 functions are still running"):
                await recorder.run(policy, environment, works)
        finally:
            release(environment)
        await asyncio.to_thread(join_all)
        assert (await recorder.run(policy, environment, works)).reward == 1.0


STUCK = """
import asyncio, threading

from precis.environments import threads

threads._GRACE_S = 0.1


async def rollout():
    await asyncio.to_thread(threading.Event().wait)


async def main():
    running = asyncio.create_task(threads.UserThreads("agent.py").run(rollout))
    await asyncio.wait({running}, timeout=1)
    running.cancel()
    await asyncio.wait({running})


asyncio.run(main())
"""


def test_a_process_ends_although_an_agent_s_call_in_a_thread_does_not() -> None:
    subprocess.run([sys.executable, "-c", STUCK], timeout=patience_s(), check=True)


def release(environment: PythonEnvironment) -> None:
    environment._module.released.set()


def join_all() -> None:
    for thread in threading.enumerate():
        if thread.name == "precis-rollout":
            thread.join(60)


async def test_a_rollout_s_changes_are_not_the_next_one_s(tmp_path: Path) -> None:
    text = AGENT.replace('"seed": seed', '"seed": seed, "moves": []')
    text = text.replace("return scenario[", "scenario['moves'].append(1)\n    return scenario[")
    environment = load_python(write(tmp_path, text))
    scenario = environment.scenarios("train")[0]
    await environment.rollout(NO_MODEL, scenario)
    assert scenario["moves"] == []


async def test_a_rollout_that_changes_the_working_directory_is_refused(tmp_path: Path) -> None:
    folder = Path.cwd()
    gone = repr(str(tmp_path / "gone"))
    leave = f"os.mkdir({gone}); os.chdir({gone}); os.rmdir({gone})"
    text = AGENT.replace("return scenario[", f"{leave}\n    return scenario[")
    environment = load_python(write(tmp_path, f"import os\nos.chdir('/')\n{text}"))
    assert Path.cwd() == folder
    with pytest.raises(RolloutError, match="changed the working directory"):
        await environment.rollout(NO_MODEL, environment.scenarios("train")[0])
    assert Path.cwd() == folder


NO_MODEL: Any = None
ACROSS_LOOPS = """
import asyncio

lock = asyncio.Lock()
kept = []


async def rollout(model, scenario):
    kept.append(asyncio.get_running_loop().create_future())
    STATEMENT
"""


EXPLAINED = "^RuntimeError: Each rollout has its own event loop"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("await lock.acquire(); await asyncio.wait_for(lock.acquire(), 0.05)", EXPLAINED),
        ("await kept[0] if len(kept) > 1 else None", EXPLAINED),
        ("kept[0].get_loop().call_soon(print)", EXPLAINED),
        ("asyncio.run(None)", r"^RuntimeError: asyncio.run\(\) cannot"),
        # As code may that a model has written and an agent runs; Ctrl-C reaches the main thread.
        ("raise GeneratorExit", r"It raised GeneratorExit\. \(.*agent.py, line \d+\)"),
        ("raise KeyboardInterrupt", r"It raised KeyboardInterrupt\. \(.*agent.py, line \d+\)"),
    ],
)
async def test_a_foreign_event_loop_is_explained(tmp_path: Path, statement: str, said: str) -> None:
    text = AGENT + ACROSS_LOOPS.replace("STATEMENT", statement)
    _, played = await play(load_python(write(tmp_path, text)), games=2)
    assert isinstance(played.score, Unscored) and played.score.cause == "agent_failed"
    assert re.search(said, played.score.detail)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def scenarios(:", r"can't be imported: SyntaxError: .* \(agent.py, line 1\)\.$"),
        ("raise SystemExit(3)", "can't be imported: SystemExit"),
        ("import no_such", r"'no_such' \(.*, line 1\); install it by `/.*python.* -m pip install"),
        ("\n{}['board']", r"can't be imported: KeyError: 'board' \(.*agent.py, line 2\)\.$"),
        ("def scenarios(split): return []", "has no function `rollout.model, scenario.`"),
        ("scenarios = rollout = 3", "has no function `scenarios.split.`"),
        (AGENT.replace("range(4, 6)", "()"), "'validation'. Have scenarios.split. return"),
        (AGENT.replace('f"game-{seed}"', '"game"'), "two scenarios have the id 'game'"),
        (AGENT.replace('"id": f"game-{seed}", ', ""), "has the id None"),
        (AGENT.replace('f"game-{seed}", ', "True, "), "has the id True"),
        (AGENT.replace('f"game-{seed}", ', '"", '), "has the id ''"),
        (AGENT.replace('"seed": seed', '"seed": {1}'), "is not JSON"),
        (AGENT.replace("range(4)", "1 / 0"), r"by zero \(.*, line 8\)\. Have it return a list"),
        (AGENT.replace("return [", "return None\n    return ["), r"not iterable\. Have it return"),
        (AGENT.replace("return [", "return ['a']\n    return ["), "'a' is not a dictionary"),
        (AGENT.replace("range(4, 6)", "range(3, 6)"), "have the id 'game-3'. Give each"),
        (AGENT.replace("scenarios(split)", "scenarios()"), "has no function `scenarios.split.`"),
        (AGENT + "nouns = {'rollout': 'game'}", r"the nouns {.*}\. Write them as `Nouns"),
        (AGENT + "baselines = []", "has a baselines that is not a function"),
        (AGENT + "score = 'judge'", "score is 'judge'. Set it to 'ruler'"),
        (AGENT + "score = 'ruler'", "nothing says what is good. Set `rubric` to a sentence"),
        (AGENT + "score = 'ruler'\nrank = sorted", "`rank`, and score 'ruler'"),
        (f"files = ['words.txt']\n{AGENT}", r"^agent\.py lists 'words.txt' in `files`"),
        (f"from tools import SIDES\n{AGENT}", r"^agent\.py imports 'tools' of its folder, and Pré"),
    ],
)
def test_a_file_of_no_use_gets_a_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "tools.py").write_text("SIDES = ['left', 'right']")  # as a package of ours is named
    with pytest.raises(ConfigError, match=complaint):
        load_python(write(tmp_path, text))


def test_a_listed_file_may_lie_in_a_folder_named_as_a_package_of_ours(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "server.py").touch()
    load_python(write(tmp_path, f"files = ['tools/server.py']\n{AGENT}"))


ART = {"trainer": {"kind": "art"}}


def test_a_benchmark_of_an_agent_knows_no_documents() -> None:
    run = TrainConfig.model_validate({"store": "s", **ART, "environment": "agent.py"})
    given = BenchmarkConfig.of(run).model_dump()
    for name, value in {"test_documents": {"source": "x.csv"}, "extractive": "small"}.items():
        with pytest.raises(ValidationError, match=f"{name} is a setting of summaries"):
            BenchmarkConfig.model_validate({**given, name: value})


DOCS = Path(__file__).parents[3] / "docs" / "agents.md"


async def test_the_file_at_the_head_of_the_documentation_runs(tmp_path: Path) -> None:
    code = DOCS.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    environment = load_python(write(tmp_path, code))

    def open_right(request: ChatRequest) -> ToolCall:
        hint = request.messages[-1]["content"]
        side = "left" if "red" in hint else "right"
        return ToolCall("1", "open_door", json.dumps({"side": side}))

    for say, reward, calls in ((open_right, 1.0, 3), (lambda _: "Hm.", 0.0, 1)):
        [played] = await play(environment, ScriptedPolicy(say), 1)
        assert (played.reward, len(played.calls)) == (reward, calls)
