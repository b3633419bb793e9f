"""`precis play`: one episode of an agent, in the terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precis.commands.terminal import ServerUrl, StoreOption, echo, note, sentences
from precis.errors import ConfigError, StoreError

# The shell's completion imports this module at every Tab, so a command does its own imports.
if TYPE_CHECKING:
    from precis.environments.conversations import Conversation
    from precis.environments.protocol import Environment
    from precis.llm.client import ChatClient, ChatReply, CompletionRequest
    from precis.llm.retry import Deadline
    from precis.models.own_servers import Server
    from precis.records.rollout import Rollout, Scenario

_SHOWN_MAX = 4000
"""The most characters shown of a message: a tool may return a whole book."""
_CALL_TIMEOUT_S = 180.0
_IN_FLIGHT = 8
_SHOWN = 5


def play(
    file: Annotated[Path, typer.Argument(help="A Python file with `scenarios` and `rollout`.")],
    model: Annotated[
        str,
        typer.Option(
            help="NAME, NAME@STEP or NAME@best; by default the best of those that were trained on "
            "the file's scenarios."
        ),
    ] = "",
    url: ServerUrl = "",
    scenario: Annotated[
        str, typer.Option(help="The id of a scenario; by default the first that is held out.")
    ] = "",
    context: Annotated[
        int | None, typer.Option(min=512, help="Context of a started server, in tokens.")
    ] = None,
    store: StoreOption = "",
) -> None:
    """Play one episode of an agent, with a model trained here or any on a server."""
    from precis.environments.python import load_python

    with sentences():
        if file.suffix != ".py":
            raise ConfigError(
                f"{file} is not a Python file, and `precis play` plays no other agents.",
                "See another agent's rollouts in its runs, by `precis runs rollouts`.",
            )
        environment = load_python(str(file))
        found = find_scenario(environment, scenario, str(file))
        server = _opened(environment, model, url, context, store)
        rollout = asyncio.run(_play(environment, found, server))
        is_scored = _show_end(rollout, bool(environment.rubric))
    if not is_scored:
        raise typer.Exit(1)


async def _play(
    environment: Environment,
    scenario: Scenario,
    opened: AbstractAsyncContextManager[tuple[Server, str]],
) -> Rollout:
    """Have a served model attempt a scenario, greedily and within a run's usual limits."""
    from precis.config import RolloutsConfig
    from precis.environments.recorder import Recorder
    from precis.environments.session import Limits, Policy
    from precis.llm.client import ChatClient, OwnServer
    from precis.llm.limits import without_quota

    rollouts = RolloutsConfig()
    limits = Limits(rollouts.timeout_s, rollouts.turns_max, rollouts.tokens_max)
    settings = OwnServer(without_quota(_IN_FLIGHT), _CALL_TIMEOUT_S)
    async with opened as (server, model), environment, Recorder() as recorder:
        note(f"{model} attempts {scenario.id}.")
        async with ChatClient(server.endpoint(model), settings, prices={}) as client:
            policy = Policy(ShownClient(client), limits, {"temperature": 0.0}, name=model)
            return await recorder.run(policy, environment, scenario)


@asynccontextmanager
async def _opened(
    environment: Environment, model: str, url: str, context: int | None, store: str
) -> AsyncIterator[tuple[Server, str]]:
    """Yield the server of `--url` and its model, or serve one of the store within the block."""
    from precis.environment import Variables
    from precis.inference.local_server import choose_model, find_served, serve_model, server_at
    from precis.store import open_store

    if url:
        named = server_at(url)
        yield named, await find_served(named.url, model, named.key)
        return
    opened = open_store(store or Variables().store)
    digest = environment.digest
    none = StoreError(
        f"{opened.url} holds no model that was trained on these scenarios.",
        "Train one with `precis train`, name one with --model, or a server with --url.",
    )
    found = await choose_model(opened, model, lambda one: one.ledger.corpus == digest, none)
    if found.kind == "policy" and found.record and not found.record.is_agent:
        raise ConfigError(
            f"{found.serving_name} is the embedded policy of summaries, and plays nothing.",
            f"Use it with `precis summarize FILE --model {found.serving_name}`.",
        )
    if not model:
        note(f"The best that can be used here is {found.with_score}.")
    async with serve_model(found, context, note) as server:
        yield server, found.serving_name


