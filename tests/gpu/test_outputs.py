"""Tokens that leave vLLM's engine in groups, and are named when asked, make the same replies."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: see tests/gpu/README.md")

from transformers import AutoTokenizer
from vllm.entrypoints.openai.chat_completion.serving import OpenAIServingChat
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine import EngineCoreOutput, FinishReason
from vllm.v1.engine.logprobs import LogprobsProcessor
from vllm.v1.metrics.stats import PrefillStats
from vllm.v1.outputs import LogprobsLists

from precis.trainer.gpu.outputs import HeldOutputs, name_when_asked

TOKENS = 100
FINAL = RequestOutputKind.FINAL_ONLY


def output_of(token: int, last: bool = False, first: bool = False) -> EngineCoreOutput:
    lists = LogprobsLists(np.array([[token]]), np.array([[-token / 10]]), np.array([token + 1]))
    return EngineCoreOutput(
        request_id="one",
        new_token_ids=[token],
        new_logprobs=lists,
        finish_reason=FinishReason.LENGTH if last else None,
        prefill_stats=PrefillStats() if first else None,
    )


def passed_on(**sampling: Any) -> list[EngineCoreOutput]:
    """What is sent of a request of 100 tokens, one after the other."""
    running = {"one": SimpleNamespace(sampling_params=SamplingParams(**sampling))}
    held = HeldOutputs()
    sent: list[Any] = []
    for token in range(TOKENS):
        last = token == TOKENS - 1
        here: Any = {} if last else running
        sent += held.pass_on([output_of(token, last, first=token == 0)], here)
    assert not held._held
    return sent


def test_tokens_are_sent_in_groups_and_none_is_lost() -> None:
    sent = passed_on(output_kind=FINAL)

    assert [len(one.new_token_ids) for one in sent] == [1, 32, 32, 32, 3]
    assert [token for one in sent for token in one.new_token_ids] == list(range(TOKENS))
    values = [value for one in sent for value in one.new_logprobs.logprobs[:, 0].tolist()]
    assert values == [-token / 10 for token in range(TOKENS)]
    ranks = [rank for one in sent for rank in one.new_logprobs.sampled_token_ranks.tolist()]
    assert ranks == [token + 1 for token in range(TOKENS)]
    assert [one.finish_reason for one in sent] == [*[None] * 4, FinishReason.LENGTH]


@pytest.mark.parametrize(
    "sampling", [{"output_kind": RequestOutputKind.DELTA}, {"output_kind": FINAL, "stop": ["."]}]
)
def test_a_stream_and_what_ends_at_a_text_do_not_wait(sampling: dict[str, Any]) -> None:
    assert [len(one.new_token_ids) for one in passed_on(**sampling)] == [1] * TOKENS


def test_nothing_is_held_of_an_aborted_request() -> None:
    running = {"one": SimpleNamespace(sampling_params=SamplingParams(output_kind=FINAL))}
    held = HeldOutputs()
    held.pass_on([output_of(1)], running)

    held.pass_on([], {})

    assert not held._held


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Bytes as tokens, so that a character takes several."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({one: at for at, one in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    folder = tmp_path_factory.mktemp("bytes")
    PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def replies_of(ids: list[int], tokenizer: Any, top: int = 0) -> list[Any]:
    """The log probabilities of a reply, with names and with ids."""
    made = []
    for as_ids in (False, True):
        processor = LogprobsProcessor(tokenizer, [], None, 0.0, top, None)
        others = [[token, *range(top)] for token in ids]
        values = [[-token / 7, *[-20.0] * top] for token in ids]
        ranks = np.array([token + 1 for token in ids])
        lists = LogprobsLists(np.array(others), np.array(values), ranks)
        processor._update_sample_logprobs(lists)
        serving = OpenAIServingChat.__new__(OpenAIServingChat)
        serving.return_tokens_as_token_ids = False
        given = (ids, processor.logprobs, tokenizer, top, as_ids)
        made.append(serving._create_chat_logprobs(*given).model_dump(mode="json"))
        made.append(round(processor.cumulative_logprob or 0, 6))
    return made


def test_a_reply_says_the_same(tokenizer: Any) -> None:
    ids = tokenizer("Ein Kuß für 寿司, please")["input_ids"]
    before = [replies_of(ids, tokenizer, top) for top in (0, 2)]

    name_when_asked()

    after = [replies_of(ids, tokenizer, top) for top in (0, 2)]
    assert after[0][:2] == before[0][:2]
    assert after[1] == before[1]
    # By ids, there are numbers in place of an object for each token.
    values = [entry["logprob"] for entry in before[0][2]["content"]]
    assert after[0][2:] == [{"content": None, "token_logprobs": values}, before[0][3]]
