"""The recorder: any agent's calls are taken down, and each agent's trouble is its own."""

import asyncio
import json
import logging
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import art
import httpx
import numpy as np
import openai
import pytest
from art.auto_trajectory import capture_auto_trajectory
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from precis.environments import recorder as recorder_module
from precis.environments.conversations import conversations_of
from precis.environments.recorded_client import _Completions
from precis.environments.recorder import Recorder, score_of
from precis.environments.session import Limits, Policy
from precis.environments.trajectories import group_of, put_trajectories
from precis.errors import StaleAdapter, TrainerError
from precis.llm.client import ChatClient, OwnServer
from precis.llm.limits import without_quota
from precis.llm.providers import Endpoint
from precis.llm.server import ApiError, ChatRequest, Completion, ToolCall
from precis.records.rollout import UNJUDGED, Rollout, Scenario, Score, Unscored
from precis.records.samples import sampled_in
from precis.store import FolderStore
from tests.services.patience import until
from tests.support.echoing import PRESS
from tests.support.local_server import served
from tests.support.rollouts import calling
from tests.support.scripted_policy import LIMITS, MODEL, Act, Agent, ScriptedPolicy, asked


async def play(act: Act, scripted: ScriptedPolicy | None = None, **changes: Any) -> Rollout:
    async with asked(scripted or ScriptedPolicy(), **changes) as policy, Recorder() as recorder:
        return await recorder.run(policy, Agent(act), Scenario("a", {"seed": 5}), index=2)


async def ask(model: Any, content: str = "Move.", **options: Any) -> Any:
    messages = [{"role": "user", "content": content}]
    name = model.get_inference_name()
    create = model.openai_client().chat.completions.create
    return (await create(model=name, messages=messages, **options)).choices[0]


def asking(*requests: dict[str, Any]) -> Act:
    """An agent that asks once with each of these options."""

    async def act(model: Any, scenario: Scenario) -> float:
        for options in requests:
            await ask(model, **options)
        return 1.0

    return act


ask_once = asking({})


async def post(model: Any, key: str, content: str) -> httpx.Response:
    """Ask over HTTP, as a program does."""
    async with httpx.AsyncClient() as http:
        return await http.post(
            f"{model.inference_base_url}/chat/completions",
            headers={"authorization": f"Bearer {key}"},
            content=content,
        )


# As the notebooks of ART have it: the function knows ART alone.
async def art_rollout(model: art.Model[Any, Any], scenario: Scenario) -> art.Trajectory:
    system: Any = {"role": "system", "content": "Play."}
    trajectory = art.Trajectory(messages_and_choices=[system], reward=1.0)
    for _ in range(3):
        board: Any = {"role": "user", "content": f"Board {scenario['seed']}."}
        trajectory.messages_and_choices.append(board)
        completion = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(),
            messages=trajectory.messages(),
            max_completion_tokens=16,
        )
        trajectory.messages_and_choices.append(completion.choices[0])
    trajectory.metrics |= {"success": True, "moves": 3}
    return trajectory


async def test_a_function_of_art_s_notebooks_is_recorded_unchanged() -> None:
    async with asked(ScriptedPolicy()) as policy, Recorder() as recorder:
        scenarios = [Scenario(f"game-{number}", {"seed": number}) for number in range(16)]
        plays = [recorder.run(policy, Agent(art_rollout), one) for one in scenarios]
        rollouts = await asyncio.gather(*plays)
    for rollout, scenario in zip(rollouts, scenarios, strict=True):
        assert rollout.scenario is scenario
        assert rollout.score == Score(1.0, True, {"moves": 3.0})
        first, second, third = rollout.calls
        assert first.messages[0] == {"role": "system", "content": "Play."}
        assert third.messages[1]["content"] == f"Board {scenario['seed']}."
        assert [one["role"] for one in third.messages[1:]] == ["user", "assistant"] * 2 + ["user"]
        assert second.text == third.messages[4]["content"]
        assert first.token_ids == tuple(map(ord, first.text))
        assert len(first.logprobs) == len(first.token_ids)
        assert "logprobs" not in first.choice
        assert third.prompt_ids[: len(second.prompt_ids)] == second.prompt_ids
        assert first.served_by == MODEL
        assert first.usage.completion_tokens == len(first.token_ids)


