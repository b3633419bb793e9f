"""What is trained on is what was sampled, token by token."""

import json
import math
from collections.abc import Sequence
from typing import Any

import art
import pytest
from openai.types.chat.chat_completion import Choice

from precis.environments.trajectories import trajectory_of
from precis.errors import TrainerError
from precis.records.rollout import Call, Json, Rollout, Scenario, Score
from precis.records.samples import Sampled, count_prefix_breaks, join_calls
from precis.trainer.protocol import decode_groups, digest_of, encode_groups
from precis.trainer.tokens import samples_of

PLAY = {"type": "function", "function": {"name": "play"}}
SYSTEM = {"role": "system", "content": "Play."}


def say(
    messages: Sequence[Json], text: str, tools: Sequence[Json] = (), *, cut: bool = False
) -> Call:
    """The call in which the model samples a text, to its end unless it was cut.

    Each character is a token. As Qwen's, the chat template drops the reasoning of earlier turns.
    """
    prompt = json.dumps(list(tools))
    for message in messages:
        prompt += f"<{message['role']}>{message['content'].rpartition('</think>')[2]}§"
    sampled = text if cut else f"{text}§"
    answer = {"role": "assistant", "content": text}
    return Call(
        tuple(messages),
        {"index": 0, "finish_reason": "stop", "message": answer},
        tuple(tools),
        tuple(map(ord, f"{prompt}<assistant>")),
        tuple(map(ord, sampled)),
        tuple(-0.01 * number for number in range(1, len(sampled) + 1)),
    )


def then(before: Call, asked: str, text: str, tools: Sequence[Json] = ()) -> Call:
    """The call that continues the conversation of another."""
    return say([*before.messages, before.message, user(asked)], text, tools)


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def three_turns() -> list[Call]:
    first = say([SYSTEM, user("board 1")], "Let me look.", [PLAY])
    second = then(first, "board 2", "5", [PLAY])
    return [first, second, then(second, "board 3", "Done.", [PLAY])]


def thinking() -> list[Call]:
    first = say([user("board 1")], "<think>Hm.</think>A1")
    return [first, then(first, "board 2", "B2")]


def sub_agent() -> list[Call]:
    first = say([SYSTEM, user("board 1")], "I will ask.")
    aside = say([user("You are a sub-agent. A or B?")], "B")
    return [first, aside, then(first, "It says B.", "B then.")]


def truncated() -> list[Call]:
    first = say([user("board 1")], "I think that the be", cut=True)
    return [first, then(first, "Shorter.", "A1")]


def changing_tools() -> list[Call]:
    first = say([user("board 1")], "1", [PLAY])
    other = {"type": "function", "function": {"name": "play", "description": "Cell 1 is taken."}}
    return [first, then(first, "board 2", "2", [other])]


def resending_a_finish_reason() -> list[Call]:
    first = say([user("board 1")], "1", [PLAY])
    kept = {**first.message, "finish_reason": "stop"}
    return [first, say([*first.messages, kept, user("board 2")], "2")]


CASES = [
    (three_turns, 1),
    (thinking, 2),
    (sub_agent, 2),
    (truncated, 1),
    (changing_tools, 2),
    (resending_a_finish_reason, 2),
]


def group_of(calls: Sequence[Call]) -> art.TrajectoryGroup:
    """A group in which these calls earned 1, and a call of its own earned 0."""
    won = Rollout(Scenario("a"), 0, tuple(calls), Score(1.0))
    lost = Rollout(Scenario("a"), 1, tuple(calls[:1]), Score(0.0))
    return art.TrajectoryGroup([trajectory_of(won, 1.0), trajectory_of(lost, 0.0)])


def trained_parts(ids: Sequence[int], mask: Sequence[int]) -> list[list[int]]:
    """The runs of tokens that are trained on."""
    parts: list[list[int]] = []
    for place, (token, trained) in enumerate(zip(ids, mask, strict=True)):
        if trained and (place == 0 or not mask[place - 1]):
            parts.append([])
        if trained:
            parts[-1].append(token)
    return parts


@pytest.mark.parametrize(("make", "count"), CASES)
def test_each_sampled_token_is_trained_once_behind_its_prompt(make: Any, count: int) -> None:
    calls = make()
    sequences = join_calls(calls)
    assert len(sequences) == count
    trained = [part for one in sequences for part in trained_parts(one.token_ids, one.mask)]
    assert sorted(trained) == sorted(list(call.token_ids) for call in calls)
    for call in calls:
        whole = [*call.prompt_ids, *call.token_ids]
        assert any(one.token_ids[: len(whole)] == whole for one in sequences)
    for sequence in sequences:
        assert len(known_in(sequence.logprobs)) == sum(sequence.mask)
    # And so the trainer gets them over the wire.
    here = group_of(calls)
    (there,) = decode_groups(json.loads(json.dumps(encode_groups([here]))))
    samples = samples_of([there], scale_rewards=False)
    own = [one for one in samples if one.advantage > 0]
    assert sorted((one.token_ids, one.assistant_mask, known_in(one.logprobs)) for one in own) == (
        sorted((one.token_ids, one.mask, known_in(one.logprobs)) for one in sequences)
    )
    assert {one.advantage for one in own} == {0.5}
    assert count_prefix_breaks([there]) == count - 1
    assert digest_of(encode_groups([there])) == digest_of(encode_groups([here]))


