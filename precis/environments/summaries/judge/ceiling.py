"""The ceiling of a judge: the share of questions that it answers from the documents' full texts."""

import asyncio
import json
from typing import Any

from precis.environments.summaries.judge.client import JudgeClient
from precis.errors import ConfigError
from precis.llm.concurrency import run_for_each
from precis.record import json_digest
from precis.records.documents import Corpus, Document
from precis.records.verdict import Scored, Unscored
from precis.store import Store

_LOW = 0.5


def check_ceiling(ceiling: float, ceiling_min: float, judge: str) -> str:
    """Describe a low ceiling, for a warning; empty where it is high enough. Lower than the least is
    a ConfigError."""
    found = f"The judge {judge} answers {ceiling:.0%} of the questions from the full documents"
    remedy = (
        "See whether questions and golden answers belong to these documents, or have another "
        "model judge (judge.provider, judge.model)"
    )
    if ceiling < ceiling_min:
        raise ConfigError(
            f"{found}, less than ceiling_min ({ceiling_min:.0%}): no summary could earn a reward "
            f"worth learning from.",
            f"{remedy}; or set ceiling_min to 0 to train all the same.",
        )
    return f"{found}: rewards will be sparse. {remedy}." if ceiling < _LOW else ""


async def measure_ceiling(
    store: Store, judge: JudgeClient, corpus: Corpus, documents_max: int | None = None
) -> float | None:
    """Return the judge's accuracy when it reads the held-out documents in full, or so many of them.

    It is kept in the store. None if the judge failed on one of them; that is not kept.
    """
    documents = corpus.validation[:documents_max]
    parts: list[Any] = [corpus.digest, judge.identity]
    if len(documents) < len(corpus.validation):
        parts.append(len(documents))
    key = f"ceilings/{json_digest(parts)[:16]}.json"
    kept = await asyncio.to_thread(store.get, key)
    if kept:
        return float(json.loads(kept.data)["accuracy"])

    async def read(document: Document) -> Scored | Unscored:
        return await judge.score(document, document.text)

    correct = 0
    asked = 0
    for verdict in await run_for_each(read, documents):
        if not isinstance(verdict, Scored):
            return None
        correct += verdict.correct
        asked += verdict.asked
    accuracy = correct / asked
    record = {"accuracy": accuracy, "judge": judge.identity, "corpus": corpus.digest}
    await asyncio.to_thread(store.put, key, json.dumps(record).encode())
    return accuracy