async def test_what_art_s_examples_use_of_a_model_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.delenv("no_proxy", raising=False)

    class Config(BaseModel):
        turns_max: int = 7

    class Configured(Agent):
        model_config = Config()

    async def look(model: art.Model[Any, Any], scenario: Scenario) -> float:
        assert isinstance(model, art.Model)
        assert (model.name, model.get_inference_name()) == ("policy", "policy")
        assert model.trainable
        assert await model.get_step() == 3
        assert model.config.turns_max == 7
        assert model.openai_client() is model.openai_client()
        # ART·E asks by address, through litellm, and no proxy reaches that.
        parameters = model.litellm_completion_params()
        async with httpx.AsyncClient() as http:
            answer = await http.post(
                f"{parameters['base_url']}/chat/completions",
                headers={"Authorization": f"Bearer {parameters['api_key']}"},
                json={"model": "another", "messages": [{"role": "user", "content": "Go."}]},
            )
        assert answer.json()["choices"][0]["message"]["content"] == "[4]"
        return 1.0

    async with asked(ScriptedPolicy()) as policy, Recorder() as recorder:
        rollout = await recorder.run(policy, Configured(look), Scenario("a"))
    assert rollout.score == Score(1.0)


def call_then_say(request: ChatRequest) -> str | ToolCall:
    if request.tools and request.messages[-1]["role"] == "user":
        return ToolCall("call-1", "press", '{"colour": "red"}')
    return "[7]"


async def test_an_address_is_its_rollout_s_alone_and_ends_with_it() -> None:
    left: list[Any] = []

    async def look(model: Any, scenario: Scenario) -> float:
        left.append(model)
        assert (await post(model, "guessed", "{}")).status_code == 401
        async with model.openai_client():  # it closes its client for nobody else
            await ask(model)
        return 1.0

    async with asked(ScriptedPolicy()) as policy, Recorder() as recorder:
        assert len((await recorder.run(policy, Agent(look), Scenario("a"))).calls) == 1
        late = await post(left[0], left[0].inference_api_key, "{}")
        assert (await recorder.run(policy, Agent(ask_once), Scenario("a"))).score == Score(1.0)
    assert late.status_code == 410 and "each has its own address" in late.text


async def test_the_recorder_decides_how_the_policy_samples() -> None:
    scripted = ScriptedPolicy()
    decided = {"temperature": 0.1, "seed": 1, "top_p": 0.5, "logprobs": False}
    full = {**decided, "presence_penalty": 1.0, "stop": ["."], "max_tokens": 20}
    await play(asking(full, {"max_completion_tokens": 5000, "user": "me"}, {}), scripted)
    first, second, third = (one.model_dump(exclude_unset=True) for one in scripted.requests)
    assert first == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Move."}],
        "stop": ["."],
        "max_tokens": 20,
        "temperature": 1.0,
        "seed": 2000,
        "logprobs": True,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }
    assert second["seed"] == 2001
    assert second["max_tokens"] == LIMITS.tokens_max - 3
    assert "max_completion_tokens" not in second
    # vLLM refuses a limit above what its context leaves, such as all of a rollout's.
    assert not {"max_tokens", "max_completion_tokens"} & set(third)


