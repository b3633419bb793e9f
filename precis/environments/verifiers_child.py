"""Plays an environment of verifiers, in the virtual environment that verifiers is installed in.

    verifiers_child.py describe SETTINGS     prints a line of JSON: scenarios and versions
    verifiers_child.py serve SETTINGS FD     answers requests at the socket FD, a line of JSON each

Précis can't be imported here. All rollouts run in this process, with our harness: verifiers' own
starts a Python process a turn. verifiers' server calls the relay, which calls the rollout's
address.
"""

import asyncio
import hashlib
import importlib.metadata
import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

_LINE_MAX = 64 * 1024 * 1024
_HARNESS = "precis_conversation"
_KEY = "PRECIS_RELAY_KEY"

try:
    import httpx
    import openai
    import verifiers.v1 as vf
    from aiohttp import web
    from verifiers.v1.configs.agent import agent_config_fields
    from verifiers.v1.dialects.chat import message_to_wire
    from verifiers.v1.harnesses.utils.mcp import call_mcp, connect_mcp
    from verifiers.v1.utils.loaders import import_taskset
except ImportError as error:
    print(json.dumps({"problem": "missing", "detail": str(error)}))
    sys.exit()


class ConversationHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Runs a rollout's conversation in this process: calls the policy and tools in turn."""

    APPENDS_SYSTEM_PROMPT = True
    SUPPORTS_MCP = True
    SUPPORTS_RESUME = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False
    http: Any  # an httpx.AsyncClient; openai 3 takes it, though it declares that of httpx2
    """The client of all rollouts, since making one takes 44 ms."""

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Converse until the policy calls no more tools; Précis enforces the limits."""
        system, prompt = self.resolve_prompt(data)
        messages: list[Any] = []
        if system:
            messages.append({"role": "system", "content": system})
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages.extend(map(message_to_wire, prompt or ()))
        client = openai.AsyncOpenAI(
            base_url=endpoint, api_key=secret, http_client=self.http, max_retries=0, timeout=None
        )
        async with AsyncExitStack() as stack:
            specs = {}
            for name, url in mcp_urls.items():
                specs[name] = {"url": url, "timeout": self.config.tool_timeout}
            tools, names, servers = await connect_mcp({"mcpServers": specs}, stack)
            offered = {"tools": tools} if tools else {}
            while True:
                reply = await client.chat.completions.create(
                    model=ctx.model, messages=messages, **offered
                )
                message = reply.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    return vf.ProgramResult(exit_code=0, stdout="", stderr="")
                for call in message.tool_calls:
                    name, given = call.function.name, call.function.arguments
                    content = _problem_of(name, given, names)
                    if not content:
                        content = await call_mcp(servers, names, name, json.loads(given or "{}"))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def _problem_of(name: str, given: str, names: Mapping[str, Any]) -> str:
    """Return the reply to a call that no tool can take; empty if one can."""
    if name not in names:
        return f"error: unknown tool {name!r}"
    try:
        arguments = json.loads(given or "{}")
    except (ValueError, RecursionError) as error:
        return f"error: the arguments are not JSON: {error}"
    return "" if isinstance(arguments, dict) else "error: the arguments are not a JSON object"


__all__ = ["ConversationHarness"]  # where verifiers looks for a harness
sys.modules[_HARNESS] = sys.modules[__name__]


class Relay:
    """Forwards each request for a completion to the address of its rollout. verifiers keeps a
    client for each address for ever, so it gets only this one."""

    def __init__(self) -> None:
        self.addresses: dict[str, tuple[str, str]] = {}
        """The address and key of each trace's rollout."""
        self.key = os.environ[_KEY] = secrets.token_urlsafe(24)
        self.http = httpx.AsyncClient(
            timeout=None, trust_env=False, limits=httpx.Limits(max_connections=None)
        )

    async def start(self) -> str:
        """Listen on the loopback, and return the base URL."""
        app = web.Application(client_max_size=_LINE_MAX)
        app.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        listener = socket.create_server(("127.0.0.1", 0))
        await web.SockSite(runner, listener).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"

    async def _answer(self, request: web.Request) -> web.Response:
        address, key = self.addresses.get(request.headers.get("X-Session-ID", ""), ("", ""))
        if request.headers.get("Authorization") != f"Bearer {self.key}" or not address:
            said = {"error": {"message": "The rollout has ended.", "code": "rollout_ended"}}
            return web.json_response(said, status=410)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        asked = await request.read()
        reply = await self.http.post(f"{address}/chat/completions", content=asked, headers=headers)
        media_type = reply.headers.get("content-type", "application/json").partition(";")[0]
        return web.Response(status=reply.status_code, body=reply.content, content_type=media_type)


