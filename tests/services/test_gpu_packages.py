"""The packages of a GPU's machine, which can't run here: that they resolve, and fit our side.

ART's release there is another one than here (see `pyproject.toml`), and has to read what we send
over the wire. What else we use of it is tried by tests/gpu: the lock is not changed without them.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.services.conftest import ROOT
from tests.services.patience import patience_s

LOCK = ROOT / "requirements-gpu.lock"
OVERRIDES = ROOT / "requirements-gpu-overrides.txt"
RUN = ROOT / "requirements-gpu-run.txt"
MACHINE = ("--python-version", "3.12", "--python-platform", "x86_64-manylinux_2_35")
"""vLLM's wheel wants glibc 2.35."""
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)

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

Done = subprocess.CompletedProcess[str]


def run(*command: str, **environment: str) -> Done:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=patience_s(),
    )


def uv(*arguments: str) -> Done:
    return run(str(Path(sys.executable).with_name("uv")), "pip", *arguments)


def pins(file: Path) -> dict[str, str]:
    """The release of each package that a file pins, by the name that the index compares."""
    return {normal(name): release for name, release in _PIN.findall(file.read_text())}


def normal(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.long  # half a minute of the index; run it when a lock changes
def test_the_locked_packages_resolve_and_no_override_is_needless(tmp_path: Path) -> None:
    def resolve_without(name: str) -> Done:
        """Ask uv as `make lock` does, with all overrides or without one."""
        lock = tmp_path / f"lock{name}.txt"
        lock.write_text(LOCK.read_text())
        overrides = tmp_path / f"overrides{name}.txt"
        lines = OVERRIDES.read_text().splitlines()
        overrides.write_text(
            "\n".join(one for one in lines if not name or not one.startswith(name))
        )
        held = ("--constraint", str(RUN), "--overrides", str(overrides))
        asked = ("compile", "--quiet", "--group", "gpu", *MACHINE, *held)
        return uv(*asked, "--output-file", str(lock))

    overridden = sorted(pins(OVERRIDES))
    with ThreadPoolExecutor() as threads:  # it waits for the index
        resolved, *refused = threads.map(resolve_without, ["", *overridden])
    assert resolved.returncode == 0, resolved.stderr
    assert pins(tmp_path / "lock.txt") == pins(LOCK)
    for name, done in zip(overridden, refused, strict=True):
        assert done.returncode != 0, name
        assert name in done.stderr


def test_the_lock_is_what_was_run_on_a_gpu() -> None:
    locked = pins(LOCK)
    was_run = pins(RUN)
    assert {name: locked[name] for name in was_run} == was_run


def test_rollouts_reach_that_release_as_they_were_sent(tmp_path: Path) -> None:
    there = ("--python", sys.executable, "--no-deps", "--only-binary", ":all:", *MACHINE)
    art = f"openpipe-art=={pins(LOCK)['openpipe-art']}"
    fetched = uv("install", "--quiet", *there, "--target", str(tmp_path), art)
    assert fetched.returncode == 0, fetched.stderr
    variables = {"PYTHONPATH": str(tmp_path), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    done = run(sys.executable, "-c", _ROUND_TRIP, **variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


def test_the_trainer_needs_no_package_that_is_not_locked() -> None:
    done = run(sys.executable, "-c", _IMPORTED)
    assert done.returncode == 0, done.stderr
    imported = set(map(normal, done.stdout.split())) - {"precis"}
    assert "boto3" in imported
    assert imported - _TAKEN_WHERE_THERE <= set(pins(LOCK))
