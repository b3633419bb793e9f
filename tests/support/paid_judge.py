"""A judge whose pay is counted where it works, and not by who asks it."""

from precis.llm.server import ApiError, ChatRequest, Completion
from precis.rehearsal.judges.judge import lexical_judge
from precis.text import count_words


class PaidJudge:
    """The lexical judge, for a dollar a million tokens; after so many answers it is out."""

    def __init__(self) -> None:
        self.answers_left = 1_000_000
        self._tokens = 0
        self._answer = lexical_judge

    async def complete(self, asked: ChatRequest) -> Completion:
        if not self.answers_left:
            raise ApiError(500, "It is out.", "server_error")
        self.answers_left -= 1
        completion = await self._answer(asked)
        self._tokens += sum(count_words(str(message["content"])) for message in asked.messages)
        self._tokens += sum(choice.tokens for choice in completion.choices)
        return completion

    @property
    def usd(self) -> float:
        return self._tokens / 1_000_000
