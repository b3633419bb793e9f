"""One episode of an agent, told call by call to whoever watches."""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

from precis.config import RolloutsConfig
from precis.environments.conversations import Conversation
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.environments.session import Limits, Policy, call_of
from precis.errors import ConfigError
from precis.llm.client import ChatClient, ChatReply, CompletionRequest, OwnServer
from precis.llm.limits import without_quota
from precis.llm.loop_server import served_completions
from precis.llm.providers import SERVER_KEY_VARIABLE, Endpoint
from precis.llm.retry import Deadline
from precis.models.own_servers import Server
from precis.models.reference import NamedCheckpoint
from precis.records.rollout import Call, Rollout, Scenario
from precis.rehearsal.checkpoint_files import folder_of
from precis.rehearsal.endpoint import PolicyEndpoint
from precis.rehearsal.kinds import kind_in

T = TypeVar("T")
_CALL_TIMEOUT_S = 180.0
_TRIES_MAX = 3
_IN_FLIGHT = 8
_SHOWN = 5


class Audience(Protocol):
    """Is told what happens in an episode, while it happens."""

    def message(self, message: Mapping[str, Any]) -> None:
        """Take a message that the agent sends to the model."""

    def answer(self, call: Call) -> None:
        """Take the model's answer."""

    def another_conversation(self) -> None:
        """Take that the agent begins another conversation: a sub-agent, or a compaction."""


@dataclass
class WatchedClient:
    """A client that tells an audience of every message, once."""

    client: ChatClient
    audience: Audience
    _conversations: list[Conversation] = field(default_factory=list)

    @property
    def endpoint(self) -> Endpoint:
        return self.client.endpoint

    async def complete(
        self, request: CompletionRequest, deadline: Deadline, read: Callable[[ChatReply], T]
    ) -> T:
        """Return what `read` makes of the model's reply."""
        conversation = self._show_messages(request.payload)
        asked_at = time.time()

        def read_whole(reply: ChatReply) -> tuple[ChatReply, T]:
            return reply, read(reply)

        reply, result = await self.client.complete(request, deadline, read_whole)
        call = call_of(request.payload, reply, asked_at)
        conversation.add(call)
        self.audience.answer(call)
        return result

    def _show_messages(self, payload: Mapping[str, Any]) -> Conversation:
        """Tell of the messages that are new; returns the conversation that they continue."""
        asked = Call(tuple(payload["messages"]), {}, tuple(payload.get("tools") or ()))
        for one in self._conversations:
            if one.continues_in(asked, same_tools=False):
                known = len(one.messages)
                one.messages.extend(asked.messages[known:])
                break
        else:
            if self._conversations:
                self.audience.another_conversation()
            one, known = Conversation(list(asked.messages), asked.tools, {}), 0
            self._conversations.append(one)
        for message in asked.messages[known:]:
            self.audience.message(message)
        return one


async def play(
    environment: Environment, scenario: Scenario, server: Server, model: str, audience: Audience
) -> Rollout:
    """Have a served model attempt a scenario, greedily and within a run's usual limits."""
    rollouts = RolloutsConfig()
    limits = Limits(rollouts.timeout_s, rollouts.turns_max, rollouts.tokens_max)
    endpoint = Endpoint(
        server.url, model, server.key, key_variable=SERVER_KEY_VARIABLE, role="server"
    )
    settings = OwnServer(without_quota(_IN_FLIGHT), _CALL_TIMEOUT_S, _TRIES_MAX)
    async with (
        environment,
        Recorder() as recorder,
        ChatClient(endpoint, settings, prices={}) as client,
    ):
        watched = WatchedClient(client, audience)
        policy = Policy(watched, limits, {"temperature": 0.0}, name=model)
        return await recorder.run(policy, environment, scenario)


def find_scenario(environment: Environment, wanted: str, where: str) -> Scenario:
    """Return the scenario of an id; the first that is held out where none is named."""
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


@asynccontextmanager
async def served_policy(model: NamedCheckpoint) -> AsyncIterator[Server]:
    """Serve an embedded policy from this process while the block lasts."""
    with TemporaryDirectory(prefix="precis-") as temporary:
        folder = Path(temporary)
        checkpoint = model.fetch(folder_of(folder, model.step))
        endpoint = PolicyEndpoint(kind_in(checkpoint), {model.name: folder})
        async with served_completions(endpoint.complete, endpoint.models) as (url, key):
            yield Server(url=url, key=key)


def tools_of(calls: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return calls of tools as they are read: `play({"cell": 5})`."""
    shown = []
    for one in calls:
        function = one.get("function") or {}
        shown.append(f"{function.get('name')}({function.get('arguments')})")
    return shown
