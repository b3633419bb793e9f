"""Preflight: every check's row says what is there, or what to do."""

import asyncio
import importlib.metadata
import platform
import sqlite3
import sys
from collections.abc import Awaitable
from pathlib import Path

import pytest

from precis import checks
from precis.checks import CheckResult, run_checks
from precis.config import DocumentsConfig
from precis.errors import StoreRefused
from precis.settings.trainer import ExtractiveTrainer
from tests.support.corpora import rows, source, write_jsonl


async def test_rows_come_in_the_order_of_their_checks_whatever_becomes_of_each() -> None:
    async def well() -> str:
        return "fine"

    async def refused() -> str:
        raise StoreRefused("The bucket is not there.", "Make it. Or name another.")

    async def silent() -> str:
        await asyncio.sleep(60)
        return ""

    async def broken() -> str:
        raise sqlite3.Error("a fault")

    assert await run_checks({"store": refused, "silent": silent, "well": well}, 0.05) == [
        CheckResult("store", False, "The bucket is not there.", "Make it. Or name another."),
        CheckResult("silent", False, "No answer in 0.05 s.", "See whether it is up."),
        CheckResult("well", True, "fine"),
    ]
    with pytest.raises(sqlite3.Error):  # a check's own fault is not hidden
        await run_checks({"broken": broken})


async def row_of(check: Awaitable[str]) -> CheckResult:
    [row] = await run_checks({"it": lambda: check})
    return row


@pytest.mark.parametrize("version", ["3.10.9", "3.14.0"])
async def test_another_python_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert (await checks.check_python()).endswith("on Darwin, which is not tested")
    monkeypatch.setattr(platform, "python_version", lambda: version)
    row = await row_of(checks.check_python())
    assert row.detail == f"This is {version}, and Précis runs on <3.14,>=3.11."
    assert "PYTHON=python3.12" in row.remedy


async def test_a_package_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "prefect 3." in await checks.check_packages()
    asked = ["prefect<3", "no-such-thing>=1"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: asked)
    row = await row_of(checks.check_packages())
    command = f"{sys.executable} -m pip install 'prefect<3' 'no-such-thing>=1'"
    assert not row.ok and row.remedy == f"Run `{command}`."
    assert "prefect 3." in row.detail and "(wants <3)" in row.detail
    assert "no-such-thing missing" in row.detail


async def test_a_disk_without_room_is_refused(tmp_path: Path) -> None:
    assert str(tmp_path) in await checks.check_store(str(tmp_path))
    assert "GB free" in await checks.check_disk(tmp_path / "not" / "yet", 0)
    row = await row_of(checks.check_disk(tmp_path, 10**9))
    assert not row.ok and "1000000000 GB are needed" in row.remedy
    (tmp_path / "file").touch()
    for impossible in (tmp_path / "file" / "home", tmp_path / ("x" * 300)):
        row = await row_of(checks.check_disk(impossible))
        assert not row.ok and "can't make or write" in row.detail


async def test_a_corpus_smaller_than_its_split_fails_and_what_is_left_out_is_counted(
    tmp_path: Path,
) -> None:
    row = await row_of(checks.check_documents(DocumentsConfig(train_size=10**6)))
    assert not row.ok and "TRAIN_SIZE" in row.detail + row.remedy
    small = DocumentsConfig(train_size=8, val_size=4)
    assert "8 to train on, 4 held out" in await checks.check_documents(small)
    content = rows()
    for one in content[:2]:
        one["answer"] = "UNANSWERABLE"
    given = source(write_jsonl(tmp_path / "c.jsonl", content), train_size=2)
    found = await checks.check_documents(given)
    assert "1 of 4 documents have no answerable question and are left out." in found


@pytest.mark.parametrize(
    ("key", "ok"),
    [
        ("", True),
        ("f" * 40, True),
        ("local-" + "f" * 40, True),
        ("f" * 39, False),
        ("f" * 20 + "\n" + "f" * 20, False),
    ],
)
async def test_a_wandb_key_is_taken_by_its_form(
    monkeypatch: pytest.MonkeyPatch, key: str, ok: bool
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", key)
    monkeypatch.setenv("WANDB_MODE", "offline")
    row = await row_of(checks.check_wandb(ExtractiveTrainer()))
    assert row.ok is ok
    assert not key or key not in row.detail