def load(settings: Mapping[str, Any]) -> tuple[vf.Env[Any], str]:
    """Return the environment and the name of the agent that the policy plays, or raise a
    ValueError that says why it can't be trained."""
    given = dict(settings["config"])
    taskset = {**given.pop("taskset", {}), "id": settings["id"]}
    config = vf.resolve_env_config({**given, "taskset": taskset})
    agents = agent_config_fields(config)
    ours = [name for name, one in agents.items() if one.model is None and one.client is None]
    if len(ours) != 1:
        raise ValueError(
            f"{', '.join(agents)}: {len(ours)} of its {len(agents)} agents are the policy's, and "
            "one can be trained. Give each other agent a `model` and a `client` in "
            "`environment.config`."
        )
    seat = ours[0]
    agent = agents[seat]
    stock = agent.harness or vf.default_harness_id(config.taskset.id) != "bash"
    if not stock or getattr(agent.harness, "id", "") == "null":
        agent = agent.model_copy(update={"harness": vf.HarnessConfig(id=_HARNESS)})
    harness = agent.harness or vf.HarnessConfig(id=vf.default_harness_id(config.taskset.id))
    if isinstance(agent.runtime, vf.PrimeConfig):
        kind = vf.load_harness(harness)
        if kind.NEEDS_CONTAINER or vf.task_type(config.taskset.id).NEEDS_CONTAINER:
            raise ValueError(
                "It wants a sandbox of Prime Intellect's cloud. Name another one in "
                f'`environment.config`, such as {{"{seat}": {{"runtime": {{"type": "docker"}}}}}}.'
            )
        agent = agent.model_copy(update={"runtime": vf.SubprocessConfig()})
    # A retried attempt would be trained on twice.
    agent = agent.model_copy(update={"retries": vf.RetryConfig()})
    return vf.load_environment(config.model_copy(update={seat: agent})), seat


def tasks_of(settings: Mapping[str, Any], env: vf.Env[Any]) -> dict[str, dict[str, vf.Task]]:
    """Return the tasks to train on and those held out, by unique ids."""
    train, held_out = settings["train_size"], settings["val_size"]
    splits = {"validation": env.taskset.take(held_out), "train": env.taskset.skip(held_out)}
    if settings["held_out"]:
        given = {**env.config.taskset.model_dump(), **settings["held_out"]}
        others = vf.load_taskset(type(env.config.taskset).model_validate(given))
        splits = {"validation": others.take(held_out), "train": env.taskset}
    splits["train"] = splits["train"].take(train)
    found: dict[str, dict[str, vf.Task]] = {}
    taken: set[str] = set()
    for split, tasks in splits.items():
        found[split] = {}
        for task in tasks:
            name = str(task.data.id or task.data.name or f"{split}-{task.data.idx}")
            if name in taken:
                name = f"{name}, {split}-{task.data.idx}"
            taken.add(name)
            found[split][name] = task
    return found


