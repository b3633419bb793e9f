"""The packages of a GPU's machine, which can't run here: that they resolve, and fit our side.

ART's release there is another one than here (see `pyproject.toml`), so what we override, call and
send over the wire is compared with that release's own source.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from precis.settings.trainer import ArtTrainer
from tests.services.conftest import ROOT
from tests.services.gpu_lock import LOCK, OVERRIDES, RUN, fetch, normal, pins, resolve
from tests.services.patience import patience_s

_ROUND_TRIP = """
import precis  # before ART, which otherwise imports litellm as well
import art
from openai.types.chat.chat_completion import Choice
from precis.trainer.protocol import decode_groups, digest_of, encode_groups

choice = Choice(finish_reason="stop", index=0, message={"role": "assistant", "content": "Yes."})
one = art.Trajectory(messages_and_choices=[{"role": "user", "content": "?"}, choice], reward=0.5)
groups = [art.TrajectoryGroup([one])]
encoded = encode_groups(groups)
decoded = decode_groups(encoded)
assert isinstance(decoded[0].trajectories[0].messages_and_choices[1], Choice)
assert digest_of(encode_groups(decoded)) == digest_of(encoded)
print(art.__file__)
"""

_IMPORTED = """
import sys
import precis  # before ART, which otherwise imports litellm as well
import art
of_art = set(sys.modules)
import precis.store.s3, precis.trainer.server
from importlib.metadata import packages_distributions
distributions = packages_distributions()
for module in {name.partition(".")[0] for name in set(sys.modules) - of_art}:
    print(*distributions.get(module, []))
"""

_TAKEN_WHERE_THERE = {"pyopenssl", "bcrypt", "orjson", "backports-zstd"}
"""What botocore, cryptography, FastAPI and urllib3 use where they are installed, and do without
elsewhere; here they are for others."""


@pytest.fixture(scope="module")
def art_there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ART as it is on the GPU's machine, without what it needs."""
    folder = tmp_path_factory.mktemp("art")
    return fetch(folder, f"openpipe-art=={pins(LOCK)['openpipe-art']}")


Resolved = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def resolved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resolved]:
    """What uv says of the lock, with all overrides or without one: it waits for the index, so all
    are asked for at once."""
    folder = tmp_path_factory.mktemp("resolved")

    def resolve_without(name: str) -> "subprocess.CompletedProcess[str]":
        lock = folder / f"lock{name}.txt"
        lock.write_text(LOCK.read_text())
        overrides = folder / f"overrides{name}.txt"
        lines = OVERRIDES.read_text().splitlines()
        overrides.write_text(
            "\n".join(one for one in lines if not name or not one.startswith(name))
        )
        done = resolve(lock, overrides)
        assert done.returncode or name or pins(lock) == pins(LOCK)
        return done

    with ThreadPoolExecutor() as threads:
        names = ["", *pins(OVERRIDES)]
        asked = {name: threads.submit(resolve_without, name) for name in names}
        yield lambda name: asked[name].result()


@pytest.mark.long  # half a minute of the index; run it when a lock changes
def test_the_packages_resolve_for_a_gpu_machine_as_they_are_locked(resolved: Resolved) -> None:
    done = resolved("")
    assert done.returncode == 0, done.stderr


def test_the_lock_is_what_was_run_on_a_gpu() -> None:
    locked = pins(LOCK)
    was_run = pins(RUN)
    assert {name: locked[name] for name in was_run} == was_run


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(pins(OVERRIDES)))
def test_nothing_is_overridden_without_need(name: str, resolved: Resolved) -> None:
    done = resolved(name)
    assert done.returncode != 0
    assert name in done.stderr


def test_what_we_override_and_call_is_there(art_there: Path) -> None:
    backend = methods(art_there / "art/local/backend.py", "LocalBackend")
    assert backend["_prepare_backend_for_training"] == ["self", "model", "config"]
    assert backend["_monitor_openai_server"] == ["self", "model", "base_url", "api_key"]
    assert backend["_get_service"] == ["self", "model"]
    assert backend["_train_model"][:5] == [
        *("self", "model", "trajectory_groups", "config", "dev_config")
    ]
    assert {"_get_step", "_model_inference_name"} <= set(backend)
    ours = {"warmup_steps", "trajectories_per_update", "weighting"}
    trainer = ArtTrainer(epsilon=0.2, epsilon_high=0.3)
    assert set(trainer.options) - ours <= set(backend["train"])
    tokenizing = parameters(art_there / "art/preprocessing/tokenize.py")
    assert tokenizing["tokenize_trajectory_groups"][:5] == [
        *("tokenizer", "trajectory_groups", "allow_training_without_logprobs"),
        *("scale_rewards", "shuffle_group_trajectories"),
    ]
    assert parameters(art_there / "art/loss.py")["loss_fn"] == [
        *("inputs", "new_logprobs", "ref_logprobs", "entropies", "experimental_config")
    ]
    assert parameters(art_there / "art/vllm/server.py")["openai_server_task"] == [
        *("engine", "config")
    ]
    proxies = functions(art_there / "mp_actors/__init__.py")
    assert {"close_proxy", "move_to_child_process"} <= proxies


def test_arts_process_of_a_name_that_it_kills_is_never_ours(art_there: Path) -> None:
    source = (art_there / "art/local/backend.py").read_text()
    assert 'subprocess.run(["pkill", "-9", "model-service"])' in source
    assert '"model-service"' not in (ROOT / "precis/trainer/gpu/backend.py").read_text()
    assert "self._process = mp.Process(" in (art_there / "mp_actors/move.py").read_text()


def test_the_server_settings_are_ones_that_art_knows(art_there: Path) -> None:
    server = fields(art_there / "art/dev/openai_server.py", "ServerArgs")
    assert {"host", "port", "api_key"} <= server


def test_rollouts_reach_that_release_as_they_were_sent(art_there: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(art_there)}
    environment["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    command = [sys.executable, "-c", _ROUND_TRIP]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=patience_s()
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(art_there))


def test_the_trainer_needs_no_package_that_is_not_locked() -> None:
    command = [sys.executable, "-c", _IMPORTED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patience_s())
    assert done.returncode == 0, done.stderr
    locked = set(pins(LOCK))
    imported = set(map(normal, done.stdout.split())) - {"precis"}
    assert "boto3" in imported
    assert imported - _TAKEN_WHERE_THERE <= locked


def methods(source: Path, name: str) -> dict[str, list[str]]:
    """The parameters of a class's methods."""
    return {
        one.name: [argument.arg for argument in (*one.args.args, *one.args.kwonlyargs)]
        for one in class_in(source, name).body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def parameters(source: Path) -> dict[str, list[str]]:
    """The parameters of a module's functions."""
    return {
        one.name: [argument.arg for argument in (*one.args.args, *one.args.kwonlyargs)]
        for one in ast.parse(source.read_text()).body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def fields(source: Path, name: str) -> set[str]:
    """The keys of a typed dictionary."""
    body = class_in(source, name).body
    return {
        one.target.id
        for one in body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }


def functions(source: Path) -> set[str]:
    """What a module imports or defines."""
    tree = ast.parse(source.read_text())
    imported = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {alias.name for node in imported for alias in node.names}


def class_in(source: Path, name: str) -> ast.ClassDef:
    tree = ast.parse(source.read_text())
    (found,) = (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)
    return found
