"""How fast a 170 MB adapter goes to an S3 server and comes back, by us and by others.

    python bench/checkpoints.py [--endpoint http://127.0.0.1:8333] [--rounds 3] [--mb 170]

Without an endpoint it starts moto's server in a process of its own. Ours sends SHA-256 checksums,
looks at what arrived, and compares what comes back with its SHA-256. The others verify what they
do by default. They take turns, so that a busy machine is unkind to all; the figures are medians.
"""

import argparse
import hashlib
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import boto3
from botocore.config import Config
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from precis.environment import S3Environment
from precis.run.checkpoints import commit
from precis.store.s3 import S3Store
from precis.store.s3_client import client_for, ensure_bucket

_BUCKET = "precis-bench"
_STEP_S = 10


@dataclass(frozen=True)
class Way:
    """One way to move a file there and back."""

    name: str
    upload: Callable[[Path], object]
    download: Callable[[Path], object]


def ours(settings: S3Environment, digest: str) -> Way:
    store = S3Store(_BUCKET, "ours", settings)

    def download(path: Path) -> None:
        store.download("adapter", path)
        with path.open("rb") as content:
            assert hashlib.file_digest(content, "sha256").hexdigest() == digest

    return Way("ours, verified", lambda path: store.upload(path, "adapter"), download)


def plain_boto3(url: str) -> Way:
    client = boto3.client("s3", endpoint_url=url, config=Config(s3={"addressing_style": "path"}))
    return Way(
        "boto3 upload_file",
        lambda path: client.upload_file(str(path), _BUCKET, "boto3"),
        lambda path: client.download_file(_BUCKET, "boto3", str(path)),
    )


def command(name: str, *start: str) -> Way:
    """A command line that copies from its first argument to its second."""
    there = f"s3://{_BUCKET}/{name}"
    return Way(
        f"{name} cp",
        lambda path: _run(name, *start, str(path), there),
        lambda path: _run(name, *start, there, str(path)),
    )


def commands(url: str) -> list[Way]:
    """The command lines that are installed."""
    known = {
        "s5cmd": ("--endpoint-url", url, "cp"),
        "aws": ("--endpoint-url", url, "s3", "cp", "--quiet"),
    }
    return [command(name, *start) for name, start in known.items() if shutil.which(name)]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)


@contextmanager
def server(endpoint: str | None) -> Iterator[str]:
    """The URL of the server to measure against."""
    if endpoint:
        yield endpoint
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("moto's server did not start within 30 s.")


def timed(act: Callable[[Path], object], path: Path) -> float:
    begun = time.perf_counter()
    act(path)
    return time.perf_counter() - begun


def race(ways: list[Way], source: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Median seconds up and down by name; the first round only warms up."""
    times: dict[str, list[tuple[float, float]]] = {way.name: [] for way in ways}
    for number in range(rounds + 1):
        for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
            back = source.with_name("back")
            pair = (timed(way.upload, source), timed(way.download, back))
            assert back.stat().st_size == source.stat().st_size
            back.unlink()
            if number:
                times[way.name].append(pair)
    medians = {}
    for name, all_ in times.items():
        medians[name] = (
            statistics.median(up for up, _ in all_),
            statistics.median(dn for _, dn in all_),
        )
    return medians


def commit_seconds(settings: S3Environment, folder: Path) -> tuple[float, float]:
    """Wall and processor seconds of one commit: hashes, upload, manifest, pointer."""
    store = S3Store(_BUCKET, "commits", settings)
    wall = time.perf_counter()
    cpu = time.process_time()
    commit(store, "m", 1, folder, "digest")
    return time.perf_counter() - wall, time.process_time() - cpu


def show(times: dict[str, tuple[float, float]], megabytes: int, console: Console) -> None:
    table = Table(title=f"{megabytes} MB to the S3 server and back (medians)")
    for column in ("", "up s", "MB/s", "of fastest", "down s", "MB/s", "of fastest"):
        table.add_column(column, justify="right" if column else "left")
    fastest = [min(pair[way] for pair in times.values()) for way in (0, 1)]
    for name, pair in times.items():
        cells = [
            cell
            for best, seconds in zip(fastest, pair, strict=True)
            for cell in (f"{seconds:.2f}", f"{megabytes / seconds:.0f}", f"{best / seconds:.2f}×")
        ]
        table.add_row(name, *cells)
    console.print(table)


def measure(url: str, megabytes: int, rounds: int, folder: Path, console: Console) -> None:
    """Race all ways against one server, then time a commit."""
    settings = S3Environment(
        aws_access_key_id=SecretStr(os.environ["AWS_ACCESS_KEY_ID"]),
        aws_secret_access_key=SecretStr(os.environ["AWS_SECRET_ACCESS_KEY"]),
        aws_endpoint_url=url,
    )
    ensure_bucket(client_for(settings), _BUCKET, settings)
    adapter = folder / "checkpoint" / "adapter_model.safetensors"
    digest = make_adapter(adapter, megabytes)
    raced = folder / "adapter"
    os.link(adapter, raced)
    ways = [ours(settings, digest), plain_boto3(url), *commands(url)]
    show(race(ways, raced, rounds), megabytes, console)
    wall, cpu = commit_seconds(settings, adapter.parent)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(
        f"A commit takes {wall:.2f} s ({cpu:.2f} s of processor time): {wall / _STEP_S:.0%} of a "
        f"step of {_STEP_S} s that waits for it, {cpu / _STEP_S:.1%} of one core beside a step "
        f"that does not. Peak memory {peak:.0f} MiB."
    )


def make_adapter(path: Path, megabytes: int) -> str:
    """Write random bytes, a megabyte at a time; returns their SHA-256."""
    path.parent.mkdir()
    digest = hashlib.sha256()
    with path.open("wb") as adapter:
        for _ in range(megabytes):
            piece = os.urandom(1_000_000)
            digest.update(piece)
            adapter.write(piece)
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mb", type=int, default=170)
    arguments = parser.parse_args()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ.setdefault(name, "bench")
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    with server(arguments.endpoint) as url, TemporaryDirectory() as temporary:
        measure(url, arguments.mb, arguments.rounds, Path(temporary), Console())


if __name__ == "__main__":
    main()
