"""Trajectories as tokens: exactly those that were sampled, with ART's advantages."""

from pathlib import Path
from typing import Any

import art
import pytest
from openai.types.chat.chat_completion import Choice

from precis.errors import TrainerError
from precis.trainer.tinker.tokenizer import load_tokenizer
from precis.trainer.tokens import TrainingSample, samples_of, tokenize_demonstrations
from tests.support.rollouts import calling
from tests.support.tokenizers import TEMPLATE_WITH_TOOLS, Tokenizer, write_chat_tokenizer


def group(prompt: str, rewards: list[float]) -> art.TrajectoryGroup:
    trajectories = []
    for number, reward in enumerate(rewards):
        messages: Any = [{"role": "user", "content": prompt}, choice(prompt, number)]
        trajectories.append(art.Trajectory(messages_and_choices=messages, reward=reward))
    return art.TrajectoryGroup(trajectories)


def choice(prompt: str, number: int) -> Choice:
    """An answer of `number` + 1 tokens, as the recorder keeps it."""
    answer: dict[str, Any] = {"finish_reason": "stop", "index": 0}
    answer["prompt_token_ids"] = [1, *map(ord, prompt), 2]
    answer["token_ids"] = [500 + at for at in range(number + 1)]
    answer["token_logprobs"] = [-0.5 * (at + 1) for at in range(number + 1)]
    return Choice.model_validate({**answer, "message": {"role": "assistant", "content": "…"}})


def test_advantages_are_against_the_groups_mean_and_spread() -> None:
    groups = [group("ab", [0.0, 0.5, 1.0, 1.0])]
    scaled = [one.advantage for one in samples_of(groups, scale_rewards=True)]
    plain = [one.advantage for one in samples_of(groups, scale_rewards=False)]
    assert plain == pytest.approx([-0.625, -0.125, 0.375, 0.375])
    assert scaled == pytest.approx([value / 0.414578 for value in plain], rel=1e-4)
    # An answer without an advantage is left out, and groups with one prompt stay two.
    samples = samples_of(
        [group("ab", [0.0, 0.5, 1.0]), group("ab", [0.0, 1.0])], scale_rewards=True
    )
    assert [sum(one.assistant_mask) for one in samples] == [1, 3, 1, 2]
    assert len({one.prompt_id for one in samples}) == 2


def shown(prompt: Any, answer: Any) -> art.Trajectory:
    messages: Any = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    return art.Trajectory(messages_and_choices=messages)


def test_an_answer_to_imitate_is_its_own_tokens_and_its_end() -> None:
    too_long = shown("ab", "y" * 50)  # which vLLM could not have written
    given = [too_long, shown("ab", "yz"), shown("ab", "z")]
    (one,), (other,) = tokenize_demonstrations(given, Tokenizer(), 10)
    assert one.token_ids == [1, ord("a"), ord("b"), 2, ord("y"), ord("z"), 9]
    assert one.assistant_mask == [0, 0, 0, 0, 1, 1, 1]
    assert one.advantage == 1.0
    assert (one.prompt_id, one.prompt_length) == (other.prompt_id, 3), "they share their prompt"
    own = art.Trajectory(messages_and_choices=[*shown("ab", "").messages()[:1], choice("ab", 1)])
    ((one,),) = tokenize_demonstrations([own], Tokenizer(), 10)
    assert one.token_ids == [1, ord("a"), ord("b"), 2, 500, 501], "it is what was sampled"


def test_a_message_in_parts_is_their_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    given = [shown("a\nb", "a\nb"), shown(parts, parts)]
    (one,), (other,) = tokenize_demonstrations(given, Tokenizer(), 100)
    assert one == other


PLAY: Any = {"type": "function", "function": {"name": "play", "parameters": {"type": "object"}}}


def played(cell: int) -> dict[str, Any]:
    return calling("play", {"cell": cell}, f"call_{cell}")


def game(*answers: dict[str, Any]) -> art.Trajectory:
    messages: list[Any] = [{"role": "user", "content": "Your move."}]
    for answer in answers:
        board = {"role": "tool", "tool_call_id": "call", "content": "o is next to you."}
        messages += [answer, board]
    trajectory = art.Trajectory(messages_and_choices=[], tools=[PLAY])
    trajectory.messages_and_choices = messages
    return trajectory


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tokenizer")
    return load_tokenizer(str(write_chat_tokenizer(folder, TEMPLATE_WITH_TOOLS)))


def learned(sample: TrainingSample, tokenizer: Any) -> str:
    ids = zip(sample.token_ids, sample.assistant_mask, strict=True)
    shown = [token for token, mask in ids if mask]
    return str(tokenizer.decode(shown, skip_special_tokens=True))


def test_each_turn_is_imitated_but_weight_0_and_prefixes_read_once(tokenizer: Any) -> None:
    example = {**played(1), "weight": 0}
    ((one,),) = tokenize_demonstrations([game(example, played(5), played(7))], tokenizer, 10_000)
    text = tokenizer.decode(one.token_ids)
    assert text.count("Your move.") == text.count('"cell": 1') == 1
    declared = '{"type": "function", "function": {"name": "play", "parameters"'
    assert declared in text.partition("Your move.")[0], "the prompt is not that of vLLM"
    call = '<tool_call>\n{"name": "play", "arguments": {"cell": 5}}\n</tool_call>'
    assert learned(one, tokenizer) == call + call.replace("5", "7")
    assert sum(token == tokenizer.eos_token_id for token in one.token_ids) >= 5
    ends = [place for place, mask in enumerate(one.assistant_mask) if mask]
    assert one.token_ids[ends[-1]] == tokenizer.eos_token_id


def test_a_model_that_may_think_is_asked_not_to(tmp_path: Path) -> None:
    template = TEMPLATE_WITH_TOOLS + "{% if enable_thinking is false %}<think></think>{% endif %}"
    tokenizer = load_tokenizer(str(write_chat_tokenizer(tmp_path, template)))
    messages = [{"role": "user", "content": "Hello."}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert tokenizer.decode(ids).endswith("<think></think>")


def test_a_template_that_drops_thoughts_makes_own_samples(tokenizer: Any) -> None:
    thought: Any = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "<think>Polite.</think>\nHello."},
        {"role": "user", "content": "Bye."},
        {"role": "assistant", "content": "Bye."},
    ]
    trajectory = art.Trajectory(messages_and_choices=thought)
    (samples,) = tokenize_demonstrations([trajectory], tokenizer, 10_000)
    assert [learned(one, tokenizer) for one in samples] == [thought[1]["content"], "Bye."]


def test_a_template_that_knows_no_tools_is_refused(tmp_path: Path) -> None:
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    plain = load_tokenizer(str(write_chat_tokenizer(tmp_path, template)))
    with pytest.raises(TrainerError, match="whose template knows tools"):
        tokenize_demonstrations([game(played(5))], plain, 10_000)
