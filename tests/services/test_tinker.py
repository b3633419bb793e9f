"""The Tinker API behind our trainer: the service's real client, against a server that learns."""

import asyncio
import json
import logging
import statistics
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import art
import openai
import pytest
from openai.types.chat.chat_completion import Choice
from starlette.responses import PlainTextResponse

from precis.errors import ConfigError, TrainerError, TrainerLost
from precis.records.ledger import SERVICE_USD
from precis.runs.checkpoints import restore
from precis.settings.tinker import TinkerTrainer
from precis.store import FolderStore
from precis.trainer.client import RemoteTrainer
from precis.trainer.protocol import StoredModel
from precis.trainer.tinker import checkpoints
from precis.trainer.tinker.backend import TinkerBackend
from precis.trainer.tinker.check import check_service
from precis.trainer.tinker.checkpoints import read_kept
from precis.trainer.tinker.model import TinkerSession
from precis.trainer.tinker.service import find_service
from precis.trainer.tinker.tokenizer import load_tokenizer, read_calls
from tests.services.patience import patience_s, until
from tests.support.local_server import served, serving
from tests.support.policies import SAMPLED, sampled_choice
from tests.support.tinker_policy import CopyingPolicy
from tests.support.tinker_server import BASE_MODEL, KEY, Fault, TinkerServer
from tests.support.tokenizers import TEMPLATE_WITH_TOOLS, write_chat_tokenizer
from tests.support.trainers import Model, Trained, complete, trainer_of