def find_scenario(environment: Environment, wanted: str, where: str) -> Scenario:
    """Return the scenario with an id; without one, the first held-out scenario."""
    held_out = environment.scenarios("validation")
    if not wanted:
        return held_out[0]
    known = {one.id: one for one in (*environment.scenarios("train"), *held_out)}
    if wanted in known:
        return known[wanted]
    first = ", ".join(one.id for one in held_out[:_SHOWN])
    raise ConfigError(
        f"{where} has no scenario {wanted!r}.",
        f"Give --scenario one of its {len(known)}, such as {first}.",
    )


class ShownClient:
    """A client that shows an episode line by line, each message once, with its calls as parsed:
    `play({"cell": 5})`. A message is indented below its author's name, so that its text can't
    imitate another message."""

    def __init__(self, client: ChatClient) -> None:
        self.endpoint = client.endpoint
        self._client = client
        self._conversations: list[Conversation] = []
        self._turns = 0

    async def complete(
        self, request: CompletionRequest, deadline: Deadline, read: Callable[[ChatReply], ChatReply]
    ) -> ChatReply:
        from precis.environments.session import call_of

        conversation = self._show_messages(request.payload)
        asked_at = time.time()
        reply = await self._client.complete(request, deadline, read)
        call = call_of(request.payload, reply, asked_at)
        conversation.add(call)
        self._turns += 1
        calls = [f"→ {one}" for one in _calls_in(call.message)]
        _show(f"turn {self._turns}, {call.seconds:.1f} s", [call.text, *calls])
        return reply

    def _show_messages(self, payload: Mapping[str, Any]) -> Conversation:
        """Show the new messages, and return the conversation that they continue."""
        from precis.environments.conversations import Conversation
        from precis.records.rollout import Call, content_text

        asked = Call(tuple(payload["messages"]), {}, tuple(payload.get("tools") or ()))
        for one in self._conversations:
            if one.continues_in(asked, same_tools=False):
                known = len(one.messages)
                one.messages.extend(asked.messages[known:])
                break
        else:
            if self._conversations:
                echo("(another conversation)")
            one, known = Conversation(list(asked.messages), asked.tools, {}), 0
            self._conversations.append(one)
        for message in asked.messages[known:]:
            content = content_text(message.get("content"))
            _show(str(message["role"]), [content, *_calls_in(message)])
        return one


def _calls_in(message: Mapping[str, Any]) -> list[str]:
    from precis.records.rollout import tool_calls_of

    return [f"{name}({arguments})" for name, arguments, _ in tool_calls_of(message)]


def _show(speaker: str, parts: list[str]) -> None:
    echo(" ".join(speaker.split()))
    for part in parts:
        shown = part
        if len(part) > _SHOWN_MAX:
            shown = f"{part[:_SHOWN_MAX]} … and {len(part) - _SHOWN_MAX:,} characters more"
        for line in shown.splitlines():
            echo(f"    {line}")


def _show_end(rollout: Rollout, is_compared: bool) -> bool:
    """Show the episode's reward and cost; return whether it ended properly."""
    from precis.records.rollout import UNJUDGED, Unscored
    from precis.text import count_of

    usage = rollout.usage
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,}"
    if rollout.calls and not usage.tokens:
        tokens = "an unknown number of"  # some servers report none
    took = f"{count_of(len(rollout.calls), 'turn')}, {tokens} tokens, {rollout.seconds:.1f} s"
    score = rollout.score
    if isinstance(score, Unscored):
        if score.cause == UNJUDGED and is_compared:
            echo(f"No score: a judge compares attempts, and this is one alone. {took}.")
            return True
        echo(f"No score ({score.cause}): {score.detail.rstrip('.')}. {took}.")
        return False
    success = {None: "", True: ", a success", False: ", no success"}[score.success]
    metrics = "".join(f", {name} {value:g}" for name, value in score.metrics.items())
    echo(f"Reward {score.reward:g}{success}{metrics}. {took}.")
    return True
