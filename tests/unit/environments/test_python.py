"""An environment of one file: what it may hold, and the sentence for one that can't be used."""

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from precis.benchmark.measure import checkpoints_to_take
from precis.config import BenchmarkConfig, TrainConfig
from precis.environments import threads
from precis.environments.python import PythonEnvironment, load_python
from precis.environments.recorder import Recorder
from precis.errors import ConfigError, RolloutError
from precis.llm.server import ChatRequest, ToolCall
from precis.records.rollout import Rollout, Scenario, Score, Unscored
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


async def test_two_functions_are_an_environment(tmp_path: Path) -> None:
    model: Any = None
    async with load_python(write(tmp_path, AGENT)) as environment:
        train = environment.scenarios("train")
        assert [one.id for one in train] == ["game-0", "game-1", "game-2", "game-3"]
        assert await environment.rollout(model, train[0]) is True
        assert environment.nouns.success == "win rate"
        assert (environment.figures, environment.baselines()) == ((), {})
        assert await environment.checks() == ()
        assert environment.show(Rollout(train[0], 0, (), Score(1.0))) == ""


async def test_what_else_it_defines_is_taken(tmp_path: Path) -> None:
    more = """
async def checks():
    return ["The board is missing."]


def show(rollout):
    return f"reward {rollout.reward}"


async def rank(group):
    return group[:1]


opened = []


async def open():
    opened.append(True)
"""
    async with load_python(write(tmp_path, AGENT + more)) as environment:
        played = Rollout(Scenario("game-0"), 0, (), Score(1.0))
        assert await environment.checks() == ["The board is missing."]
        assert environment.show(played) == "reward 1.0"
        assert await environment.rank([played, played]) == [played]


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


def test_a_changed_helper_beside_the_file_is_another_run(tmp_path: Path) -> None:
    helper = tmp_path / "rules_of_this_test"
    helper.mkdir()
    (helper / "__init__.py").write_text("from rules_of_this_test.boards import SIZE\n")
    boards = helper / "boards.py"
    boards.write_text("SIZE = 3\n")
    stranger = tmp_path / "nobody_imports_this.py"
    stranger.write_text("A = 1\n")
    # Also one that is imported no earlier than in a rollout.
    text = AGENT.replace(
        "    return scenario", "    import rules_of_this_test\n    return scenario"
    )
    file = write(tmp_path, text)
    identity = load_python(file).identity
    stranger.write_text("A = 2\n")
    assert load_python(file).identity == identity
    boards.write_text("SIZE = 4\n")
    assert load_python(file).identity != identity


async def test_a_model_config_of_the_file_is_the_model_s_config(tmp_path: Path) -> None:
    text = AGENT.replace("return scenario", "return await asked(model) and scenario")
    text += """
from pydantic import BaseModel


class Limits(BaseModel):
    depth: int = 7


model_config = Limits()


async def asked(model):
    messages = [{"role": "user", "content": str(model.config.depth)}]
    await model.openai_client().chat.completions.create(model="m", messages=messages)
    return True
"""
    scripted = ScriptedPolicy()
    environment = load_python(write(tmp_path, text))
    async with Recorder() as recorder, asked(scripted) as policy:
        played = await recorder.run(policy, environment, environment.scenarios("train")[0])
    assert played.reward == 1.0
    assert scripted.requests[0].messages[0]["content"] == "7"


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


