"""An archive of a training service fills no disk, and stays in its folder."""

import gzip
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from precis.trainer.tinker.checkpoints import download, unpack
from tests.security.hostile import MIB, hostile
from tests.support.files import tar_of


def holes() -> bytes:
    """A file of one byte that is said to have a terabyte of zeros before it."""
    info = tarfile.TarInfo("w")
    info.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "w",
        "GNU.sparse.realsize": str(2**40),
    }
    content = f"1\n{2**40 - 1}\n1\n".encode().ljust(512, b"\0") + b"x"
    info.size = len(content)
    return info.tobuf(tarfile.PAX_FORMAT) + content.ljust(1024, b"\0") + bytes(1024)


def less_than_nothing() -> bytes:
    """A folder that is said to have -1 TiB, and then a file."""
    header = bytearray(tarfile.TarInfo("folder").tobuf())
    header[124:136] = (-(2**40)).to_bytes(12, "big", signed=True)
    header[156:157] = tarfile.DIRTYPE
    header[148:156] = b" " * 8  # the checksum, which counts as blanks in itself
    header[148:156] = b"%06o\0 " % sum(header)
    return gzip.compress(bytes(header) + tar_of(("w", bytes(17 * MIB))), 1)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_weights_come_as_they_were_packed(pack: type[bytes], tmp_path: Path) -> None:
    weights = bytes(range(256)) * 400
    files = (("adapter_config.json", b"{}"), ("folder/adapter_model.safetensors", weights))
    unpack(written(pack(tar_of(*files)), tmp_path), tmp_path / "out")
    assert (tmp_path / "out" / "folder" / "adapter_model.safetensors").read_bytes() == weights
    assert (tmp_path / "out" / "adapter_config.json").read_bytes() == b"{}"


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(lambda: gzip.compress(tar_of(("w", bytes(17 * MIB))), 1), id="zeros"),
        pytest.param(holes, id="holes"),
        pytest.param(less_than_nothing, id="less than nothing"),
    ],
)
def test_little_does_not_unpack_to_much(made: Callable[[], bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(tarfile.TarError, match="more than weights would"):
        unpack(written(made(), tmp_path), out)
    sizes = [file.stat().st_size for file in out.rglob("*")] if out.exists() else []
    assert sum(sizes) <= 20 * MIB


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_name_without_end_is_not_read_into_memory(kind: bytes, tmp_path: Path) -> None:
    header = tarfile.TarInfo("w")
    header.type = kind
    header.size = 2 * MIB
    archive = gzip.compress(header.tobuf() + bytes(2 * MIB), 1)
    with pytest.raises(tarfile.TarError, match="a name in it has more than 65,536 bytes"):
        unpack(written(archive, tmp_path), tmp_path / "out")


TWO_FILES = tar_of(("a", b"a"), ("b", b"b"))


# Packed bytes have the time in them: named by them, a test had another name in each process.
@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(b"no archive", id="no archive"),
        pytest.param(gzip.compress(tar_of(("w", bytes(99_999))))[:90], id="cut"),
        pytest.param(tar_of(("w", bytes(99_999)))[:5000], id="cut tar"),
        pytest.param(gzip.compress(TWO_FILES[:1024]), id="cut between two files"),
        pytest.param(TWO_FILES[:1024], id="tar cut between two files"),
        pytest.param(TWO_FILES[:1024] + b"x" * 512 + bytes(1024), id="damaged, then zeros"),
        pytest.param(tar_of(("../out-of-it", b"x")), id="out of the folder"),
        pytest.param(b"\x1f\x8bno gzip", id="no gzip"),
    ],
)
def test_what_is_damaged_or_leads_out_is_one_kind_of_error(archive: bytes, tmp_path: Path) -> None:
    with pytest.raises(tarfile.TarError):
        unpack(written(archive, tmp_path), tmp_path / "out")
    assert not (tmp_path / "out-of-it").exists()


async def test_a_download_without_end_is_given_up(tmp_path: Path) -> None:
    def endless(_: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        for _mib in range(1024):
            yield bytes(MIB)

    async with hostile(endless) as server:
        with pytest.raises(tarfile.TarError, match="more than 1,048,576 bytes"):
            await download(server.url, tmp_path / "archive", MIB)
        assert server.sent < 64 * MIB
        assert (tmp_path / "archive").stat().st_size <= MIB
        with pytest.raises(httpx.HTTPError):
            await download("http://127.0.0.1:1/", tmp_path / "archive")


def written(archive: bytes, folder: Path) -> Path:
    path = folder / "archive"
    path.write_bytes(archive)
    return path
