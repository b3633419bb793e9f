"""Episodes of the verifiers environment, in verifiers' own environment: prints them as JSON.

`python verifiers_run.py episodes PART COUNT JUDGE`: JUDGE is `lexical` or `broken`.
`python verifiers_run.py eval FOLDER COUNT`: the same by verifiers' command, which writes to FOLDER.
The policies are baselines, on the loopback.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from precis_summaries import load_environment

from precis.environments.summaries.baselines import baselines
from precis.llm.loop_server import LoopServer
from precis.llm.server import ApiError, ChatRequest, Completion, completions_app

KEY = "PRECIS_TEST_POLICY_KEY"
POLICIES = ("empty", "lead-350")


@asynccontextmanager
async def policies() -> AsyncIterator[str]:
    """The URL of a server with the baselines, and with a judge that always fails."""
    models = baselines()

    async def complete(request: ChatRequest) -> Completion:
        if request.model not in models:
            raise ApiError(500, "Broken.", "server_error")
        return await models[request.model](request)

    os.environ[KEY] = os.environ["JUDGE_API_KEY"] = "sk-" + "of-the-policy"
    server = LoopServer(completions_app(complete, lambda: list(models), os.environ[KEY]))
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.port}/v1"
    finally:
        await server.stop()


async def episodes(part: str, count: int, judge: str) -> list[dict[str, Any]]:
    """What became of each episode: first all of one policy, then all of the other."""
    found = []
    async with policies() as url:
        broken = {"provider": "url", "base_url": url, "model": "broken", "tries_max": 1}
        env = load_environment(part=part, judge=broken if judge == "broken" else {})
        async with env.serving():
            for policy in POLICIES:
                client = vf.EvalClientConfig(base_url=url, api_key_var=KEY)
                context = vf.ModelContext(policy, client, vf.SamplingConfig(temperature=0))
                for task in env.taskset.take(count):
                    found.append(outcome(policy, await env.run_episode(task, context)))
    return found


def outcome(policy: str, episode: vf.Episode) -> dict[str, Any]:
    """One episode, as the test compares it."""
    (trace,) = episode.traces
    return {
        "policy": policy,
        "document": trace.task.key,
        "ok": episode.ok,
        "errors": [error.message for error in (*episode.errors, *trace.errors)],
        "reward": trace.reward,
        "scored": "accuracy" in trace.rewards,
        "metrics": trace.metrics,
        "messages": [[one.role, one.content] for one in trace.branches[-1].messages],
    }


async def evaluate(folder: Path, count: int) -> int:
    """Run `vf-eval` as the README has it; returns its exit status."""
    program = Path(sys.executable).with_name("vf-eval")
    async with policies() as url:
        options = ("-n", str(count), "-m", "lead-350", "--output-dir", str(folder))
        where = ("--client.base-url", url, "--client.api-key-var", KEY)
        command = (str(program), "precis-summaries", *options, *where, "--no-push")
        process = await asyncio.create_subprocess_exec(*command)
        return await process.wait()


if __name__ == "__main__":
    if sys.argv[1] == "eval":
        sys.exit(asyncio.run(evaluate(Path(sys.argv[2]), int(sys.argv[3]))))
    print(json.dumps(asyncio.run(episodes(sys.argv[2], int(sys.argv[3]), sys.argv[4]))))