# The service's client leaves some of its connections to the garbage collector.
pytestmark = [
    pytest.mark.services,
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings(
        "ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

RATE = 0.5
END = 1
PROMPT = "".join(chr(ord("a") + part) * 12 for part in range(10))
"""Ten parts of one letter each; the chat template adds little."""
CELL = {"type": "object", "properties": {"cell": {"enum": [4, 5]}}, "required": ["cell"]}
PLAY: Any = {"type": "function", "function": {"name": "play", "parameters": CELL}}
REWARDED = ("ggg", "hhh", "iii", "jjj")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> TinkerServer:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    return TinkerServer(END)


@pytest.fixture
async def address(service: TinkerServer) -> AsyncIterator[str]:
    async with serving(service.app()) as url:
        yield url


def settings_for(address: str, tokenizer: Path, **given: Any) -> TinkerTrainer:
    return TinkerTrainer(
        base_url=address,
        base_model=BASE_MODEL,
        tokenizer=str(tokenizer),
        learning_rate=RATE,
        trajectories_per_update=4,
        **given,
    )


def model_of(settings: TinkerTrainer) -> Model:
    return art.TrainableModel(
        name="m",
        project="p",
        base_model=settings.base_model,
        report_metrics=[],
        _internal_config=settings.internal_config,  # type: ignore[arg-type]
    )


@pytest.fixture
async def trainer(tmp_path: Path) -> AsyncIterator[RemoteTrainer]:
    async with trainer_of(TinkerBackend(tmp_path / "trainer"), tmp_path) as client:
        yield client


@pytest.fixture
def make(address: str, tokenizer: Path) -> Callable[..., Model]:
    """Makes a model with some settings at the service."""

    def make_model(tokenizer: Path = tokenizer, **given: Any) -> Model:
        return model_of(settings_for(address, tokenizer, **given))

    return make_model


def is_rewarded(choice: Choice) -> bool:
    return any(letters in (choice.message.content or "") for letters in REWARDED)


class Run(Trained):
    """A model that is trained at the service, on what it samples there."""

    async def write(self, step: int, seed: int | None = None) -> Choice:
        """One answer of a step: greedy without a seed."""
        options: dict[str, Any] = {"temperature": 0.0}
        if seed is not None:
            options = {"temperature": 1.0, "seed": seed, **SAMPLED}
        answer = await complete(
            self.model,
            model=self.model.get_inference_name(step),
            messages=[{"role": "user", "content": PROMPT}],
            max_tokens=200,
            **options,
        )
        choice: Choice = answer.choices[0]
        return choice if seed is None else sampled_choice(answer)

    async def sample(self, step: int) -> art.TrajectoryGroup:
        """Answers of a step; one that copies a letter of the end earns all there is."""
        trajectories = []
        for seed in range(8):
            choice = await self.write(step, seed)
            asked: list[Any] = [{"role": "user", "content": PROMPT}, choice]
            reward = float(is_rewarded(choice))
            trajectories.append(art.Trajectory(messages_and_choices=asked, reward=reward))
        return art.TrajectoryGroup(trajectories)

    async def train_step(
        self, step: int, group: art.TrajectoryGroup | None = None, **options: Any
    ) -> Any:
        """Train a step on a group, or on what it samples."""
        group = group or await self.sample(step)
        return await self.trainer.train(self.model, [group], step=step, run="a-run", **options)


@pytest.fixture
async def run(trainer: RemoteTrainer, make: Callable[..., Model]) -> Run:
    run = Run(trainer, make())
    await run.begin()
    return run


def newest(service: TinkerServer, name: str) -> list[float]:
    """What the service has saved last under a name, whichever model saved it."""
    paths = [path for path in service.saved if path.endswith(f"/weights/{name}")]
    logits: list[float] = service.saved[paths[-1]].logits.tolist()
    return logits


@pytest.fixture(scope="module")
def undisturbed(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """What two steps come to where nothing goes wrong."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TINKER_API_KEY", KEY)
        return asyncio.run(train_undisturbed(tokenizer, tmp_path_factory.mktemp("undisturbed")))


async def train_undisturbed(tokenizer: Path, folder: Path) -> list[float]:
    service = TinkerServer(END)
    backend = TinkerBackend(folder / "trainer")
    async with serving(service.app()) as address, trainer_of(backend, folder) as trainer:
        run = Run(trainer, model_of(settings_for(address, tokenizer)))
        await run.begin()
        for step in range(2):
            await run.train_step(step)
    return newest(service, "0002")


async def test_the_model_learns_what_is_rewarded_and_its_checkpoint_has_the_weights(
    service: TinkerServer, run: Run, tmp_path: Path
) -> None:
    assert not is_rewarded(await run.write(0))
    for step in range(3):
        result = await run.train_step(step)
        assert result.step == step + 1
        assert result.metrics["offpolicy/logprob_gap"] < 1e-6
    assert is_rewarded(await run.write(3))
    store = FolderStore(tmp_path / "store")
    checkpoint = await run.trainer.commit(
        run.model, 3, StoredModel(store=store.url, name="m", config="d")
    )
    names = [file.path for file in checkpoint.files]
    assert names == ["adapter_config.json", "adapter_model.json", "metrics.json", "tinker.json"]
    restore(store, "m", 3, tmp_path / "restored")
    weights = json.loads((tmp_path / "restored" / "adapter_model.json").read_text())
    kept = read_kept(tmp_path / "restored")
    assert weights == service.saved[kept.state].logits.tolist()
    assert weights == service.saved[kept.sampler].logits.tolist()


async def test_what_was_sampled_is_exactly_what_is_learned(service: TinkerServer, run: Run) -> None:
    group = await run.sample(0)
    await run.train_step(0, group, trajectories_per_update=8)
    (learned,) = service.learned
    assert learned["loss_fn"] == "importance_sampling" and not learned.get("loss_fn_config")
    sampled: list[tuple[list[int], Any]] = []
    for trajectory in group.trajectories:
        choice: Any = trajectory.messages_and_choices[-1]
        sampled.append((choice.token_ids, choice.token_logprobs))
    total = 0.0
    for datum in learned["data"]:
        read = [id for chunk in datum["model_input"]["chunks"] for id in chunk["tokens"]]
        inputs = {name: one["data"] for name, one in datum["loss_fn_inputs"].items()}
        begin_at = next(at for at, value in enumerate(inputs["advantages"]) if value)
        answer = inputs["target_tokens"][begin_at:]
        assert read[begin_at + 1 :] == answer[:-1]
        same = [logprobs for tokens, logprobs in sampled if tokens == answer]
        assert inputs["logprobs"][begin_at:] == pytest.approx(same[0])
        assert set(inputs["logprobs"][:begin_at]) == {0.0}
        total += sum(inputs["advantages"])
    rewards = [one.reward for one in group.trajectories]
    mean, spread = statistics.fmean(rewards), statistics.pstdev(rewards)
    expected = 0.0
    for (tokens, _), reward in zip(sampled, rewards, strict=True):
        expected += len(tokens) * (reward - mean) / (spread + 1e-6)
    expected /= sum(len(tokens) for tokens, _ in sampled)
    assert total == pytest.approx(expected, abs=1e-6)
    assert service.moved == [next(iter(service.models))]


async def test_an_archive_of_weights_that_is_cut_is_downloaded_again(
    service: TinkerServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_PAUSES_S", (0.0,))
    service.faults.append(Fault("archives", "cut"))
    await run.begin()
    names = [file.path for file in (await run.trainer.state(run.model)).checkpoints[0]]
    assert "adapter_model.json" in names
    assert not service.faults
    group = await run.sample(0)
    service.faults.extend([Fault("archives", "cut")] * 2)
    with pytest.raises(TrainerLost, match=r"archive of tinker://.* can't be had: it is cut"):
        await run.train_step(0, group)


REQUESTS = ("asample", "forward_backward", "retrieve_future", "optim_step", "save_weights")
"""In the order in which the first of each comes in a step; the futures are those of the update."""


@pytest.mark.long  # the client waits between its tries
@pytest.mark.parametrize(
    ("kind", "status"), [("refuse", 503), ("refuse", 429), ("cut", 0), ("lose", 0)]
)
async def test_a_fault_of_each_request_changes_nothing_of_what_is_learned(
    service: TinkerServer, run: Run, undisturbed: list[float], kind: Any, status: int
) -> None:
    service.faults.extend(Fault(path, kind, status) for path in REQUESTS)
    for step in range(2):
        await run.train_step(step)
    assert not service.faults
    assert newest(service, "0002") == undisturbed
    assert len(service.moved) == 4
    assert len(set(service.moved)) == 1


@pytest.mark.parametrize("path", ["forward_backward", "optim_step", "save_weights"])
async def test_a_service_that_restarts_trains_a_step_once_and_is_sampled_from_in_a_new_session(
    service: TinkerServer, run: Run, undisturbed: list[float], path: str
) -> None:
    await run.train_step(0)
    group = await run.sample(1)
    service.faults.append(Fault(path, "restart"))
    with pytest.raises(TrainerLost, match="The Tinker service at"):
        await run.train_step(1, group)
    assert (await run.trainer.state(run.model)).checkpoints.keys() == {0, 1}
    result = await run.train_step(1, group)
    assert result.step == 2
    assert newest(service, "0002") == undisturbed
    (survivor,) = service.models.values()
    assert survivor.policy.adam.count == 4  # two of the step before

    before = await run.write(2, seed=5)
    sessions = service.asked.count("create_session")
    service.faults.append(Fault("asample", "restart"))
    assert await run.write(2, seed=5) == before
    assert service.asked.count("create_session") == sessions + 1


async def test_nobody_waits_in_a_session_that_was_left(
    service: TinkerServer, address: str, tokenizer: Path
) -> None:
    """As the others do where one finds the session lost: the client would try for minutes."""
    settings = settings_for(address, tokenizer)
    found = find_service(settings)
    session = TinkerSession(found, await found.connect(), settings)
    service.withholds = True
    waiting = asyncio.create_task(session.begin_model(seed=0))
    await until(lambda: "retrieve_future" in service.asked, "the client's question for the model")
    await session.close()
    async with asyncio.timeout(patience_s()):
        with pytest.raises(TrainerLost, match="the session has ended"):
            await waiting


async def test_weights_that_the_service_lost_are_named(service: TinkerServer, run: Run) -> None:
    group = await run.sample(0)
    service.faults.append(Fault("forward_backward", "restart"))
    with pytest.raises(TrainerLost):
        await run.train_step(0, group)
    service.saved.clear()
    with pytest.raises(TrainerError, match=r"continue from tinker://.*no longer has.*runs restart"):
        await run.train_step(0, group)


async def test_a_refusal_in_many_lines_is_one_line_here(
    service: TinkerServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await run.sample(0)

    def refuse(*_: Any) -> None:
        raise ValueError("The loss\n  has no\n\ntargets.")

    monkeypatch.setattr(CopyingPolicy, "learn", refuse)
    with pytest.raises(TrainerError, match=r"refuses to train: .*The loss has no targets\. "):
        await run.train_step(0, group)


async def test_the_key_is_said_to_nobody(
    service: TinkerServer,
    trainer: RemoteTrainer,
    make: Callable[..., Model],
    capfd: pytest.CaptureFixture[str],
) -> None:
    service.faults.append(Fault("forward_backward", "refuse"))  # which quotes the key
    run = Run(trainer, make())
    await run.begin()
    await run.train_step(0)
    logging.getLogger("tinker.anywhere").warning("The server says: %s is busy.", KEY)
    said = "".join(capfd.readouterr())
    assert "is busy" in said
    assert KEY not in said


async def test_a_warm_start_has_an_optimizer_of_its_own(service: TinkerServer, run: Run) -> None:
    group = await run.sample(0)
    good = [one for one in group.trajectories if one.reward]
    await run.trainer.train_sft(
        run.model, good, step=0, run="a-run", batch_size=2, learning_rates=[0.1] * 3
    )
    assert {learned["loss_fn"] for learned in service.learned} == {"cross_entropy"}
    weights = service.learned[0]["data"][0]["loss_fn_inputs"]["weights"]["data"]
    shown: Any = good[0].messages_and_choices[-1]
    assert sum(map(bool, weights)) == len(shown.token_ids)
    assert len(service.moved) == 3
    assert is_rewarded(await run.write(1))
    await run.train_step(1)
    (reinforced,) = [one for name, one in service.models.items() if name == service.moved[-1]]
    assert reinforced.policy.adam.count == 2


async def test_skyrl_is_sampled_from_by_the_model_of_the_step(
    tokenizer: Path, trainer: RemoteTrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    service = TinkerServer(END, only_newest=True)
    service.key = "tml-none"
    async with serving(service.app()) as address:
        settings = settings_for(address, tokenizer, service="skyrl", copy_weights=False)
        run = Run(trainer, model_of(settings))
        await run.begin()
        first = await run.write(0)
        for step in range(3):
            await run.train_step(step)
        assert is_rewarded(await run.write(3))
        assert (await run.write(0)).message == first.message


async def test_a_step_without_advantages_moves_nothing(service: TinkerServer, run: Run) -> None:
    group = await run.sample(0)
    for trajectory in group.trajectories:
        trajectory.reward = 1.0
    result = await run.train_step(0, group)
    assert result.step == 1
    assert service.moved == []
    await run.train_step(1)
    assert len(set(service.moved)) == 1
    assert len(service.created) == 1, "the model that was there was loaded anew"


async def test_what_the_service_charges_is_a_metric_of_the_step(
    service: TinkerServer, trainer: RemoteTrainer, make: Callable[..., Model]
) -> None:
    run = Run(trainer, make(prices=(1.0, 10.0, 100.0)))
    await run.begin()
    for step in range(2):
        metrics = (await run.train_step(step)).metrics
        advantages = service.learned[-1]["data"][0]["loss_fn_inputs"]["advantages"]["data"]
        prompt_tokens = next(at for at, value in enumerate(advantages) if value) + 1
        read = metrics["data/step_read_tokens"]
        assert read == 8 * prompt_tokens
        expected = read + 10 * metrics["data/step_sampled_tokens"]
        expected += 100 * metrics["data/step_forward_tokens"]
        assert metrics[SERVICE_USD] == pytest.approx(expected / 1e6)


async def test_a_document_that_is_too_long_is_refused_before_the_service_is_asked(
    service: TinkerServer, run: Run, make: Callable[..., Model]
) -> None:
    model = make(tokens_max=512)
    await Run(run.trainer, model).begin()  # a run of the same name, with another limit
    with pytest.raises(openai.BadRequestError, match=r"trainer\.tokens_max, 512"):
        await complete(
            model, model="m@0", messages=[{"role": "user", "content": "a" * 400}], max_tokens=200
        )
    with pytest.raises(openai.BadRequestError, match="with the 1 of the answer more than"):
        await complete(model, model="m@0", messages=[{"role": "user", "content": "a" * 600}])
    assert "asample" not in service.asked


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ({"base_model": "no/model"}, KEY, "not serve no/model; it has copying/model. Name one"),
        ({"tokenizer": "/no/folder"}, KEY, r"tokenizer of '/no/folder' can't be loaded.*Name one"),
        ({}, "tml-another-key", "refuses TINKER_API_KEY .*Set a valid key"),
        ({"base_url": "http://127.0.0.1:9"}, KEY, "does not answer .*whether it is up"),
    ],
)
async def test_preflight_says_what_stands_in_the_way(
    service: TinkerServer, address: str, tokenizer: Path, given: Any, key: str, said: str
) -> None:
    settings = settings_for(address, tokenizer)
    assert BASE_MODEL in await check_service(settings)
    service.key = key
    unfit = settings.model_copy(update=given)
    kind = TrainerLost if "base_url" in given else ConfigError
    with pytest.raises(kind, match=said) as raised:
        await check_service(unfit)
    assert KEY not in str(raised.value)
    assert service.asked.count("create_session") == 0


GIVES_UP = """
import asyncio
from precis.trainer.tinker import check
from precis.settings.tinker import TinkerTrainer

check._DEADLINE_S = 1.0
asyncio.run(check.check_service(TinkerTrainer(base_url="{address}")))
"""


def test_a_preflight_that_gives_up_lets_its_process_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of the service blocks on, with its tries, for five minutes."""
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    with served(PlainTextResponse("Starting.", 503)) as address:
        program = [sys.executable, "-c", GIVES_UP.format(address=address)]
        ended = subprocess.run(program, capture_output=True, text=True, timeout=patience_s())
    assert "did not say what it serves within 1 s" in ended.stderr


@pytest.fixture
def player(make: Callable[..., Model], tmp_path: Path) -> Model:
    """A model whose chat template has tools."""
    return make(write_chat_tokenizer(tmp_path / "with_tools", TEMPLATE_WITH_TOOLS))


async def ask_with_tools(model: Model, messages: list[Any], **options: Any) -> Any:
    given = {**SAMPLED, **options}
    return await complete(
        model, model=model.get_inference_name(0), messages=messages, tools=[PLAY], seed=1, **given
    )


async def test_an_agent_calls_tools_and_its_next_prompt_continues_what_was_sampled(
    trainer: RemoteTrainer, player: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Run(trainer, player).begin()
    tokenizer = load_tokenizer(str(tmp_path / "with_tools"))
    written = 'I take it.\n<tool_call>\n{"name": "play", "arguments": {"cell": 5}}\n</tool_call>'
    ids = [*tokenizer(written)["input_ids"], END]
    monkeypatch.setattr(CopyingPolicy, "sample", lambda *_: (ids, [-0.5] * len(ids)))
    messages: list[Any] = [{"role": "user", "content": "1 2 3"}]
    first = await ask_with_tools(player, messages)
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content == "I take it."
    (call,) = choice.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("play", {"cell": 5})
    assert "<tools>" in tokenizer.decode(first.prompt_token_ids)

    result = {"role": "tool", "tool_call_id": call.id, "content": "x 2 3"}
    messages += [choice.message.model_dump(exclude_none=True), result]
    second = await ask_with_tools(player, messages)
    so_far = [*first.prompt_token_ids, *choice.token_ids]
    assert second.prompt_token_ids[: len(so_far)] == so_far
    (again,) = second.choices[0].message.tool_calls
    assert again.id != call.id

    uncalled = await ask_with_tools(player, messages[:1], tool_choice="none")
    said = uncalled.choices[0].message
    assert (said.tool_calls, said.content) == (None, written)
    assert "<tools>" not in tokenizer.decode(uncalled.prompt_token_ids)


async def test_what_a_chat_template_cannot_write_is_refused(run: Run, player: Model) -> None:
    with pytest.raises(openai.BadRequestError, match="writes no calls of tools in Hermes' form"):
        await ask_with_tools(run.model, [{"role": "user", "content": "1 2 3"}])
    await Run(run.trainer, player).begin()
    picture = [{"type": "image_url", "image_url": {"url": "data:,"}}]
    with pytest.raises(openai.BadRequestError, match="can't write these messages: KeyError"):
        await ask_with_tools(player, [{"role": "user", "content": picture}])


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>not JSON</tool_call>",
        '<tool_call>{"name": "play"}</tool_call>',
        "<tool_call>[1]</tool_call>",
        '<tool_call>{"name": "play", "arguments": ["\\ud800"]}</tool_call>',
        '<tool_call>{"name": "play", "arguments": ' + "[" * 100_000,
    ],
)
def test_a_call_that_cannot_be_read_is_text_of_the_answer(text: str) -> None:
    assert read_calls(text, 1) == (text, [])