@pytest.mark.parametrize("keyword", ["async def", "def"])
async def test_an_agent_that_blocks_costs_its_own_rollout(
    keyword: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the flow's event loop those that block would never be given up."""
    monkeypatch.setattr(threads, "_GRACE_S", 0.05)
    text = BLOCKING.replace("async def", keyword)
    if keyword == "def":
        text = text.replace('if scenario["how"] == "asks":', "if False:").replace("await ", "")
        text = text.replace('== "sleeps"', 'in ("sleeps", "spins")')  # one spinner is enough
    environment = load_python(write(tmp_path, text))
    async with Recorder() as recorder, asked(ScriptedPolicy()) as policy:
        hurried = replace(policy, limits=replace(policy.limits, deadline_s=5.0))
        plays = [recorder.run(hurried, environment, one) for one in environment.scenarios("train")]
        try:
            sleeps, spins, works, asks = await asyncio.gather(*plays)
        finally:
            release(environment)
    assert sleeps.score.cause == spins.score.cause == "rollout_timeout"
    assert (works.reward, asks.reward) == (1.0, 1.0)
    assert len(asks.calls) == (2 if keyword == "async def" else 1)


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
            with pytest.raises(RolloutError, match=r"agent.py: 2 functions are still at work"):
                await recorder.run(policy, environment, works)
        finally:
            release(environment)
        await asyncio.to_thread(join_all)
        assert (await recorder.run(policy, environment, works)).reward == 1.0


def release(environment: PythonEnvironment) -> None:
    environment._module.released.set()


def join_all() -> None:
    for thread in threading.enumerate():
        if thread.name == "precis-rollout":
            thread.join(20)


async def test_a_client_of_another_event_loop_is_explained(tmp_path: Path) -> None:
    text = (
        AGENT
        + """
import asyncio

lock = asyncio.Lock()


async def rollout(model, scenario):
    await lock.acquire()
    await asyncio.wait_for(lock.acquire(), 0.05)
"""
    )
    environment = load_python(write(tmp_path, text))
    scenario = environment.scenarios("train")[0]
    async with Recorder() as recorder, asked(ScriptedPolicy()) as policy:
        await recorder.run(policy, environment, scenario)
        played = await recorder.run(policy, environment, scenario)
    assert isinstance(played.score, Unscored)
    assert "Each rollout has an event loop of its own" in played.score.detail


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "chess_rules_of_this_test.py").write_text("BOARDS = 3\n")
    text = "from chess_rules_of_this_test import BOARDS\n" + AGENT
    assert len(load_python(write(tmp_path, text)).scenarios("train")) == 4


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("def scenarios(:", "can't be imported: SyntaxError"),
        ("import no_such_package_of_anybody", "can't be imported: ModuleNotFoundError"),
        ("raise SystemExit(3)", "can't be imported: SystemExit"),
        ("def scenarios(split): return []", "has no function `rollout`"),
        ("async def rollout(model, scenario): return 1.0", "has no function `scenarios`"),
        ("scenarios = rollout = 3", "has no function `scenarios`"),
        (AGENT.replace("range(4, 6)", "range(0)"), r"scenarios\('validation'\) returned none"),
        (AGENT.replace('f"game-{seed}"', '"game"'), "two scenarios of 'train' have the id 'game'"),
        (AGENT.replace('"id": f"game-{seed}", ', ""), "has the id None"),
        (AGENT.replace('"seed": seed', '"seed": {1}'), "is not JSON"),
        (AGENT.replace("range(4)", "1 / 0"), r"ZeroDivisionError: .*\. Have it return a list"),
        (AGENT.replace("return [", "return None\n    return ["), r"not iterable\. Have it return"),
        (AGENT.replace("return [", "return ['a']\n    return ["), "'a' is no dictionary"),
        (AGENT.replace("range(4, 6)", "range(3, 6)"), "'game-3' is in both .* Give each split"),
        (AGENT.replace("scenarios(split)", "scenarios()"), r"defines scenarios\(\), which does"),
        (
            AGENT.replace("rollout(model, scenario)", "rollout(model)"),
            r"defines rollout\(model\), which does not take \(model, scenario\)\. Define `rollout",
        ),
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


def test_a_file_that_is_not_there_or_no_python_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        load_python(str(tmp_path / "nothing.py"))
    (tmp_path / "agent.txt").write_text(AGENT)
    with pytest.raises(ConfigError, match="is no Python file"):
        load_python(str(tmp_path / "agent.txt"))


ART = {"trainer": {"kind": "art"}}


def test_the_settings_take_a_path_as_it_is() -> None:
    config = TrainConfig.model_validate({"store": "s", **ART, "environment": "agent.py"})
    whole = {"kind": "python", "file": "agent.py", "score": "", "rubric": "", "workers": None}
    assert config.environment.model_dump() == whole
    same = TrainConfig.model_validate({"store": "s", **ART, "environment": whole})
    assert same.environment == config.environment
    assert TrainConfig.model_validate({"store": "s"}).environment.kind == "summaries"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"trainer": {"kind": "extractive"}}, "picks sentences of documents"),
        ({"second_judge": {}}, "second_judge is a setting of summaries"),
        ({"rollouts": {"reward": "ruler"}}, "rollouts.reward 'ruler' is a setting of summaries"),
    ],
)
def test_what_only_summaries_have_is_refused(given: dict[str, Any], complaint: str) -> None:
    settings = {"store": "s", **ART, "environment": "agent.py", **given}
    with pytest.raises(ValidationError, match=complaint):
        TrainConfig.model_validate(settings)


def test_a_benchmark_of_an_agent_knows_no_documents() -> None:
    run = TrainConfig.model_validate({"store": "s", **ART, "environment": "agent.py"})
    given = BenchmarkConfig.of(run).model_dump()
    for name, value in {"test_documents": {"source": "x.csv"}, "extractive": "small"}.items():
        with pytest.raises(ValidationError, match=f"{name} is a setting of summaries"):
            BenchmarkConfig.model_validate({**given, name: value})


def test_a_run_ends_with_a_benchmark_of_the_checkpoints_that_it_validated() -> None:
    run = TrainConfig.model_validate(
        {"store": "s", **ART, "environment": "agent.py", "validate_every": 10}
    )
    assert checkpoints_to_take(range(26), BenchmarkConfig.of(run)) == [0, 10, 20, 25]
    summaries = TrainConfig.model_validate({"store": "s", **ART, "validate_every": 10})
    assert checkpoints_to_take(range(26), BenchmarkConfig.of(summaries)) == [*range(26)]


DOCS = Path(__file__).parents[3] / "docs" / "agents.md"


async def test_the_file_that_the_documentation_begins_with_runs_as_it_stands(
    tmp_path: Path,
) -> None:
    code = DOCS.read_text("utf-8").partition("```python\n")[2].partition("```")[0]
    environment = load_python(write(tmp_path, code))
    scenario = environment.scenarios("validation")[0]

    def open_right(request: ChatRequest) -> ToolCall:
        hint = request.messages[-1]["content"]
        side = "left" if "red" in hint else "right"
        return ToolCall("1", "open_door", json.dumps({"side": side}))

    for say, reward, calls in ((open_right, 1.0, 3), (lambda _: "Hm.", 0.0, 1)):
        async with Recorder() as recorder, asked(ScriptedPolicy(say)) as policy:
            played = await recorder.run(policy, environment, scenario)
        assert (played.reward, len(played.calls)) == (reward, calls)
