"""RULER: a judge ranks all summaries of a document against each other, with no golden answers.

The scoring is ART's (`art.rewards.ruler_score_group`); this adds what a reward must have. ART
matches scores to trajectories by position, takes any number for a score, and keeps neither the
reply's ids nor its usage. Both are read from the wire, where a reply that is not exactly one
score between 0 and 1 for each trajectory, in order, counts as a failure and is asked for again.
"""

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import httpx
from pydantic import BaseModel, Field, ValidationError

from precis.config import JudgeConfig
from precis.errors import JudgeError
from precis.judge.ruler_art import ArtRuler
from precis.llm.limits import Limiter, Turn, limits_of
from precis.llm.providers import Endpoint
from precis.llm.replies import Failed, SchemaRejected, opened, reply_in
from precis.llm.responses import ReplyTooLarge
from precis.llm.retry import Deadline, Retrier
from precis.records.spend import Prices, Spend, Usage, prices_of
from precis.records.verdict import Unscored

if TYPE_CHECKING:
    import art

_CHARACTERS_A_TOKEN = 3
_TOKENS_A_SCORE = 80
_TAG = re.compile("<")
_TAG_BUT_FENCES = re.compile("<(?!/?document>)")


class _Score(BaseModel):
    trajectory_id: str
    score: float = Field(ge=0, le=1, allow_inf_nan=False)


class _Reply(BaseModel):
    scores: list[_Score]


class RulerJudge:
    """Scores groups of trajectories relative to each other.

    `async with RulerJudge(endpoint, config) as ruler: rewards = await ruler.score_group(group)`

    Making one imports ART, which takes seconds.

    Args:
        endpoint: where the judge is; its model must follow JSON schemas.
        config: limits, deadlines and tries, which mean what they mean to `JudgeClient`.
        limiter: that of the `JudgeClient` for the same account; None makes one of `config`.
        prices: USD by model, for `spend`; None takes the built-in table and `config.prices`.

    Attributes:
        spend: what all calls have cost so far.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        config: JudgeConfig,
        *,
        limiter: Limiter | None = None,
        prices: Prices | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._config = config
        self._limiter = limiter or Limiter(limits_of(config))
        self._prices = prices_of(config) if prices is None else prices
        self._art = ArtRuler(endpoint, config)
        self._tries = Retrier(config)
        self.spend = Spend()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._art.close()

    async def score_group(self, group: "art.TrajectoryGroup") -> list[float] | Unscored:
        """One reward between 0 and 1 for each trajectory, in the group's order.

        Rewards rather than ART's scored group, because that one has lost the group's metadata,
        metrics and exceptions. A group of identical trajectories takes one absolute score.

        Raises:
            JudgeError: the judge rejects the key, the model or the request as such.
        """
        if not group.trajectories:
            return []
        deadline = Deadline(self._config.verdict_timeout_s)
        try:
            return await self._tries.until_answered(
                partial(self._scored, group, deadline), deadline
            )
        except Failed as error:
            return Unscored(error.cause, str(error))

    async def _scored(self, group: "art.TrajectoryGroup", deadline: Deadline) -> list[float]:
        distinct = _escaped(_distinct(group))
        expected = _expected(distinct)
        async with self._limiter.turn(expected.tokens) as turn:
            try:
                async with deadline.spending(self._config.call_timeout_s):
                    response, complaint = await self._art.ask(distinct)
            except TimeoutError as error:
                self._count(expected, given_up=True)
                raise Failed("timeout", "The judge did not answer before the deadline.") from error
            if isinstance(complaint, ReplyTooLarge):
                self._count(expected, given_up=True)
                raise Failed("too_large", f"The judge sent too much: {complaint}")
            if response is None:
                raise Failed("connection", f"The connection to the judge failed: {complaint!r}")
            reply = self._read(response, turn)
        scores = _parsed(reply, len(distinct.trajectories))
        if complaint is not None:
            raise Failed("bad_verdict", f"ART could not use the judge's reply: {complaint}")
        return scores * (len(group.trajectories) // len(scores))

    def _read(self, response: httpx.Response, turn: Turn) -> str:
        try:
            with self._limiter.heeding(turn):
                body = opened(
                    response.status_code, response.headers, response.content, self._endpoint
                )
        except SchemaRejected as error:
            raise JudgeError(
                f"RULER needs a judge that follows JSON schemas, and '{self._endpoint.model}' at "
                f"{self._endpoint.base_url} does not: {error}. Choose another model, or "
                "reward summaries by their questions instead."
            ) from error
        usage = Usage.from_response(body.get("usage"))
        turn.tokens = usage.tokens or turn.tokens
        self._count(usage)
        return reply_in(body)

    def _count(self, usage: Usage, *, given_up: bool = False) -> None:
        self.spend += Spend.of_call(self._endpoint.model, usage, self._prices, given_up=given_up)


def _parsed(reply: str, wanted: int) -> list[float]:
    try:
        scores = _Reply.model_validate_json(reply).scores
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        raise Failed("bad_verdict", f"The judge's reply is no list of scores: {problem}") from error
    given = [score.trajectory_id for score in scores]
    if given != [str(number) for number in range(1, wanted + 1)]:
        raise Failed(
            "bad_verdict",
            f"The judge scored the trajectories {given} where 1 to {wanted} were asked for, "
            "in this order.",
        )
    return [score.score for score in scores]


def _distinct(group: "art.TrajectoryGroup") -> "art.TrajectoryGroup":
    """The group, or its first trajectory alone where all say the same.

    ART does this too, but prints a warning into the terminal.
    """
    said = {json.dumps(trajectory.messages()) for trajectory in group.trajectories}
    return type(group)(group.trajectories[:1]) if len(said) == 1 else group


def _escaped(group: "art.TrajectoryGroup") -> "art.TrajectoryGroup":
    """The group with `<` as an entity, but for the fence of the document to summarize.

    ART puts tags around each trajectory: no text inside may hold one.
    """
    trajectory = type(group.trajectories[0])
    escaped = [
        trajectory(
            messages_and_choices=[_escaped_message(one) for one in each.messages()],
            reward=each.reward,
        )
        for each in group.trajectories
    ]
    return type(group)(escaped)


def _escaped_message(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    if not isinstance(content, str):
        return message
    tag = _TAG if message["role"] == "assistant" else _TAG_BUT_FENCES
    return {**message, "content": tag.sub("&lt;", content.replace("&", "&amp;"))}


def _expected(group: "art.TrajectoryGroup") -> Usage:
    """What a request will take, until its response tells."""
    characters = sum(len(json.dumps(each.messages())) for each in group.trajectories)
    return Usage(characters // _CHARACTERS_A_TOKEN, _TOKENS_A_SCORE * len(group.trajectories))