def describe(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment's description, or the problem that keeps it from being played."""
    version = importlib.metadata.version("verifiers")
    if not version.startswith("0.4."):
        return {"problem": "version", "detail": version}
    try:
        module = import_taskset(settings["id"])
    except ModuleNotFoundError as error:
        return {"problem": "unknown", "detail": str(error)}
    try:
        env, _ = load(settings)
        tasks = tasks_of(settings, env)
    except Exception as error:
        return {"problem": "unusable", "detail": _said(error)}
    splits: dict[str, list[dict[str, Any]]] = {}
    for split, named in tasks.items():
        splits[split] = []
        for name, task in named.items():
            data = task.data.model_dump(mode="json", exclude_defaults=True)
            splits[split].append({"id": name, "task": data})
    own = Path(str(module.__file__))
    files = sorted(own.parent.rglob("*.py")) if own.name == "__init__.py" else [own]
    digest = hashlib.sha256()
    for one in files:
        digest.update(hashlib.sha256(one.read_bytes()).digest())
    return {"version": version, "digest": digest.hexdigest(), "splits": splits}


def outcome(episode: vf.Episode, seat: str) -> dict[str, Any]:
    """Return the outcome of an episode: a reward and metrics, or a cause."""
    errors = list(episode.errors)
    for trace in episode.traces:
        errors.extend(trace.errors)
    if not episode.ok:
        what = errors[-1] if errors else None
        detail = f"{what.type}: {what.message}" if what else "The episode failed."
        return {"cause": "environment_failed", "detail": detail}
    played = [trace for trace in episode.traces if trace.agent.name == seat]
    if len(played) != 1:
        detail = f"The policy played {len(played)} times in one episode, and once can be trained."
        return {"cause": "no_score", "detail": detail}
    (trace,) = played
    if not trace.rewards:
        return {"cause": "no_score", "detail": "The environment recorded no reward."}
    metrics = dict(trace.metrics)
    if len(trace.rewards) > 1:
        metrics = {name: one.score for name, one in trace.rewards.items()} | metrics
    return {"reward": trace.reward, "metrics": metrics}


async def serve(settings: Mapping[str, Any], channel: socket.socket) -> None:
    """Answer requests until the channel is closed. `{"number": 7, "scenario": …, "address": …,
    "key": …, "model": …}` is answered with the same number and an `outcome`; `{"cancel": 7}` at
    once with `{"number": 7, "cancelled": true}`."""
    reader, writer = await asyncio.open_connection(sock=channel, limit=_LINE_MAX)
    relay = Relay()
    ConversationHarness.http = relay.http
    url = await relay.start()
    playing: dict[int, asyncio.Task[None]] = {}

    def send(said: Mapping[str, Any]) -> None:
        writer.write(json.dumps(said).encode() + b"\n")

    async def play(asked: Mapping[str, Any]) -> None:
        traces: list[str] = []

        def open_address(trace: vf.Trace) -> None:
            traces.append(trace.id)
            relay.addresses[trace.id] = (asked["address"], asked["key"])

        client = vf.EvalClientConfig(base_url=url, api_key_var=_KEY)
        context = vf.ModelContext(asked["model"], client)
        try:
            task = tasks[asked["scenario"]]
            episode = await env.run_episode(task, context, on_trace=open_address)
            send({"number": asked["number"], **outcome(episode, seat)})
        except Exception as error:
            failed = {"cause": "environment_failed", "detail": _said(error)}
            send({"number": asked["number"], **failed})
        finally:
            for trace in traces:
                del relay.addresses[trace]
            del playing[asked["number"]]

    async with AsyncExitStack() as stack:
        try:
            env, seat = load(settings)
            splits = tasks_of(settings, env)
            tasks = {**splits["train"], **splits["validation"]}
            await stack.enter_async_context(env.serving())
        except Exception as error:
            send({"problem": _said(error)})
            await writer.drain()
            return
        send({"ready": True})
        while line := await reader.readline():
            asked = json.loads(line)
            if "cancel" in asked:
                if asked["cancel"] in playing:
                    playing[asked["cancel"]].cancel()
                send({"number": asked["cancel"], "cancelled": True})
            else:
                playing[asked["number"]] = asyncio.create_task(play(asked))
        for task in playing.values():
            task.cancel()
        await asyncio.gather(*playing.values(), return_exceptions=True)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"  # Précis cuts it, after it has hidden keys


def main() -> None:
    settings = json.loads(sys.argv[2])
    if sys.argv[1] == "serve":
        channel = socket.socket(fileno=int(sys.argv[3]))
        channel.set_inheritable(False)
        asyncio.run(serve(settings, channel))
        return
    # Output of the environment's import must not mix with the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    found = describe(settings)
    with open(answer, "w", encoding="utf-8") as output:
        output.write(json.dumps(found))


if __name__ == "__main__":
    main()
