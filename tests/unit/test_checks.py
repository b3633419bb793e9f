"""Preflight: every check's row says what is there, or what to do."""

import asyncio
import sqlite3
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


async def test_a_corpus_smaller_than_its_split_fails_the_check(tmp_path: Path) -> None:
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