async def play_answered(act: Act, choice: dict[str, Any]) -> Rollout:
    """Play where the policy's server gives this choice, as it is, to whatever it is asked."""

    async def complete(request: Request) -> Response:
        body = {"model": MODEL, "choices": [choice], "prompt_token_ids": [1, 2]}
        return Response(json.dumps(body), media_type="application/json")

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    with served(app) as url:
        endpoint = Endpoint(f"{url}/v1", MODEL, "the-key", role="policy")
        settings = OwnServer(without_quota(1), 20.0, tries_max=1)
        async with ChatClient(endpoint, settings, prices={}) as client, Recorder() as recorder:
            policy = Policy(client, LIMITS, {}, step=3, trained=True)
            return await recorder.run(policy, Agent(act), Scenario("a"))


async def test_a_trainers_log_probabilities_are_numbers() -> None:
    choice = {
        "message": {"role": "assistant", "content": "Yes."},
        "finish_reason": "stop",
        "token_ids": [5, 7],
        "logprobs": {"content": None, "token_logprobs": [-0.5, -1]},
    }

    async def act(model: Any, scenario: Scenario) -> float:
        assert (await ask(model)).logprobs is None  # it did not ask for any
        return 1.0

    call = (await play_answered(act, choice)).calls[0]
    assert (call.token_ids, call.logprobs) == ((5, 7), (-0.5, -1.0))
    for given in ([-0.5], [-0.5, None]):  # a server writes null for no number
        choice["logprobs"] = {"content": None, "token_logprobs": given}
        score = (await play_answered(act, choice)).score
        assert isinstance(score, Unscored)
        assert "2 tokens, not each with its log probability" in score.detail


async def test_messages_of_any_form_arrive_as_they_were_said() -> None:
    async def forms(model: Any, scenario: Scenario) -> float:
        client = model.openai_client()
        # Else each call with 24 messages would take 5 ms of a core in place of 1.
        assert isinstance(client.with_options(timeout=1).chat.completions, _Completions)
        name = model.get_inference_name()
        messages: list[Any] = [{"role": "user", "content": "Move."}]
        for _ in range(2):
            reply = await client.chat.completions.create(
                model=name, messages=messages, extra_body={"stop": ["."]}
            )
            messages += [reply.choices[0].message, {"role": "user", "content": "Again."}]
        body = '{"messages": [{"role": "user", "content": "a", "seen": NaN}]}'
        (await post(model, model.inference_api_key, body)).raise_for_status()
        return 1.0

    scripted = ScriptedPolicy()
    first, second, third = (await play(forms, scripted)).calls
    assert [one.model_dump()["stop"] for one in scripted.requests[:2]] == [["."], ["."]]
    assert first.messages == ({"role": "user", "content": "Move."},)
    assert [one["role"] for one in second.messages] == ["user", "assistant", "user"]
    assert third.messages[0]["seen"] is None


async def test_a_call_is_trained_on_with_offered_tools(tmp_path: Path) -> None:
    """vLLM and the embedded policy take one without its type, and with nothing for a value."""
    bare = {"name": "play", "description": None, "parameters": None, "strict": None}
    tools = [PRESS, {"function": bare}]
    choices = ["auto", PRESS, "none"]
    rollout = await play(asking(*({"tools": tools, "tool_choice": choice} for choice in choices)))
    assert rollout.reward == 1.0, rollout.score
    offered = [[tool["function"]["name"] for tool in call.tools] for call in rollout.calls]
    assert offered == [["press", "play"], ["press"], []]
    put_trajectories(FolderStore(tmp_path), "m", "train", 1, [[rollout]], MODEL)
    assert group_of([rollout]).trajectories[0].tools


async def test_a_stream_is_given_of_a_whole_answer() -> None:
    scripted = ScriptedPolicy(call_then_say)
    pieces: list[Any] = []

    async def act(model: Any, scenario: Scenario) -> float:
        for tools in ({"tools": [PRESS]}, {}):
            stream = await model.openai_client().chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "Move."}],
                stream=True,
                stream_options={"include_usage": True},
                **tools,
            )
            pieces.append([chunk async for chunk in stream])
        return 1.0

    rollout = await play(act, scripted)
    assert len(rollout.calls) == 2
    assert not any(request.stream for request in scripted.requests)
    called, said = pieces
    assert called[1].choices[0].delta.tool_calls[0].function.arguments == '{"colour": "red"}'
    assert called[2].choices[0].finish_reason == "tool_calls"
    assert said[0].choices[0].delta.content == "[7]"
    assert said[-1].usage.completion_tokens == 3


