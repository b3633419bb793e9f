from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precis.environments.summaries.baselines import baselines, centroid, lead, random_sentences
from precis.environments.summaries.prompt import summary_messages
from precis.llm.server import completions_app
from precis.text import count_words, sentences

TEXT = (
    "Harbor news. The council of Elmford approved a harbor budget on Tuesday. Rain is expected. "
    "The harbor budget of 3.5 million pays for a new harbor wall. Cats were seen. "
    "The council approved a harbor budget on Tuesday in Elmford. Residents asked for benches."
)
PARAGRAPHS = st.lists(
    st.lists(st.sampled_from(["Ada", "went", "home", "in", "May", "!", "3.5"]), min_size=1).map(
        lambda words: " ".join(words) + "."
    ),
    max_size=12,
).map(" ".join)


@pytest.mark.parametrize("summarize", [lead, random_sentences, centroid])
@settings(max_examples=40)
@given(text=PARAGRAPHS, words_max=st.integers(1, 60))
def test_a_baseline_keeps_whole_sentences_in_order_within_the_limit(
    summarize: object, text: str, words_max: int
) -> None:
    assert callable(summarize)
    summary = summarize(text, words_max)
    assert count_words(summary) <= words_max
    position = 0
    for sentence in sentences(summary):
        position = text.index(sentence[:3], position)


async def ask(complete: Any, body: Any) -> httpx.Response:
    transport = httpx.ASGITransport(completions_app(complete, lambda: []))
    async with httpx.AsyncClient(transport=transport, base_url="http://local") as client:
        return await client.post("/v1/chat/completions", json=body)


async def test_baselines_speak_the_chat_protocol() -> None:
    for name, complete in baselines().items():
        body = {"model": name, "messages": summary_messages(TEXT, words_max=20), "n": 2}
        answer = (await ask(complete, body)).json()
        first, second = (choice["message"]["content"] for choice in answer["choices"])
        assert answer["model"] == name
        assert first == second
        assert (0 < count_words(first) <= 20) is (name != "empty")
    body = {"model": "lead-350", "messages": [{"role": "user", "content": "Hello"}]}
    refused = await ask(baselines()["lead-350"], body)
    assert refused.status_code == 400
    assert "No document found" in refused.json()["error"]["message"]
