"""The kept parts of a step: where the service has its weights and its optimizer, and a copy of the
weights. The service takes no weights from elsewhere, so a run continues from what it has itself.
"""

import asyncio
import tarfile
from pathlib import Path
from typing import Annotated, Self

import httpx
import tinker
from pydantic import ValidationError

from precis.errors import CorruptCheckpoint, TrainerLost
from precis.llm.connections import tls_for
from precis.record import Matching, Record
from precis.settings.tinker import KEPT_FILE
from precis.trainer.tinker.service import TinkerService

_ARCHIVE_S = 1200.0
"""The service makes an archive when it is first asked for one."""
_DOWNLOAD_S = 2 * 3600.0
_ARCHIVE_BYTES_MAX = 64 * 2**30
"""An adapter of every expert of the largest open models, at rank 32, has some 40 GB."""
_UNPACKED_TIMES = 8
_UNPACKED_MIN = 16 * 2**20
"""Weights are hardly made smaller by packing; untrained ones are half zeros."""
_NAME_MAX = 2**16
_PAUSES_S = (1.0, 5.0, 20.0)
"""Before each new try of a download."""

_AT_TINKER = "is an address that begins with tinker://"


class Kept(Record):
    """The place of a step at the service."""

    state: Annotated[str, Matching(r"^tinker://.*$", _AT_TINKER)]
    """Weights and optimizer, to continue from."""
    sampler: Annotated[str, Matching(r"^(tinker://.*)?$", _AT_TINKER)] = ""
    """Weights alone, to sample from and to copy; empty where they are needed for neither."""
    fresh_optimizer: bool = False
    """True to continue without the optimizer's state: what it learned of imitation is of no use to
    reinforcement."""


def read_kept(folder: Path) -> Kept:
    """Read from a checkpoint where the service has its step; a CorruptCheckpoint says that the
    checkpoint does not say so."""
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
    """Copy the weights that the service has under a path into a folder; a TrainerLost says that
    they can't be had. The archive's address may be signed, so no message quotes it."""
    run, _, checkpoint = sampler.removeprefix("tinker://").partition("/")
    rest = client.create_rest_client()
    asked = rest.get_checkpoint_archive_url_async(run, checkpoint)
    archive = await service.ask(f"give the weights of {sampler}", asked, _ARCHIVE_S)
    file = into / ".archive"
    try:
        for pause in (*_PAUSES_S, None):
            try:
                async with asyncio.timeout(_DOWNLOAD_S):
                    await download(archive.url, file)
                return await asyncio.to_thread(unpack, file, into)
            except (httpx.HTTPError, TimeoutError, tarfile.ReadError):
                if pause is None:
                    raise
                await asyncio.sleep(pause)
    except (httpx.HTTPError, TimeoutError, tarfile.TarError) as error:
        why = error if isinstance(error, tarfile.TarError) else type(error).__name__
        raise TrainerLost(f"The archive of {sampler} can't be had: {why}.") from None
    finally:
        file.unlink(missing_ok=True)


async def download(url: str, into: Path, bytes_max: int = _ARCHIVE_BYTES_MAX) -> None:
    """Download a file of at most so many bytes. Raises tarfile.TarError if it has more, and
    httpx.HTTPError if the download failed."""
    async with (
        httpx.AsyncClient(timeout=60, follow_redirects=True, verify=tls_for(url)) as http,
        http.stream("GET", url, headers={"Accept-Encoding": "identity"}) as answer,
    ):
        answer.raise_for_status()
        size = 0
        with into.open("wb") as file:
            async for part in answer.aiter_raw():
                size += len(part)
                if size > bytes_max:
                    raise tarfile.TarError(f"it has more than {bytes_max:,} bytes")
                file.write(part)


class _Header(tarfile.TarInfo):
    """A header whose name is not too long: tarfile reads names of any length into memory. A damaged
    one would end the archive."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.InvalidHeaderError as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError("a header in it is damaged") from error

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        # tarfile names this method as the one to override; newer Pythons do not call `frombuf`.
        if not self.isfile() and self.size > _NAME_MAX:
            raise tarfile.TarError(f"a name in it has more than {_NAME_MAX:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc, no-any-return]


def unpack(archive: Path, into: Path) -> None:
    """Unpack an archive, plain or compressed; nothing in it gets out of the folder. Raises
    tarfile.ReadError if it is none, or was cut, and tarfile.TarError if it unpacks to more than
    weights would, or out of the folder."""
    left = max(_UNPACKED_MIN, _UNPACKED_TIMES * archive.stat().st_size)
    with tarfile.open(archive, mode="r|*", tarinfo=_Header) as tar:
        for member in tar:
            # At least a block: a size may be negative, and each file takes some of the disk.
            left -= max(member.size, tarfile.BLOCKSIZE)
            if left < 0:
                raise tarfile.TarError("it unpacks to more than weights would")
            tar.extract(member, into, filter="data")
        # An archive ends in two blocks of zeros. The loop ends at the first, or where it was cut.
        if tar.fileobj is None or tar.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("it is cut off")
