import httpx

from precis.environments.summaries.baselines import baselines
from precis.environments.summaries.prompt import summary_messages
from precis.llm.server import completions_app
from precis.text import count_words

TEXT = (
    "Harbor news. The council of Elmford approved a harbor budget on Tuesday. Rain is expected. "
    "The harbor budget of 3.5 million pays for a new harbor wall. Cats were seen. "
    "The council approved a harbor budget on Tuesday in Elmford. Residents asked for benches."
)


async def test_baselines_speak_the_chat_protocol() -> None:
    for name, complete in baselines().items():
        app = completions_app(complete, lambda: [])
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://local") as client:
            body = {"model": name, "messages": summary_messages(TEXT, words_max=20), "n": 2}
            answer = (await client.post("/v1/chat/completions", json=body)).json()
        first, second = (choice["message"]["content"] for choice in answer["choices"])
        assert answer["model"] == name
        assert first == second
        assert (0 < count_words(first) <= 20) is (name != "empty")


async def test_a_request_without_a_document_is_a_400_that_says_why() -> None:
    app = completions_app(baselines()["lead-350"], lambda: ["lead-350"])
    body = {"model": "lead-350", "messages": [{"role": "user", "content": "Hello"}]}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://local"
    ) as client:
        answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert "No document found" in answer.json()["error"]["message"]
