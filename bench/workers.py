"""How long a step's games take on 1, 2, 4 and 8 workers of a Ray cluster.

    python bench/workers.py

256 games with one tool call each. The tool takes a second, and a process plays one at a time, as
with a simulator of which each process has one. The policy answers at once. The workers are logical:
they wait more than they compute, so that two cores hold eight of them. Fails unless every game is
scored, and twice the workers take at most 0.7 of the time.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from bench.judging.claims import require
from precis.config import RateLimits
from precis.environments.recorder import Recorder
from precis.environments.session import Limits, Policy
from precis.llm.client import ChatClient, OwnServer
from precis.llm.loop_server import LoopServer
from precis.llm.providers import Endpoint
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from precis.settings.environment import PythonSettings
from precis.settings.workers import WorkersSettings
from precis.training.opening import load_agent

MODEL = "policy@0"
COUNTS = [1, 2, 4, 8]
RATIO_MAX = 0.7
SIMULATOR = """
import threading, time

ONE = threading.Lock()

def scenarios(split):
    return [{{"id": f"{{split}}-{{number}}"}} for number in range({games})]

async def rollout(model, scenario):
    await model.openai_client().chat.completions.create(
        model=model.get_inference_name(), messages=[{{"role": "user", "content": "Go."}}]
    )
    with ONE:
        time.sleep({seconds})
    return 1.0
"""


async def answer(request: ChatRequest) -> Completion:
    """Say one token at once."""
    entry = {"token": "token_id:1", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    return Completion(MODEL, [Choice("on", logprobs=[entry], token_ids=[1])], prompt_ids=[1])


async def seconds_with(file: Path, workers: int) -> float:
    """Play all games once, and return how long that took, without the workers' start."""
    settings = WorkersSettings(count=workers, rollouts_each=8, cpus_each=1.0)
    environment = load_agent(PythonSettings(file=str(file), workers=settings))
    server = LoopServer(completions_app(answer, lambda: [MODEL], "key"))
    await server.start()
    url = f"http://127.0.0.1:{server.port}/v1"
    endpoint = Endpoint(url, MODEL, "key", key_variable="", role=f"policy {MODEL}")
    limits = RateLimits(requests_per_minute=10**6, tokens_per_minute=10**9, in_flight=64)
    try:
        async with (
            ChatClient(endpoint, OwnServer(limits, 600.0), prices={}) as client,
            Recorder() as recorder,
            environment,
        ):
            limits_of_game = Limits(deadline_s=600.0, turns_max=2, tokens_max=100)
            policy = Policy(client, limits_of_game, step=0, trained=True)
            scenarios = environment.scenarios("train")
            began = time.perf_counter()
            games = [recorder.run(policy, environment, one) for one in scenarios]
            rollouts = await asyncio.gather(*games)
            took = time.perf_counter() - began
    finally:
        await server.stop()
    unscored = [one.score for one in rollouts if one.reward is None]
    require(not unscored, f"{len(unscored)} games were not scored: {unscored[:1]}")
    return took


def main(
    games: Annotated[int, typer.Option(help="How many games a step has.")] = 256,
    seconds: Annotated[float, typer.Option(help="How long the tool takes.")] = 1.0,
    workers: Annotated[list[int], typer.Option(help="How many workers; may be repeated.")] = COUNTS,
) -> None:
    """Print the seconds of a step's games by the number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "simulator.py"
        file.write_text(SIMULATOR.format(games=games, seconds=seconds))
        before: tuple[int, float] | None = None
        for count in workers:
            took = asyncio.run(seconds_with(file, count))
            print(f"{games} games on {count} workers: {took:.1f} s", flush=True)
            if before is not None and count == 2 * before[0]:
                slow = f"{count} workers take {took:.1f} s, and half as many {before[1]:.1f} s."
                require(took <= RATIO_MAX * before[1], slow)
            before = (count, took)


if __name__ == "__main__":
    typer.run(main)
