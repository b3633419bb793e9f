"""An agent's rehearsal with several seeds, in process: held-out results by step.

    python bench/rehearsals.py examples/locked_rooms.py [--seeds 3] [--steps 30] [--every 10]

Draws, samples and trains as `make rehearse ENVIRONMENT=…` does with the same seed, but without its
servers, recorder and store, in a fraction of the time.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Annotated, Any

import typer
from openai.types.chat import ChatCompletion

from cli.agent import agent_config
from precis.config import TrainConfig
from precis.environments.protocol import Environment
from precis.environments.python import load_python
from precis.environments.recorder import score_of
from precis.llm.server import ChatRequest
from precis.records.rollout import Scenario, Score
from precis.rehearsal.checkpoint_files import initial_state
from precis.rehearsal.kind import LinearPolicy
from precis.rehearsal.tool_calls.kind import TOOL_CALLS, sample_of
from precis.rehearsal.tool_calls.samples import CallSample
from precis.rehearsal.train_step import advance, passes, with_advantages
from precis.rollouts.sample import draw_batch, sample_seed
from precis.settings.trainer import ToolCallTrainer
from precis.statistics.intervals import share_interval


class PolicyModel:
    """The model that a rollout receives; asks the policy itself."""

    def __init__(self, policy: LinearPolicy, seed_of: Callable[[int], int] | None) -> None:
        self._policy = policy
        self._seed_of = seed_of
        self.asked: list[tuple[ChatRequest, int, float]] = []
        """Each request, with the token and log probability of its answer."""
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def openai_client(self) -> "PolicyModel":
        return self

    def get_inference_name(self) -> str:
        return "policy"

    async def _create(self, **given: Any) -> ChatCompletion:
        seed = None if self._seed_of is None else self._seed_of(len(self.asked))
        drawn = {"temperature": 1.0 if self._seed_of else 0.0, "seed": seed}
        ids = {"logprobs": True, "return_token_ids": True}
        request = ChatRequest.model_validate({**given, **drawn, **ids})
        (choice,) = TOOL_CALLS.answer(self._policy, request)
        assert choice.token_ids and choice.logprobs
        self.asked.append((request, choice.token_ids[0], choice.logprobs[0]["logprob"]))
        calls = []
        for call in choice.tool_calls:
            function = {"name": call.name, "arguments": call.arguments}
            calls.append({"id": call.id, "type": "function", "function": function})
        message = {
            "role": "assistant",
            "content": choice.content or None,
            "tool_calls": calls or None,
        }
        answer = {"index": 0, "finish_reason": choice.finish_reason, "message": message}
        whole = {"id": "1", "object": "chat.completion", "created": 0, "model": "policy"}
        return ChatCompletion.model_validate({**whole, "choices": [answer]})


def main(
    file: Annotated[Path, typer.Argument(help="The environment's.")],
    seeds: Annotated[int, typer.Option(help="Train with so many seeds.")] = 3,
    steps: Annotated[int, typer.Option(help="Steps to train.")] = 30,
    every: Annotated[int, typer.Option(help="Steps between two validations.")] = 10,
) -> None:
    """Print a table as markdown: successes with Wilson's 95 % interval, by seed and step."""
    environment = load_python(str(file))
    print("| seed | step | success | 95 % | reward | the rest, mean | CPU |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for seed in range(1, seeds + 1):
        asyncio.run(_measure(environment, agent_config(str(file), {"seed": seed}), steps, every))


async def _measure(environment: Environment, config: TrainConfig, steps: int, every: int) -> None:
    assert isinstance(config.trainer, ToolCallTrainer)
    trained = initial_state(TOOL_CALLS.layout, config.seed)
    begun = time.process_time()
    for step in range(steps + 1):
        if step % every == 0 or step == steps:
            await _validate(environment, trained.policy, config.seed, step, begun)
        if step == steps:
            break
        size = config.rollouts.groups_per_step
        drawn = draw_batch(environment.scenarios("train"), config.seed, step, size)
        groups = []
        for place, scenario in enumerate(drawn):
            group = []
            # A scenario drawn twice has other seeds the second time, as in `sample_groups`.
            count = config.rollouts.rollouts_per_group
            first = count * sum(one.id == scenario.id for one in drawn[:place])
            for index in range(first, first + count):

                def seed_of(turn: int, named: str = scenario.id, at: int = index) -> int:
                    return sample_seed(config.seed, step, named, at, turn)  # noqa: B023

                group.append(await _samples(environment, trained.policy, scenario, seed_of))
            groups.append(group)
        samples, advantages = with_advantages(groups, config.trainer.scale_rewards)
        if samples:
            batch = TOOL_CALLS.batch_of(samples, advantages)
            *_, (trained, _) = passes(trained, batch, config.trainer)
        else:
            trained = advance(trained)


async def _samples(
    environment: Environment,
    policy: LinearPolicy,
    scenario: Scenario,
    seed_of: Callable[[int], int],
) -> list[CallSample]:
    model: Any = PolicyModel(policy, seed_of)
    score = score_of(await environment.rollout(model, scenario))
    assert isinstance(score, Score), score
    samples = []
    for asked, token, logprob in model.asked:
        samples.append(sample_of(asked.messages, asked.tools or (), token, logprob, score.reward))
    return samples


async def _validate(
    environment: Environment, policy: LinearPolicy, seed: int, step: int, begun: float
) -> None:
    scores = []
    for scenario in environment.scenarios("validation"):
        model: Any = PolicyModel(policy, None)
        score = score_of(await environment.rollout(model, scenario))
        assert isinstance(score, Score), score
        scores.append(score)
    share = share_interval(sum(bool(one.success) for one in scores), len(scores))
    metrics = []
    for name in scores[0].metrics:
        metrics.append(f"{name} {fmean(one.metrics[name] for one in scores):.2f}")
    print(
        f"| {seed} | {step} | {share.mean:.0%} | {100 * share.low:.1f} to {100 * share.high:.1f} "
        f"| {fmean(one.reward for one in scores):.2f} | {', '.join(metrics)} "
        f"| {time.process_time() - begun:.0f} s |",
        flush=True,
    )


if __name__ == "__main__":
    typer.run(main)
