"""Comparing runs, opening their reports, deleting them, and all of it for programs."""

import base64
import json
import re
import webbrowser
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from cli.deletion import delete, is_of
from precis.config import RunConfig
from precis.errors import LeaseHeld, LeaseLost, StoreError
from precis.records.ledger import Metric, Origin, ledger_key, load_ledger, write_ledger
from precis.records.results import write_results
from precis.report.run_comparison import compare, comparison_html, describe_differences
from precis.runs.reports import report_file
from precis.statistics.intervals import paired_difference
from precis.store import FolderStore
from precis.training.run import work_folder
from tests.support.dying_store import Killed, MortalStore
from tests.support.ledgers import measured
from tests.support.reports import texts
from tests.support.results import rows
from tests.support.runs import NOW, hold, make_run, precis_runs


@pytest.fixture
def store(store: FolderStore) -> FolderStore:
    for model in ("a", "b"):
        make_run(store, model, 3)
    return store


def put_results(
    store: FolderStore,
    model: str,
    right: list[int],
    judge: str = "j",
    prefix: str = "d",
    text: str = "",
    corpus: str = "k",
) -> None:
    """A benchmark of two checkpoints: of the newest, so many of four answers are right in each
    document, and none of the other's."""
    verdicts = {}
    written = []
    for number, count in enumerate(right):
        verdicts[f"{prefix}{number}"] = [place < count for place in range(4)]
        written.append(text or f"{model} on {number}.")
    run = f"run-{model}"
    frame = rows("trained", verdicts, 3, run=run, night=NOW, judge=judge, protocol="batched v1")
    frame = frame.with_columns(corpus_digest=pl.lit(corpus))
    frame = frame.with_columns(text=pl.Series(written))
    older = frame.with_columns(step=pl.lit(1, pl.Int64), score=pl.lit(0.0))
    path = store.root.parent / "results.parquet"
    write_results(pl.concat([older, frame]), path)
    store.upload(path, f"{model}/results/{run}.parquet")


def test_two_runs_are_compared_document_by_document(store: FolderStore) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07Read [link=/]this[/] :key: now."
    put_results(store, "a", [4, 3, 4, 3, 4, 3, 4, 4], text=hostile)
    put_results(store, "b", [2, 3, 2, 3, 2, 3, 2, 0])
    told = precis_runs("compare", "a", "b", store=store)
    assert "a − b: +37.5 points" in told
    assert "paired over 8 documents" in told
    assert "── d7" in told and "b, accuracy 0.0%: b on 7.\n" in told
    assert "a, accuracy 100.0%: Read [link=/]this[/] :key: now.\n" in told
    assert "d2" not in told
    assert "50.0% at 3" in told and "0.75" in told
    back = precis_runs("compare", "b", "a", store=store)
    assert "b − a: -37.5 points" in back


