"""`precis play`: one episode of an agent, in the terminal."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from precis.commands.terminal import echo, note, sentences
from precis.environment import Environment as Variables
from precis.environments.protocol import Environment
from precis.environments.python import load_python
from precis.errors import StoreError
from precis.inference.agent_player import find_scenario, play, served_policy, tools_of
from precis.inference.local_server import choose_model, find_or_start_server, server_at
from precis.inference.summarizer import find_served
from precis.models.own_servers import Server
from precis.models.reference import Reference, find_model
from precis.records.rollout import UNJUDGED, Call, Rollout, Scenario, Unscored
from precis.store import open_store

_SHOWN_MAX = 4000
"""Characters of one message that are shown: a tool may return a whole book."""


def play_agent(
    file: Annotated[Path, typer.Argument(help="A Python file with `scenarios` and `rollout`.")],
    model: Annotated[
        str,
        typer.Option(
            help="NAME, NAME@STEP or NAME@best; by default the best of those that were trained on "
            "the file's scenarios."
        ),
    ] = "",
    url: Annotated[
        str, typer.Option(help="An OpenAI-compatible server, with its /v1; PRECIS_API_KEY.")
    ] = "",
    scenario: Annotated[
        str, typer.Option(help="The id of a scenario; by default the first that is held out.")
    ] = "",
    context: Annotated[
        int | None, typer.Option(min=512, help="Tokens that a server which is started reads.")
    ] = None,
    store: Annotated[
        str, typer.Option(help="Where runs lie; else PRECIS_STORE, or .precis/store.")
    ] = "",
) -> None:
    """Play one episode of an agent, with a model trained here or any that a server has."""
    with sentences():
        environment = load_python(str(file))
        found = find_scenario(environment, scenario, str(file))
        rollout = asyncio.run(_run(environment, found, model, url.rstrip("/"), context, store))
        is_scored = _show_end(rollout, bool(environment.rubric))
    if not is_scored:
        raise typer.Exit(1)


async def _run(
    environment: Environment,
    scenario: Scenario,
    model: str,
    url: str,
    context: int | None,
    store: str,
) -> Rollout:
    async with _opened(environment, model, url, context, store) as (server, name):
        note(f"{name} attempts {scenario.id}.")
        return await play(environment, scenario, server, name, _Terminal())


@asynccontextmanager
async def _opened(
    environment: Environment, model: str, url: str, context: int | None, store: str
) -> AsyncIterator[tuple[Server, str]]:
    """The server that `--url` names and its model, or one of the store, served by the block."""
    if url:
        named = server_at(url)
        yield named, await find_served(url, model, named.key)
        return
    opened = open_store(store or Variables().store)
    if model:
        found = find_model(opened, Reference.parse(model))
    else:
        none = StoreError(
            f"{opened.url} holds no model that was trained on these scenarios.",
            "Train one with `precis train`, name one with --model, or a server with --url.",
        )
        digest = environment.digest
        found = await choose_model(opened, lambda one: one.ledger.corpus == digest, none)
        score = f" (held-out {found.score})" if found.score else ""
        note(f"The best that can be used here is {found.serving_name}{score}.")
    if found.kind == "adapter":
        server = find_or_start_server(found, context, note)
    else:
        server = served_policy(found)
    async with server as address:
        yield address, found.serving_name


class _Terminal:
    """Shows an episode line by line; no text of it can look like another's, or act on a terminal.

    Each message stands indented below who says it.
    """

    def __init__(self) -> None:
        self._turns = 0

    def message(self, message: Mapping[str, Any]) -> None:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content)
        made = tools_of(message.get("tool_calls") or ())
        _show(str(message["role"]), [str(content), *made])

    def answer(self, call: Call) -> None:
        self._turns += 1
        calls = [f"→ {one}" for one in tools_of(call.message.get("tool_calls") or ())]
        _show(f"turn {self._turns}, {call.seconds:.1f} s", [call.text, *calls])

    def another_conversation(self) -> None:
        echo("(another conversation)")


def _show(speaker: str, parts: list[str]) -> None:
    echo(" ".join(speaker.split()))
    for part in parts:
        shown = part
        if len(part) > _SHOWN_MAX:
            shown = f"{part[:_SHOWN_MAX]} … and {len(part) - _SHOWN_MAX:,} characters more"
        for line in shown.splitlines():
            echo(f"    {line}")


def _show_end(rollout: Rollout, is_compared: bool) -> bool:
    """Show what the episode earned and took; returns whether it has ended as it should."""
    calls = rollout.calls
    took = (
        f"{len(calls)} turn{'' if len(calls) == 1 else 's'}, "
        f"{sum(call.usage.prompt_tokens for call in calls):,} + "
        f"{sum(call.usage.completion_tokens for call in calls):,} tokens, "
        f"{sum(call.seconds for call in calls):.1f} s"
    )
    score = rollout.score
    if isinstance(score, Unscored):
        if score.cause == UNJUDGED and is_compared:
            echo(f"No score: a judge compares attempts, and this is one alone. {took}.")
            return True
        echo(f"No score ({score.cause}): {score.detail} {took}.")
        return False
    success = {None: "", True: ", a success", False: ", no success"}[score.success]
    metrics = "".join(f", {name} {value:g}" for name, value in score.metrics.items())
    echo(f"Reward {score.reward:g}{success}{metrics}. {took}.")
    return True