async def test_a_stream_has_a_text_and_each_call_in_its_own_chunk() -> None:
    calls = [*calling("press", {}, "1")["tool_calls"], *calling("press", {}, "2")["tool_calls"]]
    message = {"role": "assistant", "content": "Both.", "tool_calls": calls}
    sampled = {"token_ids": [5], "logprobs": {"token_logprobs": [-1]}}
    streams: list[str] = []

    async def act(model: Any, scenario: Scenario) -> float:
        reply = await post(model, model.inference_api_key, f'{{{ASKED}, "stream": true}}')
        streams.append(reply.text)
        return 1.0

    await play_answered(act, {"message": message, "finish_reason": "tool_calls", **sampled})
    *chunks, done, _ = streams[0].split("\n\n")
    deltas = [json.loads(one.removeprefix("data: "))["choices"][0]["delta"] for one in chunks]
    assert done == "data: [DONE]"
    assert deltas == [
        {"role": "assistant", "content": "Both."},
        {"tool_calls": [{**calls[0], "index": 0}]},
        {"tool_calls": [{**calls[1], "index": 1}]},
        {},
    ]


async def test_another_api_is_refused_with_what_to_do() -> None:
    async def act(model: Any, scenario: Scenario) -> float:
        async with httpx.AsyncClient(base_url=model.inference_base_url) as http:
            for path in ("responses", "v1/messages"):
                given = {"x-api-key": model.inference_api_key}  # Anthropic's clients send no other
                answer = await http.post(path, headers=given, content="{}")
                assert answer.status_code == 404
                message = answer.json()["error"]["message"]
                assert message.startswith(f"/v1/{path} is not answered: ask by `chat.completions`")
        await ask(model)
        return 1.0

    assert (await play(act)).score == Score(1.0)


class Silent(Exception):
    def __str__(self) -> str:
        raise ValueError("It can't be said.")


