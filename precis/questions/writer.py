"""The model that writes questions."""

from precis.config import RateLimits
from precis.environments.summaries.judge.protocol import BadReply, json_schema
from precis.errors import ProviderFailed
from precis.llm.client import ChatClient, ChatReply, CompletionRequest, OwnServer, whole_text
from precis.llm.retry import Deadline
from precis.llm.tokens import estimate_tokens_with_margin
from precis.questions.prompts import (
    ANSWERED,
    UNANSWERED,
    Questions,
    WrittenQuestion,
    parse_questions,
    question_messages,
)
from precis.records.spend import Usage

_CHARACTERS_WRITTEN = (ANSWERED + UNANSWERED) * 360
"""For questions as long as RepLiQA's, with answers, passages and the JSON around them."""

SETTINGS = OwnServer(RateLimits(in_flight=8), call_timeout_s=180, tries_max=4, backoff_s=1.0)
_DOCUMENT_TIMEOUT_S = 600.0
"""For all attempts together: a document takes longer than a verdict, and is worth waiting for."""


class QuestionWriter:
    """Asks a model for the questions of a document.

    `await QuestionWriter(client).write(text)`, with a client with these `SETTINGS`.
    """

    def __init__(self, client: ChatClient) -> None:
        self.model = client.endpoint.model
        self._client = client

    async def write(self, text: str) -> list[WrittenQuestion]:
        """Return the questions of a document. Raises the errors of `ChatClient.complete`."""
        deadline = Deadline(_DOCUMENT_TIMEOUT_S)
        payload = {"model": self.model, "messages": question_messages(text), "temperature": 0}

        def read(reply: ChatReply) -> list[WrittenQuestion]:
            try:
                return parse_questions(whole_text(reply, "writer"))
            except BadReply as error:
                raise ProviderFailed("bad_reply", str(error)) from error

        expected = estimate_usage(text)
        request = CompletionRequest(payload, expected, "questions", json_schema(Questions))
        return await self._client.complete(request, deadline, read)


def estimate_usage(text: str) -> Usage:
    """Return the tokens of a request for a document's questions, estimated with a margin."""
    asked = sum(len(message["content"]) for message in question_messages(text))
    written = estimate_tokens_with_margin(_CHARACTERS_WRITTEN)
    return Usage(estimate_tokens_with_margin(asked), written)
