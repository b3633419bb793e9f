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
from precis.environments import threads
from precis.environments.python import PythonEnvironment, load_python
from precis.environments.recorder import Recorder
from precis.errors import ConfigError, JudgeUnavailable, RolloutError
from precis.llm.server import ChatRequest, ToolCall
from precis.records.rollout import Rollout, Scenario, Score, Unscored
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
async def checks(): return ["The board is missing."]
def show(rollout): return f"reward {rollout.reward}"
async def rank(group): return group[:1]
"""
    async with load_python(write(tmp_path, AGENT + more)) as environment:
        played = Rollout(Scenario("game-0"), 0, (), Score(1.0))
        assert await environment.checks() == ["The board is missing."]
        assert environment.show(played) == "reward 1.0"
        assert await environment.rank([played, played]) == [played]


@pytest.mark.parametrize("returned", ["None", "[0.5, 0.5]", "0.5"])
async def test_a_rank_that_returns_no_rollouts_ends_the_step_with_a_sentence(
    tmp_path: Path, returned: str
) -> None:
    environment = load_python(write(tmp_path, f"{AGENT}\ndef rank(group):\n    return {returned}"))
    with pytest.raises(RolloutError, match=f"rank returned {re.escape(returned)}. Have it return"):
        await environment.rank([Rollout(Scenario("game-0"), 0, (), Score(1.0))])


async def test_what_an_optional_function_raises_is_said_with_its_line(tmp_path: Path) -> None:
    text = """
def checks(): {}["board"]
def rank(group): raise SystemExit(3)
def baselines(): return None
"""
    environment = load_python(write(tmp_path, AGENT + text))
    failed = r"checks failed: KeyError: 'board' \(.*agent.py, line \d+\)"
    with pytest.raises(RolloutError, match=failed):
        await environment.checks()
    with pytest.raises(RolloutError, match="rank failed: SystemExit: 3"):
        await environment.rank([])
    with pytest.raises(RolloutError, match="baselines returned None"):
        environment.baselines()


def test_an_error_of_ours_that_a_file_s_baselines_raise_stays_that_error(tmp_path: Path) -> None:
    text = """
def baselines():
    from precis.errors import JudgeUnavailable

    raise JudgeUnavailable("The teacher is out.")
"""
    environment = load_python(write(tmp_path, AGENT + text))
    with pytest.raises(JudgeUnavailable, match=r"^The teacher is out"):
        environment.baselines()


async def test_a_rank_that_makes_a_reward_no_number_leaves_it_without_a_score(
    tmp_path: Path,
) -> None:
    text = """
