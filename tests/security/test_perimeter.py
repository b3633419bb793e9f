"""What lies on disk, goes over a network, into an image or to a service, for whom to see."""

import fnmatch
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from cli.serve_prefect import main as serve_prefect
from precis.cleartext import keys_in_clear
from precis.config import BenchmarkConfig, JudgeConfig, ManagedConfig, RunConfig
from precis.environment import private_home
from precis.settings.tinker import TinkerTrainer
from precis.store.folder import FolderStore
from tests.support.repository import README

DEPLOYMENTS = README.parent / "deployments"
UNITS = sorted((DEPLOYMENTS / "systemd").glob("*.service"))
EXPOSURE_MAX = 2.0
"""Of ten, as `systemd-analyze security` counts; the units once had 8.5."""


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_the_home_is_for_its_owner_alone_even_where_it_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: None
) -> None:
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "new"))
    assert mode_of(private_home()) == 0o700
    (tmp_path / "old").mkdir()
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "old"))
    assert mode_of(private_home()) == 0o700


@pytest.mark.parametrize("shared", [0o755, 0o750, 0o2770, 0o700])
def test_a_store_is_as_readable_as_its_root(shared: int, tmp_path: Path, umask: None) -> None:
    root = tmp_path / "store"
    root.mkdir()
    root.chmod(shared)
    os.umask(0o077)  # the units' own
    store = FolderStore(root)
    store.put("m/benchmarks/0003/report.html", b"<h1>")
    store.put_if("m/latest.json", b"{}", None)
    for folder in ("m", "m/benchmarks", "m/benchmarks/0003"):
        assert mode_of(root / folder) & 0o777 == shared & 0o777
    for file in ("m/benchmarks/0003/report.html", "m/latest.json"):
        assert mode_of(root / file) == shared & 0o666


def judged_at(url: str) -> RunConfig:
    return RunConfig(model="m", judge=JudgeConfig(provider="url", model="j", base_url=url))


def trained_at(url: str) -> RunConfig:
    return RunConfig(model="m", trainer=TinkerTrainer(base_url=url))


CONTENDER = {"provider": "url", "model": "c", "base_url": "http://models.example/v1"}
MANAGED = {
    "model": "m",
    "store": "s3://bucket",
    "cluster": {"where": "sky"},
    "prefect_api_url": "http://team.example/api",
}
TINKER = {"TINKER_BASE_URL": "http://10.0.0.7:8000"}
WEAVE = {"WEAVE_PROJECT": "team/m", "WF_TRACE_SERVER_URL": "http://weave.example"}
PLAIN = RunConfig(model="m")
SENT_TO = [
    ("OPENPIPE_API_KEY", "OPENPIPE_BASE_URL"),
    ("LANGFUSE_SECRET_KEY", "LANGFUSE_HOST"),
    ("WANDB_API_KEY", "WANDB_BASE_URL"),
    ("HF_TOKEN", "HF_ENDPOINT"),
    ("PREFECT_API_AUTH_STRING", "PREFECT_API_URL"),
    ("PREFECT_API_KEY", "PREFECT_API_URL"),
]


@pytest.mark.parametrize(
    ("variables", "config", "named"),
    [
        ({"JUDGE_API_KEY": "canary"}, judged_at("http://judge.example/v1"), "JUDGE_API_KEY"),
        ({"JUDGE_API_KEY": "canary"}, judged_at("https://judge.example/v1"), None),
        ({"JUDGE_API_KEY": "canary"}, judged_at("http://127.0.0.1:8000/v1"), None),
        ({"JUDGE_API_KEY": "canary"}, judged_at("http://localhost:8000/v1"), None),
        ({"JUDGE_API_KEY": ""}, judged_at("http://judge.example/v1"), None),
        ({"TINKER_API_KEY": "canary"}, trained_at("http://10.0.0.7:8000"), "TINKER_API_KEY"),
        ({"TINKER_API_KEY": "canary"}, trained_at("http://127.0.0.1:8000"), None),
        ({"TINKER_API_KEY": "canary", **TINKER}, trained_at(""), "TINKER_API_KEY"),
        (
            {"CONTENDER_API_KEY": "canary"},
            BenchmarkConfig.model_validate({"model": "m", "contenders": [CONTENDER]}),
            "CONTENDER_API_KEY goes to http://models.example/v1 in clear",
        ),
        *[({key: "canary"}, ManagedConfig.model_validate(MANAGED), key) for key, _ in SENT_TO[-2:]],
        ({"WANDB_API_KEY": "canary", **WEAVE}, PLAIN, "WANDB_API_KEY goes to http://weave.example"),
        ({"WANDB_API_KEY": "canary", "WANDB_BASE_URL": "http://[no-address"}, PLAIN, None),
        *[({key: "a:canary", to: "http://service.example"}, PLAIN, key) for key, to in SENT_TO],
    ],
)
def test_a_key_that_goes_over_a_network_in_clear_is_named(
    variables: dict[str, str], config: RunConfig, named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("PREFECT_API_URL", "WANDB_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    told = keys_in_clear(config)
    assert [sentence.startswith(str(named)) for sentence in told] == ([True] if named else [])
    assert "canary" not in "".join(told)


def test_a_server_does_not_start_without_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_SERVER_API_AUTH_STRING", raising=False)
    with pytest.raises(typer.Exit) as ended:
        serve_prefect("127.0.0.1", 0)
    assert ended.value.exit_code == 1
    assert "does not start without a password" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("name", "is_a_key"),
    [
        *((".env", True), (".env.local", True), ("sub/.env.production", True)),
        *(("tls.key", True), ("a/b.pem", True), ("id_ed25519", True)),
        *((".env.example", False), ("precis/environment.py", False), ("requirements.lock", False)),
    ],
)
def test_no_key_gets_into_the_image(name: str, is_a_key: bool) -> None:
    assert _is_left_out(name) == is_a_key


def test_nothing_that_git_ignores_gets_into_the_image() -> None:
    for line in (DEPLOYMENTS.parent / ".gitignore").read_text().splitlines():
        assert _is_left_out(line.strip("/")), line


def _is_left_out(name: str) -> bool:
    """As Docker reads the file: the last line that fits decides."""
    out = False
    for line in (DEPLOYMENTS / "Dockerfile.dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        fits = fnmatch.fnmatch(Path(name).name, pattern)
        if fits and not line.startswith("#"):
            out = not line.startswith("!")
    return out


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_keeps_what_it_writes_to_itself_and_is_not_exposed(unit: Path) -> None:
    assert "\nUMask=0077\n" in unit.read_text()
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd is not installed")
    command = ["systemd-analyze", "security", "--offline=true", str(unit)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    exposure = float(told.splitlines()[-1].partition(": ")[2].split()[0])
    assert exposure <= EXPOSURE_MAX, told