@pytest.mark.parametrize(
    ("how", "cause", "detail"),
    [
        (KeyError("board"), "agent_failed", r"KeyError: 'board' \(.*test_recorder.py, line \d+\)"),
        (OSError("No https://me:pass@host"), "agent_failed", "No https://…@host"),
        (OSError(f"{'No ' * 98}my-key-42"), "agent_failed", "(No ){98}… "),
        (Unscored("tool_out", "No my-key-42."), "tool_out", r"^No …\.$"),
        (Unscored("no_key", f"No {__file__}."), "no_key", r"test_recorder\.py\.$"),
        (ModuleNotFoundError("no_such"), "agent_failed", r"; install it by `/.* -m pip install …`"),
        (SystemExit(3), "agent_failed", "SystemExit: 3"),
        (Silent(), "agent_failed", r"^Silent \("),
        (ExceptionGroup("1", [ExceptionGroup("1", [KeyError("a")])]), "agent_failed", "^KeyError"),
        (BaseExceptionGroup("1", [KeyboardInterrupt()]), "agent_failed", "^KeyboardInterrupt"),
        (asyncio.CancelledError(), "agent_failed", "It cancelled itself"),
        (None, "no_score", "It returned nothing: return a Score"),
        (Unscored("judge_out", OSError("no route")), "judge_out", "^no route$"),  # type: ignore[arg-type]
        (Score(1.0, details={"seen": {1}}), "no_score", "Its details are not JSON: .*set"),
        (Score(1.0, details={"a": [float("nan")]}), "no_score", "are not JSON: Out of range"),
        (np.array([0.5, 0.5]), "no_score", "It returned a ndarray: return a Score, a number or"),
        (Score(1.0, "no"), "no_score", "Its success is 'no'"),  # type: ignore[arg-type]
        (Score(float("nan")), "no_score", "Its reward is nan, which is not a number"),
        (Score(-1e308), "no_score", r"Its reward is -1e\+308, which is not a number up to 1e\+30"),
        (Score("9" * 5000), "no_score", "^.{1000}$"),  # type: ignore[arg-type]
        (Score(1.0, metrics={"a": "b"}), "no_score", "metric a is 'b', which is"),  # type: ignore[dict-item]
    ],
)
async def test_an_agent_s_trouble_costs_its_own_rollout(
    how: object, cause: str, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT_TOKEN", "my-key-4")  # what another begins with
    monkeypatch.setenv("WEATHER_TOKEN", "my-key-42")
    monkeypatch.setenv("KEY_FILE", __file__)
    monkeypatch.setenv("VAL_SIZE", "none")  # as while somebody edits `.env`

    async def act(model: Any, scenario: Scenario) -> object:
        await ask(model)
        if isinstance(how, BaseException):
            raise how
        return how

    rollout = await play(act)
    assert isinstance(rollout.score, Unscored)
    assert rollout.score.cause == cause
    assert re.search(detail, rollout.score.detail)
    assert len(rollout.calls) == 1


async def test_what_goes_on_after_the_deadline_is_given_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An agent that heeds no cancellation, its call under way, and one that it makes later."""
    monkeypatch.setattr(recorder_module, "_GRACE_S", 0.05)
    released = asyncio.Event()
    freed = asyncio.Event()
    answers: list[Any] = []

    class Slow(ScriptedPolicy):
        async def __call__(self, request: ChatRequest) -> Completion:
            await released.wait()
            return await super().__call__(request)

    async def ask_late(model: Any) -> None:
        answers.extend(await asyncio.gather(ask(model), return_exceptions=True))

    async def stubborn(model: Any, scenario: Scenario) -> float:
        under_way = asyncio.create_task(ask_late(model))
        under_way.add_done_callback(lambda _: released.set())
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue
        await ask_late(model)
        return 1.0

    limits = replace(LIMITS, deadline_s=0.5)
    async with asked(Slow(), limits=limits) as policy, Recorder() as recorder:
        rollout = await recorder.run(policy, Agent(stubborn), Scenario("a"))
        assert rollout.score == Unscored("rollout_timeout", "No score within 0.5 s.")
        assert rollout.calls == ()
        assert "still runs" in caplog.text
        await until(lambda: answers, "the answer to the call under way")
        freed.set()
        await until(lambda: len(answers) == 2, "the answer to a late call")
    assert [getattr(one, "status_code", one) for one in answers] == [410, 410]


REFUSALS: list[int] = []


async def loops(model: Any, scenario: Scenario) -> float:
    while True:
        try:
            await ask(model)
        except openai.APIStatusError as error:
            REFUSALS.append(error.status_code)
            return 0.5


async def loops_on(model: Any, scenario: Scenario) -> float:
    while True:
        await loops(model, scenario)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("act", "limits", "cause", "calls"),
    [
        (loops, Limits(20.0, 4, 1000), "turns", 4),
        (loops, Limits(20.0, 1000, 10), "tokens", 4),
        (loops_on, Limits(20.0, 2, 1000), "turns", 2),
    ],
    ids=["turns", "tokens", "heedless"],
)
async def test_a_rollout_that_takes_too_much_is_ended(
    act: Act, limits: Limits, cause: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    REFUSALS.clear()
    if act is loops_on:
        monkeypatch.setattr(recorder_module, "_GRACE_S", 0.05)
    rollout = await play(act, limits=limits)
    assert isinstance(rollout.score, Unscored) and rollout.score.cause == cause
    assert len(rollout.calls) == calls
    if act is loops:
        assert REFUSALS == [410]  # after a 429 some clients would wait for minutes


@pytest.mark.parametrize("returned", [Score(1.0), Unscored(UNJUDGED, "No judge was asked.")])
async def test_an_attempt_without_a_call_has_no_score(returned: Score | Unscored) -> None:
    async def idle(model: Any, scenario: Scenario) -> Score | Unscored:
        return returned

    assert (await play(idle)).score.cause == "no_calls"


def failing(status: int, message: str) -> ScriptedPolicy:
    def fail(request: ChatRequest) -> str:
        raise ApiError(status, message, "code")

    return ScriptedPolicy(fail)


async def gives_up(model: Any, scenario: Scenario) -> float:
    try:
        await ask(model)
    except openai.APIStatusError:
        return 0.0
    return 1.0


@pytest.mark.parametrize(
    ("act", "status", "cause"),
    [
        (gives_up, 503, "generation_server_error"),
        (ask_once, 400, "generation_rejected"),
        (gives_up, 400, "generation_rejected"),
    ],
)
async def test_what_a_server_has_failed_at_is_no_zero(act: Act, status: int, cause: str) -> None:
    rollout = await play(act, failing(status, "Too long."))
    assert isinstance(rollout.score, Unscored)
    assert rollout.score.cause == cause
    assert "Too long." in rollout.score.detail


async def test_an_agent_may_have_an_answer_to_a_prompt_that_is_too_long() -> None:
    async def shortens(model: Any, scenario: Scenario) -> float:
        scripted.say = failing(400, "Too long.").say
        with pytest.raises(openai.BadRequestError):
            await ask(model)
        scripted.say = lambda _: "[4]"
        await ask(model, "Short.")
        return 1.0

    scripted = ScriptedPolicy()
    assert (await play(shortens, scripted)).score == Score(1.0)


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        ({"model": "policy@2"}, StaleAdapter, "'policy@2' answered where 'policy@3' was asked for"),
        ({"with_ids": False}, TrainerError, "without the ids of its tokens"),
    ],
    ids=["another adapter", "no ids"],
)
async def test_an_answer_that_can_t_be_trained_on_ends_the_step(
    fault: dict[str, Any], error: type[Exception], said: str
) -> None:
    scripted = ScriptedPolicy()
    vars(scripted).update(fault)
    with pytest.raises(error, match=said):
        await play(gives_up, scripted)


ASKED = '"messages": [{"role": "user", "content": "a"}]'
CALLED = '{"messages": [{"role": "assistant", "tool_calls": [%s]}]}'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("{", "Invalid JSON"),
        ("[" * 100_000, "Invalid JSON"),
        ('{"messages": [{"role": "user", "content": "\\ud800"}]}', "JSON: unexpected end of hex"),
        ("[]", "should be an object"),
        ('{"messages": []}', "messages: "),
        ('{"messages": ["Hi."]}', "messages.0: "),
        ('{"messages": [{"role": "tool", "tool_call_id": 1}]}', "messages.0.tool_call_id: "),
        (CALLED % "null", "tool_calls.0: "),
        (CALLED % '{"function": "a"}', "tool_calls.0.function: "),
        (CALLED % '{"custom": "a"}', "tool_calls.0.custom: "),
        (CALLED % '{"id": ["a"]}', "tool_calls.0.id: "),
        (f'{{{ASKED}, "n": 2}}', "n: Input should be 1"),
        (f'{{{ASKED}, "max_tokens": "9"}}', "max_tokens: "),
        (f'{{{ASKED}, "stream": true, "stream_options": []}}', "stream_options: "),
        (f'{{{ASKED}, "tools": "play"}}', "tools: "),
        (f'{{{ASKED}, "tools": [{{"function": {{}}}}]}}', "tools.0.function.name: "),
        (f'{{{ASKED}, "tools": [{{"type": "custom"}}]}}', "tools.0.type: "),
        (
            f'{{{ASKED}, "tools": [{{"function": {{"name": "a", "parameters": []}}}}]}}',
            "parameters: ",
        ),
    ],
)
async def test_a_request_that_is_none_is_refused_in_a_sentence(body: str, problem: str) -> None:
    async def act(model: Any, scenario: Scenario) -> float:
        answer = await post(model, model.inference_api_key, body)
        assert answer.status_code == 400
        assert problem in answer.json()["error"]["message"]
        await ask(model)
        return 1.0

    assert (await play(act)).score == Score(1.0)


async def test_a_killed_agent_s_call_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handle", said.append)

    async def act(model: Any, scenario: Scenario) -> float:
        address = httpx.URL(model.inference_base_url)
        _, writer = await asyncio.open_connection(address.host, address.port)
        lines = (
            f"POST {address.path}/chat/completions HTTP/1.1",
            f"Host: {address.host}",
            f"Authorization: Bearer {model.inference_api_key}",
            "Content-Length: 9",
        )
        writer.write("\r\n".join((*lines, "", "{")).encode())
        writer.close()
        await writer.wait_closed()
        await ask(model)
        return 1.0

    assert (await play(act)).score == Score(1.0)
    await asyncio.sleep(0.2)
    assert not said


async def test_art_s_auto_trajectory_has_each_call_once() -> None:
    async def act(model: Any, scenario: Scenario) -> int:
        trajectory = await capture_auto_trajectory(ask(model))
        assert not trajectory.additional_histories
        return len(trajectory.messages())

    assert (await play(act)).score == Score(2.0)


async def test_a_strange_answer_is_kept_and_trained_on(tmp_path: Path) -> None:
    """Half a character, vLLM's reason for an answer that it gave up, and no role, which some
    servers leave out: the agent sends the message back as it has come."""

    async def act(model: Any, scenario: Scenario) -> float:
        messages: list[Any] = [{"role": "user", "content": "Move."}]
        for _ in range(2):
            create = model.openai_client().chat.completions.create
            answer = await create(model=model.name, messages=messages)
            messages.append(answer.choices[0].message.model_dump(exclude_none=True))
        return 1.0

    choice = {
        "message": {"content": "[\ud800]"},
        "finish_reason": "abort",
        "token_ids": [1],
        "logprobs": {"content": [{"token": "[\udfff]", "logprob": -1.0}]},
    }
    rollout = await play_answered(act, choice)
    assert rollout.score == Score(1.0)
    assert (rollout.calls[0].text, rollout.calls[0].finish) == ("[?]", "abort")
    [conversation] = conversations_of(rollout.calls)
    assert [one["role"] for one in conversation.messages] == ["user", "assistant", "assistant"]
    put_trajectories(FolderStore(tmp_path), "m", "train", 0, [[rollout]], MODEL)
    assert list(sampled_in(group_of([rollout]).trajectories[0]))


YES: Any = np.bool_(True)


@pytest.mark.parametrize(
    ("returned", "score"),
    [
        (1, Score(1.0)),
        (False, Score(0.0, False)),
        (YES, Score(1.0, True)),
        (np.float32(0.5), Score(0.5)),
        (Decimal("0.5"), Score(0.5)),
        (Score(Fraction(1, 2), metrics={"a": Decimal(2)}), Score(0.5, None, {"a": 2.0})),  # type: ignore[arg-type,dict-item]
        (Score(1, True, {"turns": 3}), Score(1.0, True, {"turns": 3.0})),
        (Score(YES, metrics={"won": YES}), Score(1.0, None, {"won": 1.0})),
        (Score(1, metrics={4: True}), Score(1.0, None, {"4": 1.0})),  # type: ignore[dict-item]
        (Score(1, metrics={"success": 5}), Score(1.0, True)),
        (Score(1, metrics={"half \ud83d": 2}), Score(1.0, None, {"half ": 2.0})),
        (Unscored("half \ud83d", "Why."), Unscored("half ", "Why.")),
    ],
)
def test_what_an_agent_may_return(returned: object, score: Score | Unscored) -> None:
    assert score_of(returned) == score