def known_in(logprobs: Sequence[float]) -> list[float]:
    return [value for value in logprobs if not math.isnan(value)]


def test_a_group_s_rollouts_share_their_first_prompt() -> None:
    samples = samples_of([group_of(three_turns())], scale_rewards=False)
    assert len(samples) == 2
    assert len({one.prompt_id for one in samples}) == 1
    assert {one.prompt_length for one in samples} == {len(three_turns()[0].prompt_ids) - 1}


def test_a_call_continues_the_longest_of_the_samples_that_its_prompt_begins_with() -> None:
    cut = Sampled([1], [2], [0])
    whole = Sampled([1], [2, 3], [0, 0])
    sequences = join_calls([cut, whole, Sampled([1, 2, 3, 4], [5], [0])])
    assert [one.token_ids for one in sequences] == [[1, 2], [1, 2, 3, 4, 5]]


def test_prompts_are_sent_once() -> None:
    """Each turn's prompt holds all turns before it, and each rollout of a group the same start."""
    calls = [say([SYSTEM, user("word " * 400)], "A1")]
    for _ in range(9):
        calls.append(then(calls[-1], "Next.", "B2"))
    (encoded,) = encode_groups([group_of(calls)])
    numbers = 0
    for trajectory in encoded["trajectories"]:
        for item in trajectory["messages_and_choices"]:
            numbers += len(item["prompt_token_ids"][1]) if "finish_reason" in item else 0
    assert numbers == len(join_calls(calls)[0].token_ids) - sum(
        len(call.token_ids) for call in calls
    )


def test_a_prompt_that_repeats_what_was_not_sent_is_refused() -> None:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": "A1"},
        "prompt_token_ids": [7, [1, 2]],
        "token_ids": [3],
        "token_logprobs": [-0.1],
    }
    (encoded,) = encode_groups([art.TrajectoryGroup([])])
    trajectory = art.Trajectory(messages_and_choices=[], reward=1.0).model_dump(mode="json")
    encoded["trajectories"] = [{**trajectory, "messages_and_choices": [choice]}]
    with pytest.raises(ValueError, match="repeats 7 tokens of 0"):
        decode_groups([encoded])


@pytest.mark.parametrize(
    ("carried", "problem"),
    [
        ({}, "carries no token ids"),
        ({"token_ids": [1], "token_logprobs": [-0.1]}, "carries no token ids"),
        (
            {"prompt_token_ids": [1], "token_ids": [1, 2], "token_logprobs": [-0.1]},
            "2 tokens and 1 log probabilities",
        ),
    ],
)
def test_a_choice_without_its_tokens_is_left_out(carried: dict[str, Any], problem: str) -> None:
    message = {"role": "assistant", "content": "A1"}
    choice = Choice.model_validate(
        {"index": 0, "finish_reason": "stop", "message": message, **carried}
    )
    trajectories = [
        art.Trajectory(messages_and_choices=[choice], reward=reward) for reward in (0.0, 1.0)
    ]
    with pytest.raises(TrainerError, match=problem):
        samples_of([art.TrajectoryGroup(trajectories)], scale_rewards=True)


def test_an_answer_that_was_cut_before_its_first_token_is_left_out_of_a_group() -> None:
    """By a small `rollouts.tokens_max`; the group's other rollouts are trained on."""
    group = art.TrajectoryGroup([])
    for index, text in enumerate(("A", "")):
        played = Rollout(Scenario("a"), index, (say((user("Go."),), text, cut=True),), Score(1.0))
        group.trajectories.append(trajectory_of(played, 1.0 - index))
    assert len(samples_of([group], scale_rewards=True)) == 1


def test_answers_without_ids_keep_openai_s_log_probabilities() -> None:
    """Where training happens elsewhere and takes text, its tokens are that service's."""
    entries = [{"token": "A", "logprob": -0.5, "bytes": None, "top_logprobs": []}]
    message = {"role": "assistant", "content": "A"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    call = Call((user("Go."),), {**choice, "logprobs": {"content": entries}})
    sent: Any = trajectory_of(Rollout(Scenario("a"), 0, (call,), Score(1.0)), 1.0)
    assert sent.messages_and_choices[-1].logprobs.content[0].logprob == -0.5
