"""What the recorder adds to a call of the policy, with 40 agents at once.

    python bench/recorder.py

Each agent asks through OpenAI's client: the policy's server itself, with the log probabilities
that training needs; the recorder in this process; the recorder over HTTP. The server, in a process
of its own, answers at once: 60 tokens to a prompt of 800. Fails if the recorder adds more than 3 ms
of wall time to a call. Run it on a machine with nothing else to do.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import openai
import typer

from bench.judging.claims import require
from precis.config import RateLimits
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.environments.session import Limits, Policy
from precis.llm.client import ChatClient, OwnServer
from precis.llm.loop_server import LoopServer
from precis.llm.providers import Endpoint
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from precis.records.rollout import Scenario, Split

MODEL = "policy@0"
AGENTS = 40
ADDED_MS_MAX = 3.0
_PROMPT = [*range(800)]
_SAMPLED = [*range(60)]
_ENTRIES: list[dict[str, Any]] = [
    {"token": f"token_id:{one}", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    for one in _SAMPLED
]
_MESSAGES: Any = [{"role": "user", "content": "word " * 700}]


async def answer(request: ChatRequest) -> Completion:
    choice = Choice("word " * 50, logprobs=_ENTRIES if request.logprobs else None)
    if not request.return_token_ids:
        return Completion(MODEL, [choice])
    ids = Choice(choice.content, logprobs=choice.logprobs, token_ids=_SAMPLED)
    return Completion(MODEL, [ids], prompt_ids=_PROMPT)


class Asking(Environment):
    """Asks the model so many times."""

    def __init__(self, calls: int, over_http: httpx.AsyncClient | None) -> None:
        self._calls = calls
        self._over_http = over_http

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        return [Scenario(str(number)) for number in range(AGENTS)]

    async def rollout(self, model: Any, scenario: Scenario) -> float:
        client = model.openai_client()
        if self._over_http is not None:
            client = openai.AsyncOpenAI(
                base_url=model.inference_base_url,
                api_key=model.inference_api_key,
                http_client=self._over_http,
            )
        await ask(client, self._calls)
        return 1.0


async def ask(client: openai.AsyncOpenAI, calls: int, **options: Any) -> None:
    for _ in range(calls):
        await client.chat.completions.create(model=MODEL, messages=_MESSAGES, **options)


async def measure(calls: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of wall time a call, by the way it takes, for each round."""
    limits = RateLimits(requests_per_minute=10**6, tokens_per_minute=10**12, in_flight=AGENTS)
    taken: dict[str, list[float]] = {"direct": [], "in process": [], "over HTTP": []}
    async with served() as url, _http() as direct, _http() as outer, Recorder() as recorder:
        endpoint = Endpoint(url, MODEL, "key", key_variable="", role=f"policy {MODEL}")
        asked = openai.AsyncOpenAI(base_url=url, api_key="key", http_client=direct)
        async with ChatClient(endpoint, OwnServer(limits, 60.0), prices={}) as client:
            policy = Policy(client, Limits(600.0, 10**6, 10**9), step=0, trained=True)

            async def run(environment: Asking) -> None:
                scenarios = environment.scenarios("train")
                await asyncio.gather(*(recorder.run(policy, environment, s) for s in scenarios))

            async def ask_directly() -> None:
                with_ids: dict[str, Any] = {
                    "logprobs": True,
                    "extra_body": {"return_token_ids": True},
                }
                await asyncio.gather(*(ask(asked, calls, **with_ids) for _ in range(AGENTS)))

            ways: dict[str, Callable[[], Awaitable[None]]] = {
                "direct": ask_directly,
                "in process": lambda: run(Asking(calls, None)),
                "over HTTP": lambda: run(Asking(calls, outer)),
            }
            for number in range(rounds + 1):  # the first opens connections
                for name, way in ways.items():
                    began = time.perf_counter()
                    await way()
                    if number:
                        ms = 1000 * (time.perf_counter() - began)
                        taken[name].append(ms / (AGENTS * calls))
    return taken


def main(
    calls: Annotated[int, typer.Option(help="Calls of each agent.")] = 20,
    rounds: Annotated[int, typer.Option(help="Rounds of each way.")] = 7,
) -> None:
    """Print the milliseconds of a call, and what the recorder adds."""
    taken = asyncio.run(measure(calls, rounds))
    direct = statistics.median(taken["direct"])
    for name, values in taken.items():
        median = statistics.median(values)
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"{name:<12}{median:6.2f} ms a call ({spread}), {median - direct:+.2f} ms")
    added = statistics.median(taken["in process"]) - direct
    require(added <= ADDED_MS_MAX, f"The recorder adds more than {ADDED_MS_MAX} ms to a call.")


def _http() -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=AGENTS, max_keepalive_connections=AGENTS)
    return httpx.AsyncClient(limits=limits, timeout=60)


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """The address of the policy's server."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.recorder", "serve"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


async def serve() -> None:
    """Serve until standard input ends."""
    server = LoopServer(completions_app(answer, lambda: [MODEL]))
    await server.start()
    print(f"http://127.0.0.1:{server.port}/v1", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
    else:
        typer.run(main)