def test_several_runs_lie_over_each_other_on_a_page(store: FolderStore) -> None:
    make_run(store, "c", 5)
    put_results(store, "a", [4, 3, 4, 3, 4, 3, 4, 4])
    put_results(store, "c", [2, 3, 2, 3, 2, 3, 2, 0])
    page = comparison_html(compare(store, ["a", "b", "c"]), store.url, NOW)
    held_out, reward = re.findall(r'alt="([^"]*)"', page)
    assert held_out.startswith("Held-out accuracy, by training step; at the end: a 50.0%, b 50.0%")
    assert reward.startswith("Reward in training, by step; at the end: a ")
    drawn = base64.b64decode(re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', page)[0])
    legend = texts(drawn.decode())
    assert [name for name in legend if name in ("a", "b", "c")] == ["a", "b", "c"]
    assert '<th scope="row">c</th><td>5</td>' in page
    assert "a − c: +37.5 points" in page and "No benchmark of both a and b" in page
    assert "95 %; p = 0.062 by permutation)" in page
    put_results(store, "b", [2, 3, 2, 3, 2, 3, 2, 0])
    told = precis_runs("compare", "a", "b", "c", store=store)
    assert told.count("95 %; corrected p = 0.124 by permutation)") == 2
    terminal = precis_runs("compare", "a", "b", "c", store=store).splitlines()
    assert terminal[0].split() == ["a", "b", "c"]
    assert terminal[1].split() == ["steps", "3", "3", "5"]


def test_a_listing_for_programs_and_the_time_of_a_run(store: FolderStore) -> None:
    def found(*arguments: str, at: FolderStore = store) -> Any:
        return json.loads(precis_runs(*arguments, "--json", store=at))

    run = load_ledger(store, "a")
    validated_s = sum(one.seconds for one in run.validations)
    assert validated_s > 0, "which belongs to the time of a run"
    assert run.wall_s == validated_s + sum(one.wall_s for one in run.steps)
    listed = found("list")
    assert {one["model"] for one in listed} == {"a", "b"}
    assert listed[0]["usd"] == 0.75 and listed[0]["held_by"] is None
    assert found("list", at=FolderStore(store.root.parent / "none")) == []


def test_runs_measured_by_a_reward_differ_by_no_points(store: FolderStore) -> None:
    taken = Metric(value=4.0)
    for model, turns in (("a", {"turns_to_success": taken}), ("b", {})):
        first = measured(0, {"reward": Metric(value=3.0), "turns_to_success": taken})
        last = measured(1, {"reward": Metric(value=2.5), **turns})
        agent = {"environment": {"kind": "python"}}
        changed = {"validations": (first, last), "settings": agent}
        ledger = load_ledger(store, model).model_copy(update=changed)
        written = store.get(ledger_key(model))
        assert written
        write_ledger(store, ledger, written.version)
        put_results(store, model, [4] * 6 if turns else [2] * 6)
    told = precis_runs("compare", "a", "b", store=store)
    assert "a − b: +0.5 (+0.0407 to +0.73, 95 %" in told and "points" not in told
    assert "paired over 6 scenarios" in told and "documents" not in told
    assert "a, reward 1: a on 0." in told and "b, reward 0.5: b on 0." in told
    (line,) = [line for line in told.splitlines() if line.startswith("turns to success")]
    assert line.split() == ["turns", "to", "success", "4"], "of its last validation b has none"


def test_what_can_t_be_compared_is_said(store: FolderStore) -> None:
    for names in (["a"], ["a", "b", "a"]):
        told = precis_runs("compare", *names, store=store, code=1)
        assert "takes two runs or more" in told
    assert "holds no run 'c'" in precis_runs("compare", "a", "c", store=store, code=1)
    put_results(store, "a", [4] * 6)
    put_results(store, "b", [4] * 6, prefix="e")
    assert "a and b has documents in common" in precis_runs("compare", "a", "b", store=store)
    put_results(store, "b", [4] * 6, judge="")
    told = precis_runs("compare", "a", "b", store=store)
    assert "scored by different rules (batched v1; j, batched v1): not comparable." in told
    put_results(store, "a", [4] * 2)
    assert "Too few documents" in precis_runs("compare", "a", "b", store=store)


def test_a_run_that_did_not_hold_the_documents_out_is_named(store: FolderStore) -> None:
    put_results(store, "a", [4] * 6)
    put_results(store, "b", [3] * 6)
    told = precis_runs("compare", "a", "b", store=store)
    assert "paired over 6 documents" in told and "trained on" not in told and "same id" not in told
    put_results(store, "b", [3] * 6, corpus="a's, by test_documents")
    told = precis_runs("compare", "a", "b", store=store)
    assert "b may have been trained on some of these documents: see the report of its" in told
    assert "on other documents or splits: those with the same id count as the same" in told
    ledger = load_ledger(store, "a")
    began = Origin(model="o", step=1, store=store.url, files="0" * 64, corpus="another")
    written = store.get(ledger_key("a"))
    assert written
    write_ledger(store, ledger.begin_from(began), written.version)
    told = precis_runs("compare", "a", "b", store=store)
    assert "a and b may have been trained on some of these documents" in told


def test_runs_of_two_measures_are_not_comparable(store: FolderStore) -> None:
    """A run is measured as at its first validation, which may have had no success."""
    for model in ("a", "b"):
        put_results(store, model, [4] * 6)
    found = compare(store, ["a", "b"])
    first, second = found.runs
    rewarded = measured(3, {"reward": Metric(value=3.0)})
    other = replace(second, ledger=second.ledger.add_validation(rewarded))
    *_, last = describe_differences(replace(found, runs=(first, other)))
    assert last == "They are measured by accuracy and by reward: not comparable."
    assert not any("not comparable" in one for one in describe_differences(found))
    few = {"b": paired_difference([5.0, 7.0, 6.0], [3.0, 4.0, 5.5], [1.0] * 3)}
    rewards = replace(found, differences=few)
    assert "(no interval; p = 0." in next(describe_differences(rewards))


async def test_a_deleted_run_leaves_nothing_and_all_of_others_stays(store: FolderStore) -> None:
    folder = work_folder(RunConfig(model="a", store=store.url))
    home = store.root.parent / "home"
    own = ("models/a-3-0123abcd", "reports/a/benchmarks")
    of_others = ("models/a-b-3-0123abcd", "models/b-3-0123abcd", "reports/b/benchmarks")
    for name in (folder, *(home / name for name in (*own, *of_others))):
        name.mkdir(parents=True)
        (name / "file").write_text("")
    others = store.keys("b/")
    with pytest.raises(Killed):
        await delete(MortalStore(store.root, writes=1), "a", nothing)
    assert store.get(ledger_key("a")) is None, "without it no run continues"
    store.delete("a/lease.json")  # its process would be dead
    await delete(store, "a", nothing)
    assert not (store.root / "a").exists() and not folder.exists()
    assert store.keys("b/") == others
    left = [file for file in home.rglob("file") if file.is_file()]
    assert {str(file.parent.relative_to(home)) for file in left} == set(of_others)


async def test_a_run_at_work_or_whose_deletion_fails_elsewhere_stays(store: FolderStore) -> None:
    async def out() -> int:
        raise StoreError("out")

    before = store.keys("a/")
    with pytest.raises(StoreError, match="out"):
        await delete(store, "a", out)
    assert [key for key in store.keys("a/") if not key.endswith("lease.json")] == before

    async def taken_over() -> int:
        hold(store, "a", "train-7")
        return 0

    with pytest.raises(LeaseLost):
        await delete(store, "a", taken_over)
    with pytest.raises(LeaseHeld, match="can't be deleted"):
        await delete(store, "a", nothing)
    assert set(before) < set(store.keys("a/"))
    with pytest.raises(StoreError, match="holds no run 'nobody'"):
        await delete(store, "nobody", nothing)


async def test_a_run_that_begins_under_a_freed_name_is_kept(store: FolderStore) -> None:
    class Wanted(FolderStore):
        def put_if(self, key: str, data: bytes, version: str | None) -> str:
            written = super().put_if(key, data, version)
            if b'"released":true' in data:
                make_run(self, "a", 1)
                hold(self, "a", "train-7")
            return written

    await delete(Wanted(store.root), "a", nothing)
    assert load_ledger(store, "a").next_step == 1


async def nothing() -> int:
    return 0


def test_a_deletion_asks_first_and_takes_no_path(store: FolderStore) -> None:
    told = " ".join(precis_runs("delete", "a", store=store, code=1).split())
    assert "for good. Continue?" in told and "--yes" in told
    for name in ("..", "", "a/checkpoints", "."):
        precis_runs("delete", name, "--yes", store=store, code=1)
    assert store.keys("a/") and store.keys("b/")


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"model": "m", "store": "STORE"}, True),
        ({"config": {"model": "m", "store": "STORE"}}, True),
        ({"model": "m", "store": "STORE/other"}, False),
        ({"model": "n", "store": "STORE"}, False),
        ({"model": "n", "store": "STORE", "config": {"model": "m"}}, True),
        ({"store": "STORE"}, False),
        ({"model": "m", "store": "gs://bucket"}, False),
        ({"model": "m", "store": "STORE", "config": 5}, True),
        ({"model": "m", "store": 5}, False),
    ],
)
def test_a_flow_run_is_known_by_its_model_and_store(
    tmp_path: Path, parameters: dict[str, object], expected: bool
) -> None:
    url = FolderStore(tmp_path).url
    given = json.loads(json.dumps(parameters).replace("STORE", str(tmp_path)))
    assert is_of(given, "m", url) is expected


@pytest.mark.parametrize("has_browser", [True, False])
def test_the_newest_report_is_opened(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, has_browser: bool
) -> None:
    opened: list[str] = []

    def show(url: str) -> bool:
        opened.append(url)
        return has_browser

    monkeypatch.setattr(webbrowser, "open", show)
    assert "it had no benchmark yet" in precis_runs("open", "a", store=store, code=1)
    for name in ("NOPE", ""):
        assert f"holds no run '{name}'" in precis_runs("open", name, store=store, code=1)
    for step in ("0003", "0010", "0010-0123abcd", "0003/20260101-run"):
        store.put(f"a/benchmarks/{step}/report.html", b"<h1>")
    said = precis_runs("open", "a", store=store)
    assert ("open this file yourself" in said) is not has_browser
    assert opened == [(store.root / "a/benchmarks/0010/report.html").as_uri()]
    store.delete("a/benchmarks/0010/")
    assert report_file(store, "a").parent.name == "0010-0123abcd"
