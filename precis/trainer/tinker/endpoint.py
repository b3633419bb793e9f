"""Completions of any step, sampled by the service: `name@step`.

Each token of an answer is given by its id, as with vLLM behind ART, so that training uses exactly
the sampled tokens.
"""

from collections.abc import Mapping
from typing import Any

import tinker

from precis.errors import ConfigError, PrecisError, TrainerLost
from precis.llm.server import ApiError, ChatRequest, Choice, Completion, callable_tools
from precis.runs.local_checkpoints import steps_here
from precis.trainer.tinker.checkpoints import read_kept
from precis.trainer.tinker.model import TinkerModel
from precis.trainer.tinker.tokenizer import BEGIN, read_calls
from precis.trainer.tokens import for_template

_SAMPLE_S = 1200.0


class TinkerEndpoint:
    """Answers requests for completions by models, which may become more while it serves."""

    def __init__(self, models: Mapping[str, TinkerModel]) -> None:
        self._models = models

    def list_models(self) -> list[str]:
        """Every name that can be asked for by step."""
        names: list[str] = []
        for name, model in self._models.items():
            for step in steps_here(model.folder):
                names.append(f"{name}@{step}")
        return names

    async def complete(self, asked: ChatRequest) -> Completion:
        """Answer a request; an ApiError is 404 for an unknown model or step, 400 for what the
        service refuses, and 503 where it can't be reached."""
        name, step, model = self._find(asked.model)
        tools = _tools(asked, model)
        try:
            messages = list(map(for_template, asked.messages))
            prompt = model.tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tools=tools, return_dict=False
            )
        except Exception as error:  # a template is code of the model's makers, and refuses so
            raise ApiError(
                400,
                "The chat template of the base model can't write these messages: "
                f"{type(error).__name__}: {error}",
                "unwritable_messages",
            ) from error
        room = model.settings.tokens_max - len(prompt)
        wanted = asked.max_completion_tokens or asked.max_tokens or max(room, 1)
        if room < wanted:
            raise ApiError(
                400,
                f"The prompt has {len(prompt)} tokens, and with the {wanted} of the answer more "
                f"than trainer.tokens_max, {model.settings.tokens_max}.",
                "context_length_exceeded",
            )
        params = tinker.SamplingParams(
            max_tokens=wanted,
            temperature=asked.temperature,
            seed=None if asked.seed is None else asked.seed % 2**31,  # all that SkyRL's vLLM takes
            stop=[model.tokenizer.eos_token_id],
        )
        try:
            answer = await _sample(model, step, prompt, params, asked.n)
        except TrainerLost as error:
            raise ApiError(503, str(error), "service_lost") from error
        except ConfigError as error:
            raise ApiError(401, str(error), "key_refused") from error
        except PrecisError as error:
            raise ApiError(400, str(error), "refused") from error
        model.count["read"] += len(prompt)
        choices = []
        for one in answer.sequences:
            model.count["sampled"] += len(one.tokens)
            choices.append(_choice(one, model.tokenizer, asked, bool(tools)))
        ids = prompt if asked.return_token_ids else None
        return Completion(f"{name}@{step}", choices, prompt_tokens=len(prompt), prompt_ids=ids)

    def _find(self, asked: str) -> tuple[str, int, TinkerModel]:
        name, _, wanted = asked.partition("@")
        model = self._models.get(name)
        if model is not None:
            step = int(wanted) if wanted.isdecimal() else model.step
            if model.folder_of(step).is_dir():
                return name, step, model
        raise ApiError(404, f"The model `{asked}` does not exist here.", "model_not_found")


async def _sample(
    model: TinkerModel, step: int, prompt: list[int], params: tinker.SamplingParams, count: int
) -> tinker.SampleResponse:
    """Ask the service; once more in a new session, where something is lost in this one."""
    folder = model.folder_of(step)
    is_second = False
    while True:
        session = await model.connect()
        try:
            sampler = await session.open_sampler(folder, read_kept(folder))
            sampled = sampler.sample_async(tinker.ModelInput.from_ints(prompt), count, params)
            return await session.ask("sample", sampled, _SAMPLE_S)
        except TrainerLost:
            if is_second:
                raise
            await model.leave(session)
            is_second = True


def _choice(
    sequence: tinker.SampledSequence,
    tokenizer: Any,
    asked: ChatRequest,
    calls_tools: bool,
) -> Choice:
    tokens = list(sequence.tokens)
    entries: list[dict[str, Any]] | None = None
    if asked.logprobs:
        entries = []
        for token, logprob in zip(tokens, sequence.logprobs or [], strict=True):
            entries.append({"token": f"token_id:{token}", "logprob": logprob, "top_logprobs": []})
    ids = tokens if asked.return_token_ids else None
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    text, calls = read_calls(text, len(asked.messages)) if calls_tools else (text, [])
    finish = "tool_calls" if calls else sequence.stop_reason
    return Choice(text, finish, entries, len(tokens), tool_calls=calls, token_ids=ids)


def _tools(asked: ChatRequest, model: TinkerModel) -> list[Mapping[str, Any]] | None:
    """Return the tools that the model is shown."""
    tools = callable_tools(asked.tools, asked.tool_choice)
    if not tools:
        return None
    template = str(model.tokenizer.chat_template)
    if BEGIN not in template or "tools" not in template:
        raise ApiError(
            400,
            "The chat template of the base model writes no calls of tools in Hermes' form "
            f"({BEGIN}), the one that is read over the Tinker API: take a model such as Qwen3, or "
            "have the agent describe its moves in the prompt.",
            "no_tool_calls",
        )
    return list(tools)
