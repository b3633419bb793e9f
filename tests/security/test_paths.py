"""What a bucket or a trainer names is never a path out of where it belongs, nor without bounds."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import art
import httpx
import pytest
from pydantic import ValidationError

from precis.errors import CorruptCheckpoint, StoreError, TrainerError
from precis.records.ledger import ledger_key, load_ledger, write_ledger
from precis.records.manifests import File, manifest_key, pointer_key
from precis.runs.checkpoints import complete_around, named_step, repair_pointer, restore
from precis.settings.tinker import TinkerTrainer
from precis.settings.trainer import ArtTrainer, ServerlessTrainer
from precis.store import FolderStore, Store
from precis.store.protocol import SMALL_BYTES_MAX
from precis.store.s3 import S3Store
from precis.trainer.client import RemoteTrainer
from precis.trainer.protocol import Event, FileRequest, ModelSpec, TrainerState
from tests.support.ledgers import record, stored_ledger
from tests.support.local_server import serving
from tests.support.runs import make_run

ESCAPES = [
    "../outside",
    "a/../../outside",
    "..",
    "/outside",
    "a/../b",
    "./a",
    "a//b",
    "a/",
    "",
    "a\\..\\b",
    "a\x00b",
    "a\nb",
    "a" * 300,
    "a/" * 600 + "a",
]
CONTENT = b"planted"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path / "deep" / "store")
    make_run(store, "m", 2)
    return store


@pytest.mark.parametrize("path", ESCAPES)
def test_a_path_that_leads_elsewhere_is_refused_in_the_record_itself(path: str) -> None:
    with pytest.raises(ValidationError):
        File(path=path, bytes=0, sha256=SHA256)
    with pytest.raises(ValidationError):
        FileRequest(model=ModelSpec(name="m", project="p", base_model="b"), step=0, path=path)
    file = {"path": path, "bytes": 0, "sha256": SHA256}
    with pytest.raises(ValidationError):
        TrainerState.model_validate({"run": "r", "checkpoints": {"0": [file]}})


def plant(store: FolderStore, changes: dict[str, Any], *files: dict[str, Any]) -> None:
    """Have manifest 1 of a run say something else, and the files of its attempt lie elsewhere."""
    known = json.loads((store.root / manifest_key("m", 1)).read_bytes())
    planted = {"path": "weights", "bytes": len(CONTENT), "sha256": SHA256}
    said = {**known, "attempt": "0" * 16, **changes}
    said["files"] = [{**planted, **file} for file in files or ({},)]
    store.put(manifest_key("m", 1), json.dumps(said).encode())


@pytest.mark.parametrize("path", ["../../../../../outside", "/OUTSIDE", "a/../../../../outside"])
def test_a_manifest_writes_no_file_anywhere(store: FolderStore, tmp_path: Path, path: str) -> None:
    """Where the file would be read from is there, so that only the check stands in the way."""
    absolute = path.replace("/OUTSIDE", str(tmp_path / "outside"))
    (store.root.parent.parent / "outside").write_bytes(CONTENT)
    (store.root / "m" / "outside").write_bytes(CONTENT)
    before = sorted(tmp_path.rglob("*"))
    plant(store, {}, {"path": absolute})
    into = tmp_path / "deep" / "a" / "b" / "c" / "into"
    into.parent.mkdir(parents=True)
    with pytest.raises(CorruptCheckpoint, match=r"0001/manifest.json is damaged.*not a path of"):
        restore(store, "m", 1, into)
    assert not into.exists()
    assert [one for one in before if not one.exists()] == []
    assert not list(tmp_path.rglob("*.incoming"))


DAMAGED = "is damaged"
OF_ANOTHER = "is the manifest of"


@pytest.mark.parametrize(
    ("changes", "files", "said"),
    [
        ({}, [{"bytes": -1}], DAMAGED),
        ({}, [{"bytes": 2**41}], DAMAGED),
        ({}, [{"bytes": 10**400}], DAMAGED),
        ({}, [{"sha256": "../x"}], DAMAGED),
        ({"step": -1}, [], DAMAGED),
        ({"step": 10**4000}, [], DAMAGED),
        ({"step": 2}, [], OF_ANOTHER),
        ({"model": "another"}, [], OF_ANOTHER),
        ({"model": "../m"}, [], DAMAGED),
        ({"attempt": "../0002"}, [], DAMAGED),
        ({"attempt": ".."}, [], DAMAGED),
        ({"parent": 10**30}, [], DAMAGED),
        ({}, [{"path": "a"}, {"path": "a"}], DAMAGED),
        ({}, [{"path": "a"}, {"path": "a/b"}], DAMAGED),
        ({}, [{"path": "a/b/c"}, {"path": "a/b"}], DAMAGED),
    ],
)
def test_what_a_manifest_says_is_bounded_and_no_file_is_in_anothers_way(
    store: FolderStore,
    tmp_path: Path,
    changes: dict[str, Any],
    files: list[dict[str, Any]],
    said: str,
) -> None:
    plant(store, changes, *files)
    with pytest.raises(CorruptCheckpoint, match=said):
        restore(store, "m", 1, tmp_path / "into")
    assert not (tmp_path / "into").exists()
    assert sorted(complete_around(store, "m", 1)) == [0, 2]


PREFIXES = ["../", "m/../../", "/etc/", "m//"]


@pytest.mark.parametrize("make", [FolderStore, lambda _: S3Store("bucket", "prefix")])
@pytest.mark.parametrize("key", [*ESCAPES, *PREFIXES])
def test_no_store_takes_a_key_that_leads_elsewhere(
    key: str, make: Callable[[Path], Store], tmp_path: Path
) -> None:
    """The folder stands where the bucket does; neither is asked anything."""
    (tmp_path / "source").write_bytes(CONTENT)
    store = make(tmp_path / "store")
    uses: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.put(key, CONTENT),
        lambda: store.put_if(key, CONTENT, None),
        lambda: store.upload(tmp_path / "source", key),
        lambda: store.download(key, tmp_path / "target"),
    ]
    if key in ("..", *PREFIXES):
        uses += [lambda: store.keys(key), lambda: store.delete(key)]
    for use in uses:
        with pytest.raises(StoreError, match="can't be a key of"):
            use()
    assert [one.name for one in tmp_path.iterdir()] == ["source"]


def test_a_record_that_is_too_large_is_not_read(store: FolderStore) -> None:
    with (store.root / "m" / "latest.json").open("wb") as sparse:
        sparse.truncate(SMALL_BYTES_MAX + 1)
    with pytest.raises(StoreError, match="no record that Précis writes has more"):
        repair_pointer(store, "m", 2)


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"step": ' * 50_000, b"", b"[]", b'{"step": -1}', b'{"step": NaN}']
)
def test_a_pointer_that_is_none_is_written_anew(store: FolderStore, data: bytes) -> None:
    store.put(pointer_key("m"), data)
    repair_pointer(store, "m", 2)
    assert named_step(store.get(pointer_key("m"))) == 2


@pytest.mark.parametrize("name", ["old", "-001", "00001", "1", "٠٠٠٣", "9" * 200, "0001 (copy)"])
def test_a_folder_that_is_no_steps_is_named(store: FolderStore, name: str) -> None:
    store.put(f"m/checkpoints/{name}/manifest.json", b"{}")
    with pytest.raises(StoreError, match="lies in a folder that is not a step's"):
        complete_around(store, "m", 2)


@pytest.mark.parametrize("number", ["NaN", "1e400", "1e300"])
@pytest.mark.parametrize("where", ["machine_usd", "commit_s", "words"])
def test_a_number_that_is_none_is_a_sentence(store: FolderStore, where: str, number: str) -> None:
    known = json.loads((store.root / ledger_key("m")).read_text())
    known["steps"][0][where] = "HERE"
    store.put(ledger_key("m"), json.dumps(known).replace('"HERE"', number).encode())
    with pytest.raises(StoreError, match=rf"ledger .*steps.0.{where}"):
        load_ledger(store, "m")


def test_a_ledger_that_could_not_be_read_again_is_not_written(store: FolderStore) -> None:
    ledger, version = stored_ledger(store)
    spoiled = ledger.advance(record(2, trainer={"loss": float("nan")}))
    with pytest.raises(StoreError, match="can't be read as a ledger"):
        write_ledger(store, spoiled, version)
    assert load_ledger(store, "m") == ledger


SHELL = ["a;touch /tmp/x", "$(x)", "`x`", "a b", "a|b", "a&b", "-h", "--help", "a\nb", "a'b", ""]


@pytest.mark.parametrize("name", SHELL)
def test_a_base_model_carries_nothing_that_a_shell_knows(name: str) -> None:
    for kind in (ArtTrainer, ServerlessTrainer, TinkerTrainer):
        with pytest.raises(ValidationError):
            kind(base_model=name)
    with pytest.raises(ValidationError):
        ModelSpec(name="m", project="p", base_model=name)
    for plain in ("Qwen/Qwen2.5-3B-Instruct", "/models/q_1.5", "./local", "../q"):
        assert ArtTrainer(base_model=plain).base_model == plain


PIECE = 65_536


class Lying:
    """A trainer that says and sends what it likes, and its client."""

    trainer: RemoteTrainer

    def __init__(self) -> None:
        self.event: Any = "result"
        self.state: dict[str, Any] = {}
        self.files: dict[str, list[bytes]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        asked = json.loads((await receive())["body"])
        pieces = self.files.get(asked.get("path", ""), [])
        if scope["path"] == "/model/state":
            answer = Event(event=self.event, data=self.state).model_dump_json().encode() + b"\n"
            pieces = [answer[at : at + PIECE] for at in range(0, len(answer), PIECE)]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


MODEL: Any = art.TrainableModel(name="m", project="p", base_model="b")


@pytest.fixture
async def lying(tmp_path: Path) -> AsyncIterator[Lying]:
    lying = Lying()
    async with serving(lying) as url:
        lying.trainer = RemoteTrainer(url, "token", tmp_path / "art")
        yield lying
        await lying.trainer.close()


@pytest.mark.parametrize(
    ("path", "sent", "said"),
    [
        ("../../outside", [CONTENT], "no TrainerState"),
        ("/OUTSIDE", [CONTENT], "no TrainerState"),
        ("weights", [CONTENT, b"and more"], "sent something else"),
        ("weights", [bytes(PIECE)] * 200, "sent something else"),
        ("weights", [CONTENT[:-1]], "sent something else"),
        ("weights", [b"plantad"], "sent something else"),
    ],
)
async def test_what_a_trainer_sends_is_what_it_said_and_stays_where_it_belongs(
    lying: Lying, tmp_path: Path, path: str, sent: list[bytes], said: str
) -> None:
    named = path.replace("/OUTSIDE", str(tmp_path / "outside"))
    file = {"path": named, "bytes": len(CONTENT), "sha256": SHA256}
    lying.state = {"run": "r", "checkpoints": {"0": [file]}}
    lying.files = {named: sent}
    with pytest.raises(TrainerError, match=said):
        await lying.trainer.save(MODEL, 0, tmp_path / "kept" / "deep" / "files")
    assert not list(tmp_path.rglob("outside"))
    kept = [one.stat().st_size for one in tmp_path.rglob("weights")]
    assert sum(kept) < 20 * PIECE
    lying.state = {"run": "r"}
    with pytest.raises(TrainerError, match="holds no checkpoint 4"):
        await lying.trainer.save(MODEL, 4, tmp_path / "files")


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        ({}, "TrainerError", "did not say why"),
        ({"type": "StepConflict"}, "StepConflict", "did not say why"),
        ({"message": "said so"}, "TrainerError", "said so"),
        ({"type": "__builtins__", "message": "said so"}, "TrainerError", "said so"),
        ({"type": "SystemExit", "message": "said so"}, "TrainerError", "said so"),
        ({"type": "__doc__", "message": "said so"}, "TrainerError", "said so"),
        ({"type": "open", "message": "said so"}, "TrainerError", "said so"),
        ({"type": "", "message": "said so"}, "TrainerError", "said so"),
        ({"type": ["x"], "message": 7}, "TrainerError", "7"),
    ],
)
async def test_an_error_of_a_trainer_is_one_of_ours_and_a_sentence_even_where_it_lacks_a_part(
    lying: Lying, data: dict[str, Any], kind: str, said: str
) -> None:
    lying.event = "error"
    lying.state = data
    with pytest.raises(TrainerError, match=said) as raised:
        await lying.trainer.state(MODEL)
    assert type(raised.value).__name__ == kind


async def test_no_answer_is_read_through_arts_recorder(
    lying: Lying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps all that it reads, in a time that grows with the square of an answer's length."""
    monkeypatch.delattr(httpx.Response, "aiter_bytes")
    lying.state = {"run": "x"}
    assert (await lying.trainer.state(MODEL)).run == "x"
