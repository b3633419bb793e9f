"""A password in an address is in no message, no setting and no reply."""

import pickle
from pathlib import Path

import pytest
from pydantic import ValidationError

from precis.checks import run_checks
from precis.cleartext import keys_in_clear
from precis.commands.terminal import note, say
from precis.config import ContenderConfig, JudgeConfig, ManagedConfig, RunConfig
from precis.errors import ConfigError, ProviderFailed, ProviderRejected, without_passwords
from precis.inference.local_server import list_models
from precis.observe.wandb import unreachable
from precis.settings.problems import problems_in
from precis.store import FolderStore
from tests.security.hostile import hostile, quoting
from tests.support.command import run_precis

PASSWORD = "pa55-w0rd-canary"
ADDRESS = f"http://user:{PASSWORD}@127.0.0.1:1/v1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (ADDRESS, "http://…@127.0.0.1:1/v1"),
        (f"at {ADDRESS!r}.", "at 'http://…@127.0.0.1:1/v1'."),
        ("https://token@host", "https://…@host"),
        ("https://u:p@ss@host/x@y", "https://…@host/x@y"),
        ("s3://bucket/mine@3 of mine@best", "s3://bucket/mine@3 of mine@best"),
        ("http://host:8000, mine@1", "http://host:8000, mine@1"),
    ],
)
def test_user_and_password_are_left_out_of_each_address(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


@pytest.mark.parametrize(
    "error",
    [
        ConfigError(f"No server answers at {ADDRESS}.", f"Give another than {ADDRESS}."),
        ProviderRejected(f"The judge at {ADDRESS} rejects the key.", 401),
        ProviderFailed("rate_limited", f"{ADDRESS} is busy.", 2.5),
    ],
)
def test_no_error_or_output_has_it(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    copy = pickle.loads(pickle.dumps(error))  # for another process
    assert type(copy) is type(error) and vars(copy) == vars(error)
    for one in (error, copy):
        assert PASSWORD not in f"{one} {one!r} {one.args}"
        assert "…@127.0.0.1" in str(one)
    say(f"No server at {ADDRESS}.")
    note(f"mine@1 is asked of the server at {ADDRESS}.")
    assert PASSWORD not in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "command",
    [
        ("summarize", "{file}", "--url", ADDRESS),
        ("summarize", "{file}", "--url", f"http://user:{PASSWORD}/x@127.0.0.1:1/v1"),
        ("summarize", "{file}", "--url", ADDRESS.removeprefix("http://")),
    ],
)  # fmt: skip
def test_no_command_says_it(command: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "story.txt"
    file.write_text('{"question": "Who?", "answer": "Me"}')
    arguments = [argument.format(file=file) for argument in command]
    done = run_precis(*arguments, store=FolderStore(tmp_path / "store"), code=None)
    assert done.exit_code in (1, 2)
    assert done.stderr
    assert PASSWORD not in done.output


def test_no_setting_takes_it() -> None:
    """Settings are parameters of a run, which everybody on the Prefect server can read."""
    managed = {"model": "m", "cluster": {"where": "sky"}, "store": "s3://bucket/prefix",
               "prefect_api_url": ADDRESS}  # fmt: skip
    settings = (
        (JudgeConfig, {"provider": "url", "model": "m", "base_url": ADDRESS}),
        (ContenderConfig, {"provider": "url", "model": "m", "base_url": ADDRESS}),
        (ManagedConfig, managed),
    )
    for kind, given in settings:
        with pytest.raises(ValidationError, match="the address carries a password") as raised:
            kind.model_validate(given)
        assert PASSWORD not in " ".join(problems_in(raised.value))


async def test_no_check_and_no_warning_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers() -> str:
        return f"m at {ADDRESS} answers"

    rows = await run_checks({"judge": answers})
    monkeypatch.setenv("OPENPIPE_API_KEY", "key")
    monkeypatch.setenv("OPENPIPE_BASE_URL", f"http://user:{PASSWORD}@o.example")
    monkeypatch.setenv("WANDB_API_KEY", "key")
    monkeypatch.setenv("WANDB_BASE_URL", f"http://user:{PASSWORD}@127.0.0.1:1")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    warned = keys_in_clear(RunConfig(model="m"))
    assert len(warned) == 1
    said = await unreachable()
    assert said and "W&B can't be reached at http://…@127.0.0.1:1" in said
    assert PASSWORD not in f"{rows} {warned} {said}"


async def test_a_server_that_quotes_it_has_nobody_read_it() -> None:
    answer = quoting(200, lambda _: f'{{"data": [{{"id": "x-{PASSWORD}@1"}}]}}')
    async with hostile(answer) as server:
        url = server.url.replace("http://", f"http://user:{PASSWORD}@")
        assert PASSWORD not in str(await list_models(url, "none"))