from dataclasses import replace
from precis.environments.protocol import Score
def rank(group): return [replace(one, score=Score(float("nan"))) for one in group]
"""
    environment = load_python(write(tmp_path, AGENT + text))
    [ranked] = await environment.rank([Rollout(Scenario("game-0"), 0, (), Score(1.0))])
    assert ranked.score.cause == "no_score"


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


async def test_an_agent_that_blocks_costs_its_own_rollout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_threads_that_nothing_ends_stop_the_run_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    subprocess.run([sys.executable, "-c", STUCK], timeout=30, check=True)


def release(environment: PythonEnvironment) -> None:
    environment._module.released.set()


def join_all() -> None:
    for thread in threading.enumerate():
        if thread.name == "precis-rollout":
            thread.join(60)


async def test_what_a_rollout_changes_in_its_scenario_is_not_the_next_one_s(
    tmp_path: Path,
) -> None:
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


@pytest.mark.parametrize(
    ("statement", "is_explained"),
    [
        ("await lock.acquire(); await asyncio.wait_for(lock.acquire(), 0.05)", True),
        ("await kept[0] if len(kept) > 1 else None", True),
        ("kept[0].get_loop().call_soon(print)", True),
        ("asyncio.run(None)", False),
    ],
)
async def test_a_client_of_another_event_loop_is_explained(
    tmp_path: Path, statement: str, is_explained: bool
) -> None:
    text = AGENT + ACROSS_LOOPS.replace("STATEMENT", statement)
    _, played = await play(load_python(write(tmp_path, text)), games=2)
    assert isinstance(played.score, Unscored)
    advice = "Each rollout has its own event loop"
    assert (advice in played.score.detail) is is_explained, played.score


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def scenarios(:", r"can't be imported: SyntaxError: .* \(agent.py, line 1\)\.$"),
        ("raise SystemExit(3)", "can't be imported: SystemExit"),
        ("\n{}['board']", r"can't be imported: KeyError: 'board' \(.*agent.py, line 2\)\.$"),
        ("def scenarios(split): return []", "has no function `rollout.model, scenario.`"),
        ("scenarios = rollout = 3", "has no function `scenarios.split.`"),
        (AGENT.replace("range(4, 6)", "()"), "'validation'. Have scenarios.split. return"),
        (AGENT.replace('f"game-{seed}"', '"game"'), "two scenarios have the id 'game'"),
        (AGENT.replace('"id": f"game-{seed}", ', ""), "has the id None"),
        (AGENT.replace('"seed": seed', '"seed": {1}'), "is not JSON"),
        (AGENT.replace("range(4)", "1 / 0"), r"by zero \(.*, line 8\)\. Have it return a list"),
        (AGENT.replace("return [", "return None\n    return ["), r"not iterable\. Have it return"),
        (AGENT.replace("return [", "return ['a']\n    return ["), "'a' is not a dictionary"),
        (AGENT.replace("range(4, 6)", "range(3, 6)"), "have the id 'game-3'. Give each"),
        (AGENT.replace("scenarios(split)", "scenarios()"), "has no function `scenarios.split.`"),
        (AGENT + "nouns = {'rollout': 'game'}", r"the nouns {.*}\. Write them as `Nouns"),
        (AGENT + "figures = 3", "the figures 3. Write a list of `Figure"),
        (AGENT + "figures = ['turns']", "the figures .*'turns'.*Write a list"),
        (AGENT + "baselines = []", "has a baselines that is not a function"),
        (AGENT + "score = 'judge'", "score is 'judge'. Set it to 'ruler'"),
        (AGENT + "score = 'ruler'", "nothing says what is good. Set `rubric` to a sentence"),
        (AGENT + "score = 'ruler'\nrank = sorted", "`rank`, and score 'ruler'"),
    ],
)
def test_a_file_that_can_t_be_used_gets_a_sentence(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_python(write(tmp_path, text))


@pytest.mark.parametrize("name", ["nothing.py", "agent.txt"])
def test_a_file_that_is_not_there_or_no_python_gets_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "agent.txt").write_text(AGENT)
    with pytest.raises(ConfigError, match=f"{name} is not there, or is not a Python file"):
        load_python(str(tmp_path / name))


ART = {"trainer": {"kind": "art"}}


def test_a_benchmark_of_an_agent_knows_no_documents() -> None:
    run = TrainConfig.model_validate({"store": "s", **ART, "environment": "agent.py"})
    given = BenchmarkConfig.of(run).model_dump()
    for name, value in {"test_documents": {"source": "x.csv"}, "extractive": "small"}.items():
        with pytest.raises(ValidationError, match=f"{name} is a setting of summaries"):
            BenchmarkConfig.model_validate({**given, name: value})


DOCS = Path(__file__).parents[3] / "docs" / "agents.md"


async def test_the_file_that_the_documentation_begins_with_runs_as_it_stands(
    tmp_path: Path,
) -> None:
    code = DOCS.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    environment = load_python(write(tmp_path, code))

    def open_right(request: ChatRequest) -> ToolCall:
        hint = request.messages[-1]["content"]
        side = "left" if "red" in hint else "right"
        return ToolCall("1", "open_door", json.dumps({"side": side}))

    for say, reward, calls in ((open_right, 1.0, 3), (lambda _: "Hm.", 0.0, 1)):
        [played] = await play(environment, ScriptedPolicy(say), 1)
        assert (played.reward, len(played.calls)) == (reward, calls)


@pytest.mark.parametrize("name", ["GeneratorExit", "KeyboardInterrupt"])
async def test_an_interrupt_that_an_agent_raises_costs_its_own_rollout(
    name: str, tmp_path: Path
) -> None:
    """As code may that a model has written and an agent runs; Ctrl-C reaches the main thread."""
    text = AGENT.replace('return scenario["seed"] % 2 == 0', f"raise {name}")
    [rollout] = await play(load_python(write(tmp_path, text)))
    assert isinstance(rollout.score, Unscored) and rollout.score.cause == "agent_failed"
    assert re.search(rf"It raised {name}. \(.*agent.py, line \d+\)", rollout.score.detail)
