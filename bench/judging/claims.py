"""What all figures share: whom they ask, and that they fail where a claim does not hold."""

import asyncio
import sys
from collections.abc import Sequence

import typer

from bench.judging.cases import Case
from bench.judging.server import MODEL
from precis.config import JudgeConfig
from precis.environments.summaries.judge import JudgeClient, Verdict

CONFIG = JudgeConfig(provider="url", base_url="http://127.0.0.1/v1", model=MODEL)


async def scored(judge: JudgeClient, some: Sequence[Case]) -> list[Verdict]:
    """The verdicts on all of them, asked for at once."""
    return await asyncio.gather(*(judge.score(case.document, case.summary) for case in some))


def require(holds: bool, sentence: str) -> None:
    """End the program with a sentence and status 1 unless a claim holds."""
    if not holds:
        print(sentence, file=sys.stderr)
        raise typer.Exit(1)
