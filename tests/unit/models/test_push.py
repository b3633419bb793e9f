"""Publishing: what goes up, what its card says, and what a refusal says."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
import yaml
from typer.testing import Result

from precis.models import card
from precis.models.export import write_modelfile
from precis.models.licences import check_licence, licence_of, restriction_of
from precis.models.reference import Reference, find_model
from precis.records.ledger import Origin
from precis.records.results import write_results
from precis.settings.trainer import ArtTrainer, ExtractiveTrainer
from precis.statistics.standings import summarise
from precis.store import FolderStore
from tests.support.command import run_precis
from tests.support.hub_server import HubServer
from tests.support.ledgers import warm_start
from tests.support.local_server import served
from tests.support.results import rows
from tests.support.runs import train_policy
from tests.support.tiny_model import AN_AGENT, AS_TRAINED, store_with_adapter

TOKEN = "hf_token_of_the_test"

# huggingface_hub 1.16 gives httpx a file by a name that httpx no longer likes.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")


def put_benchmark(store: FolderStore, day: int, folder: Path) -> None:
    """A benchmark of step 2 and a baseline: three of four questions against one of four."""
    night = datetime(2026, 11, day, tzinfo=UTC)
    judge = {"judge": "gemini-2.5-flash", "protocol": "batched v1"}
    found = []
    for model, step, right in (("trained", 2, 3), ("lead-350", None, 1)):
        verdicts = {f"d{number}": [number < right] for number in range(4)}
        found.append(rows(model, verdicts, step, words=2, night=night, corpus_digest="k", **judge))
    write_results(pl.concat(found), folder / "results.parquet")
    store.upload(folder / "results.parquet", f"mine/results/{night:%Y%m%d}.parquet")


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return store_with_adapter(tmp_path)


@pytest.fixture
def hub() -> HubServer:
    return HubServer(TOKEN)


@pytest.fixture
def address(hub: HubServer) -> Iterator[str]:
    with served(hub.app()) as url:
        yield url


def push(
    *arguments: object, store: FolderStore, hub: str, token: str = TOKEN, code: int = 0
) -> Result:
    env = {"HF_ENDPOINT": hub, "HF_TOKEN": token, "HF_HUB_DISABLE_XET": "1"}
    done = run_precis("model", "push", *arguments, store=store, code=code, **env)
    assert TOKEN not in done.output
    return done


def test_an_adapter_goes_up_with_its_prompt_and_a_card_that_says_how_sure_its_figures_are(
    store: FolderStore, hub: HubServer, address: str, tmp_path: Path
) -> None:
    put_benchmark(store, 19, tmp_path)
    put_benchmark(store, 20, tmp_path)
    done = push("mine", "--repo", "me/mine", "--private", store=store, hub=address)
    assert done.stdout.strip().endswith(f"me/mine/commit/{'c' * 40}")
    assert hub.repos == {"me/mine": True}
    assert hub.messages == ["mine@2, by Précis"]
    assert {path for _, path in hub.files} == {
        *("README.md", "adapter_config.json", "adapter_model.safetensors", "prompt.json")
    }
    weights = hub.files["me/mine", "adapter_model.safetensors"]
    assert weights == (tmp_path / "adapter" / "adapter_model.safetensors").read_bytes()
    text = hub.files["me/mine", "README.md"].decode()
    _, head, body = text.split("---\n", 2)
    metadata = yaml.safe_load(head)
    assert metadata["base_model"] == "owner/tiny"
    assert metadata["library_name"] == "peft"
    assert metadata["datasets"] == ["owner/stories"]
    found = card.newest_benchmark(find_model(store, Reference("mine")))
    assert found is not None
    model = find_model(store, Reference("mine"))
    began = Origin(model="o", step=3, store="s", files="0" * 64, corpus="another")
    forked = replace(model, ledger=model.ledger.begin_from(began))
    of_fork = card.card_of(forked, "owner/tiny", "me/mine", found)
    assert "trained by GRPO for 2 steps, after 3 of another run, `o`." in of_fork
    began_with = model.ledger.steps[0].model_copy(update={"warm_start": warm_start()})
    ledger = model.ledger.model_copy(update={"steps": (began_with, *model.ledger.steps[1:])})
    of_warm = card.card_of(replace(model, ledger=ledger), "owner/tiny", "me/mine", found)
    assert "by GRPO for 1 step, after imitating 4 demonstrations (file)." in of_warm
    best = card.card_of(find_model(store, Reference("mine", "best")), "owner/tiny", "me/mine", None)
    chosen = "Step 1 was chosen as the best of 3 validations"
    assert chosen in best and "was chosen" not in body
    # The score of a text that is not prose is zero, however many answers it has.
    assert "that the judge answered rightly from the summary alone, as far as it is prose" in body
    assert "never trained on" in body and "never trained on" not in of_fork
    standing, baseline = summarise(found)
    interval = standing.accuracy
    assert interval is not None and baseline.accuracy is not None
    row = f"| **this model** | **75.0%** | {interval.low:.1%} to {interval.high:.1%} | 2 |"
    assert row in body
    assert f"| lead-350 | {baseline.accuracy.mean:.1%} |" in body
    for fact in (
        "gemini-2.5-flash (google)",
        "800 to train on, 90 held out",
        "2026-11-20",
        "commit 0123456789ab",
        "at most 120 words",
        "Summarize this document in at",
    ):
        assert fact in body
    done = push("mine", "--repo", "me/early", "--step", "1", store=store, hub=address)
    assert "was in no benchmark" in done.stderr
    text = hub.files["me/early", "README.md"].decode()
    assert "No benchmark of this checkpoint was made. Its held-out accuracy: 60.0%" in text
    assert "trained by GRPO for 1 step." in text
    assert not hub.repos["me/early"]
    push("mine", "--repo", "me/early", "--private", store=store, hub=address)
    assert hub.repos["me/early"], "the weights went to a public repository"


def test_no_path_of_this_machine_goes_up(hub: HubServer, address: str, tmp_path: Path) -> None:
    store = store_with_adapter(tmp_path, base_model_name_or_path=str(tmp_path / "models" / "tiny"))
    store.delete("mine/training.json")
    push("mine", "--repo", "me/mine", store=store, hub=address)
    config = json.loads(hub.files["me/mine", "adapter_config.json"])
    assert config["base_model_name_or_path"] == "tiny"
    assert not any(str(tmp_path).encode() in content for content in hub.files.values())


def test_a_research_licence_is_in_the_card(tmp_path: Path) -> None:
    store = store_with_adapter(tmp_path, {**AS_TRAINED, "documents": "one|two.parquet"})
    found = find_model(store, Reference("mine"))
    text = card.card_of(found, "Qwen/Qwen2.5-3B-Instruct", "me/mine", None)
    metadata = yaml.safe_load(text.split("---\n")[1])
    assert (metadata["license"], metadata["license_name"]) == ("other", "qwen-research")
    assert "allows no commercial use: https://huggingface.co/Qwen/" in text
    assert "https&#58;" not in text, "an address in a table is no link"
    assert "| documents | one&#124;two.parquet, split" in text, "a bar stays in its cell"
    free = card.card_of(found, "Qwen/Qwen2.5-1.5B-Instruct", "me/mine", None)
    assert yaml.safe_load(free.split("---\n")[1])["license"] == "apache-2.0"
    assert "commercial" not in free
    train_policy(store, "small", tmp_path / "trainer")
    small = find_model(store, Reference("small"))
    text = card.card_of(small, card.base_of(small), "me/small", None)
    assert "an extractive policy, which picks sentences" in text


def test_an_agents_card_and_file_for_ollama_speak_of_no_summaries(tmp_path: Path) -> None:
    agent = find_model(store_with_adapter(tmp_path, AN_AGENT), Reference("mine"))
    text = card.card_of(agent, card.base_of(agent), "me/player", None)
    assert "tic_tac_toe.py" in text and "precis play AGENT.py" in text
    for word in ("ummar", "document", "judge"):
        assert word not in text, word
    write_modelfile(tmp_path, "mine.gguf", agent.record)
    assert "SYSTEM" not in (tmp_path / "Modelfile").read_text()


@pytest.mark.parametrize(
    ("repo", "token", "said"),
    [
        ("me/mine", "another", "HF_TOKEN must be a valid token"),
        ("somebody-else/mine", TOKEN, "refuses to write to somebody-else/mine (403)"),
        ("mine", TOKEN, "Write OWNER/NAME"),
        (f"me/{97 * 'a'}", TOKEN, "Write OWNER/NAME"),
        ("me/mine", "", "HF_TOKEN is not set"),
        ("me/mine", f"{TOKEN}\rx", "HF_TOKEN holds characters that no key has"),
    ],
)
def test_a_refusal_is_a_sentence(
    store: FolderStore, hub: HubServer, address: str, repo: str, token: str, said: str
) -> None:
    done = push("mine", "--repo", repo, store=store, hub=address, token=token, code=1)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not hub.files


def test_what_does_not_arrive_is_told(store: FolderStore, hub: HubServer, address: str) -> None:
    hub.takes_objects = False
    done = push("mine", "--repo", "me/mine", store=store, hub=address, code=1)
    assert "Error while uploading 'adapter_model.safetensors'" in done.stderr
    assert not hub.files
    done = push("mine", "--repo", "me/mine", store=store, hub="http://127.0.0.1:1", code=1)
    assert "does not answer" in done.stderr


async def test_a_restricted_licence_is_told_of_before_training_and_fails_nothing() -> None:
    assert "no commercial use" in str(licence_of("unsloth/Qwen2.5-3B-Instruct-unsloth-bnb-4bit"))
    assert licence_of("owner/unheard-of") is None
    assert "train/h100-apache" in restriction_of(ArtTrainer())
    assert "without commercial use" in await check_licence(ArtTrainer())
    free = ArtTrainer(base_model="Qwen/Qwen2.5-1.5B-Instruct")
    assert restriction_of(free) == restriction_of(ExtractiveTrainer()) == ""
    assert await check_licence(free) == "Qwen/Qwen2.5-1.5B-Instruct: apache-2.0"
    assert "not known here" in await check_licence(ArtTrainer(base_model="owner/unheard-of"))
