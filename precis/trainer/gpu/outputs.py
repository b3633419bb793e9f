"""Sampled tokens on their way from vLLM's engine to its replies.

vLLM's engine sends each token of each rollout alone, and its front end decodes it and makes objects
of it even if nobody needs them: with 40 rollouts at once, the GPU waited for a third of the
sampling. Here the engine sends the tokens of a rollout in groups, and the front end decodes only
those whose names were requested. A reply has the same content, except where ids in place of names
are requested (`return_tokens_as_token_ids`): then its log probabilities are numbers,
`token_logprobs`, one for each of `token_ids`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

_TOGETHER = 32
"""Tokens of a rollout that the engine sends at a time: so many fewer messages, and its last group
is still read in a few milliseconds."""

Output = Any
"""The tokens of a request that the engine has sampled: vLLM's `EngineCoreOutput`."""


class HeldOutputs:
    """Outputs that wait in the engine until a group of them is sent. A request's first output,
    which says how its prompt was read, and its last never wait."""

    def __init__(self) -> None:
        self._held: dict[str, list[Output]] = {}

    def pass_on(self, outputs: Sequence[Output], running: dict[str, Any]) -> list[Output]:
        """Return the outputs to send now, each joined with the held ones of its request. `running`
        are vLLM's requests by their ids, without those that have ended."""
        sent = []
        for output in outputs:
            group = self._held.setdefault(output.request_id, [])
            group.append(output)
            is_due = len(group) == _TOGETHER or output.finish_reason is not None
            if is_due or output.prefill_stats is not None or not _can_wait(output, running):
                del self._held[output.request_id]
                sent.append(_join(group))
        if len(self._held) > len(running):
            for lost in self._held.keys() - running.keys():  # no longer waited for
                del self._held[lost]
        return sent


def _can_wait(output: Output, running: dict[str, Any]) -> bool:
    """Return whether a request is answered at once at its end: a stream is not, and text at which
    it ends is looked for by the front."""
    request = running.get(output.request_id)
    sampling = None if request is None else request.sampling_params
    if sampling is None:
        return False
    return sampling.output_kind.name == "FINAL_ONLY" and not sampling.stop


def _join(group: Sequence[Output]) -> Output:
    """Return the last of a request's outputs, with the tokens of all."""
    last = group[-1]
    if len(group) > 1:
        tokens: list[int] = []
        lists = []
        for output in group:
            tokens += output.new_token_ids
            if output.new_logprobs is not None:
                lists.append(output.new_logprobs)
        last.new_token_ids = tokens
        if lists:
            joined = []
            for place in range(3):
                joined.append(np.concatenate([one[place] for one in lists]))
            last.new_logprobs = type(lists[0])(*joined)
    return last


def send_in_groups() -> None:
    """Have vLLM's engine, in this process, send tokens in groups."""
    from vllm.v1.core.sched.scheduler import Scheduler

    updated = Scheduler.update_from_output

    def update_from_output(self: Any, *given: Any) -> Any:
        if not hasattr(self, "_precis_held"):
            self._precis_held = HeldOutputs()
        clients = updated(self, *given)
        for outputs in clients.values():
            outputs.outputs = self._precis_held.pass_on(outputs.outputs, self.requests)
        return clients

    Scheduler.update_from_output = update_from_output


def name_when_asked() -> None:
    """Have vLLM's front end, in this process, decode sampled tokens only for replies that need
    their names, and return numbers to requests for ids."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionLogProbs
    from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
    from vllm.logprobs import Logprob
    from vllm.v1.engine.logprobs import LogprobsProcessor
    from vllm.v1.outputs import LogprobsLists

    updated = LogprobsProcessor._update_sample_logprobs
    created = OpenAIServingChat._create_chat_logprobs

    def update(self: Any, lists: Any) -> None:
        if self.num_logprobs != 0:
            updated(self, lists)
            return
        tokens, values = lists.logprob_token_ids[:, 0], lists.logprobs[:, 0]
        ranks = lists.sampled_token_ranks
        for token, value, rank in zip(
            tokens.tolist(), values.tolist(), ranks.tolist(), strict=True
        ):
            self.logprobs.append({token: Logprob(value, rank)})
            self.cumulative_logprob += value

    def create(
        self: Any,
        token_ids: Sequence[int],
        top_logprobs: Sequence[dict[int, Any]],
        tokenizer: Any,
        num_output_top_logprobs: int | None = None,
        return_as_token_id: bool | None = None,
    ) -> Any:
        if num_output_top_logprobs:
            return created(
                self,
                token_ids,
                top_logprobs,
                tokenizer,
                num_output_top_logprobs,
                return_as_token_id,
            )
        pairs = list(zip(token_ids, top_logprobs, strict=True))
        if return_as_token_id:
            # An object for each of 18,000 tokens a step would take half a second to make, to
            # write and to read; the reply has the tokens' ids beside these numbers.
            values = [max(known[token].logprob, -9999.0) for token, known in pairs]
            return ChatCompletionLogProbs(token_logprobs=values)
        namer = LogprobsProcessor(tokenizer, [], None, 0.0, 0, None)
        ids = []
        rows = []
        ranks = []
        for token, known in pairs:
            ids.append([token])
            rows.append([known[token].logprob])
            ranks.append(known[token].rank)
        updated(namer, LogprobsLists(np.array(ids), np.array(rows), np.array(ranks)))
        return created(self, token_ids, namer.logprobs, tokenizer, 0, False)

    LogprobsProcessor._update_sample_logprobs = update
    OpenAIServingChat._create_chat_logprobs = create
