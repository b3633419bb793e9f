"""What is kept of a step: where the service has its weights and its optimizer, and a copy of the
weights. The service takes no weights from elsewhere, so a run goes on from what it has itself.
"""

import asyncio
import tarfile
from pathlib import Path

import httpx
import tinker
from pydantic import Field, ValidationError

from precis.errors import CorruptCheckpoint, TrainerLost
from precis.llm.tls import tls_for
from precis.record import Record
from precis.settings.tinker import KEPT_FILE
from precis.trainer.tinker.service import TinkerService

_ARCHIVE_S = 1200.0
"""The service makes an archive when it is first asked for one."""
_DOWNLOAD_TIMEOUT = httpx.Timeout(60, connect=10)
_PAUSES_S = (1.0, 5.0, 20.0)
"""Before each new try of a download."""


class Kept(Record):
    """Where the service has a step."""

    state: str = Field(pattern=r"^tinker://")
    """Weights and optimizer, to go on from."""
    sampler: str = Field("", pattern=r"^(tinker://.*)?$")
    """Weights alone, to sample from and to copy; empty where they are needed for neither."""
    fresh_optimizer: bool = False
    """Whether to go on without the optimizer's state: what it learned of imitation is of no use to
    reinforcement."""


def checkpoint_folder(model_folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return model_folder / "checkpoints" / f"{step:04d}"


def write_kept(folder: Path, kept: Kept) -> None:
    """Note it in a checkpoint's folder."""
    (folder / KEPT_FILE).write_text(kept.model_dump_json(indent=1), encoding="utf-8")


def read_kept(folder: Path) -> Kept:
    """Where the service has the step of a checkpoint.

    Raises:
        CorruptCheckpoint: the checkpoint does not say so.
    """
    file = folder / KEPT_FILE
    try:
        return Kept.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        raise CorruptCheckpoint(
            f"{file} does not say where the Tinker service has the step: the checkpoint is of "
            "another trainer, or damaged."
        ) from error


async def copy_weights(
    service: TinkerService, client: tinker.ServiceClient, sampler: str, into: Path
) -> None:
    """Copy the weights that the service has under a path into a folder.

    Raises:
        TrainerLost: they can't be had.
    """
    run, _, checkpoint = sampler.removeprefix("tinker://").partition("/")
    rest = client.create_rest_client()
    asked = rest.get_checkpoint_archive_url_async(run, checkpoint)
    archive = await service.ask(f"give the weights of {sampler}", asked, _ARCHIVE_S)
    file = into / ".archive"
    await _download(archive.url, file, sampler)
    try:
        await asyncio.to_thread(_unpack, file, into)
    except tarfile.TarError as error:
        raise TrainerLost(f"The archive of {sampler} can't be unpacked: {error}") from error
    file.unlink()


async def _download(url: str, into: Path, what: str) -> None:
    """Download a file; the address may be signed, so no message quotes it."""
    for pause in (*_PAUSES_S, None):
        try:
            return await _download_once(url, into)
        except httpx.HTTPError as error:
            if pause is None:
                raise TrainerLost(
                    f"The weights of {what} can't be downloaded: {type(error).__name__}."
                ) from None
            await asyncio.sleep(pause)


async def _download_once(url: str, into: Path) -> None:
    async with (
        httpx.AsyncClient(
            timeout=_DOWNLOAD_TIMEOUT, follow_redirects=True, verify=tls_for(url)
        ) as http,
        http.stream("GET", url) as answer,
    ):
        answer.raise_for_status()
        with into.open("wb") as file:
            async for part in answer.aiter_bytes():
                file.write(part)


def _unpack(archive: Path, into: Path) -> None:
    """Unpack an archive; nothing in it gets out of the folder."""
    with tarfile.open(archive) as tar:
        tar.extractall(into, filter="data")
