"""What `precis runs` says of a store, and what it takes away from it."""

import json
import webbrowser
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from precis.config import TrainConfig
from precis.environments.trajectories import put_trajectories
from precis.records.ledger import Ledger, Metric, ledger_key, write_ledger
from precis.records.spend import Spend
from precis.runs.checkpoints import committed_steps
from precis.runs.export import export
from precis.runs.overview import kept_checkpoints, list_runs
from precis.store import FolderStore
from precis.sweep.ranking import rank, result_of
from precis.sweep.report import sweep_report
from precis.sweep.trials import Trial
from tests.support.ledgers import EMPTY, measured, record, validation
from tests.support.rollouts import ROLLOUTS
from tests.support.runs import file_key, hold, make_run, precis_runs


@pytest.fixture
def store(store: FolderStore) -> FolderStore:
    make_run(store, "m", 3)
    return store


def test_a_store_lists_its_runs_newest_first_and_cuts_no_name(store: FolderStore) -> None:
    long = "a-model-with-a-name-of-sixty-four-characters-which-is-the-longest"[:64]
    make_run(store, long, 1)
    hold(store, long, f"{long} (0123456789)")
    listed = precis_runs("list", store=store, COLUMNS="80")
    assert f"{long} (0123456789)" in listed
    assert len(listed.splitlines()) == 3
    store.put(ledger_key("broken"), b"{}")
    (later, first), unreadable = list_runs(store)
    assert (later.model, later.step, later.held_by) == (long, 1, f"{long} (0123456789)")
    assert (first.model, first.usd, first.held_by) == ("m", 0.75, None)
    assert (first.score, first.best, first.best_step) == (0.5, 0.5, 3)
    assert "can't be read as a ledger" in unreadable["broken"]
    edited = EMPTY.model_dump() | {"model": "edited", "settings": {"environment": "game.py"}}
    store.put(ledger_key("edited"), json.dumps(edited).encode())
    said = precis_runs("show", "edited", store=store, code=1)
    assert "(settings: Value error, environment is not an object)" in said


def test_an_empty_store_holds_no_runs_and_its_path_is_said_as_it_is(tmp_path: Path) -> None:
    none = FolderStore(tmp_path / "[new] :key: [/old]")
    assert f"{none.url} holds no runs yet. `make rehearse`" in precis_runs("list", store=none)
    assert not none.root.exists()
    (tmp_path / "file").touch()
    said = precis_runs("list", store=FolderStore(tmp_path / "file"), code=1)
    assert "A file or a broken link lies where a folder is needed" in said


def test_a_run_is_shown_with_steps_and_checkpoints(store: FolderStore) -> None:
    store.delete(file_key(store, "m", 1, "weights"))
    store.put(file_key(store, "m", 3, "weights"), b"\x09" * 1000)
    store.delete("m/checkpoints/0002/manifest.json")
    zeroth, _, second, third = kept_checkpoints(store, "m")
    assert (zeroth.damage, third.damage) == ("", "") and third.bytes > 1000
    assert "never completed" in second.damage
    shown = precis_runs("show", "m", "--last", "2", store=store)
    assert "held by    nobody" in shown
    assert "weights is missing" in shown
    assert [line.split()[0] for line in shown.splitlines() if "0.500" in line] == ["1", "2"]
    assert "The newest 2 of 3 steps; --last lists more." in shown
    assert "whole" not in shown and shown.count("all files there, unread") == 2
    verified = precis_runs("show", "m", "--verify", store=store)
    assert verified.count("whole") == 1 and verified.count("differs from its manifest") == 1


def test_the_held_out_reward_has_a_name_and_a_step_its_machine(store: FolderStore) -> None:
    held_out = measured(0, {"reward": Metric(value=2.5)})
    agent = EMPTY.model_copy(update={"model": "agent"}).add_validation(held_out)
    write_ledger(store, agent.advance(record(0, machine_usd=1.5)), None)
    shown = precis_runs("show", "agent", store=store)
    heading, row = shown.splitlines()[-4:-2]
    assert heading.split("  ")[:4] == ["step", "reward", "sampled words", "held-out reward"]
    assert row.split()[:4] == ["0", "0.500", "300", "2.5"]
    assert row.split()[-1] == "1.7500" and "dollars    1.7500" in shown


def test_dollars_are_a_lower_bound_where_a_price_is_not_known(store: FolderStore) -> None:
    ledger = EMPTY.advance(record(0, judge=Spend(calls=2, usd=0.25, unpriced=1)))
    write_ledger(store, ledger.model_copy(update={"model": "n"}), None)
    assert "0.25 or more" in precis_runs("list", store=store)
    assert "dollars    0.2500 or more" in precis_runs("show", "n", store=store)
    assert "0.25 or more" in precis_runs("compare", "m", "n", store=store)
    ranked = rank([result_of(Trial("n", {}, 1), ledger.add_validation(validation(1)))])
    assert "$0.25 or more" in sweep_report(ranked)


def test_a_run_is_shown_with_its_settings_by_name(store: FolderStore) -> None:
    settings = TrainConfig(model="told", seed=7, store=store.url).model_dump(mode="json")
    ledger = Ledger(model="told", config="d1ge57", corpus="c0rpu5").under(settings)
    version = write_ledger(store, ledger, None)
    shown = dict(line.split(maxsplit=1) for line in precis_runs("show", "told", store=store)
                 .splitlines() if len(line.split()) > 1)  # fmt: skip
    assert shown["seed"] == "7"
    assert shown["documents.source"] == "bundled"
    assert shown["judge.limits.in_flight"] == "32"
    assert shown["from_checkpoint"] == "null"
    assert shown["rollouts.words_max"] == "350"
    settings["environment"] = {"kind": "python"}
    write_ledger(store, ledger.under(settings), version)
    shown_of_agent = precis_runs("show", "told", store=store)
    assert "documents." not in shown_of_agent and "rollouts.words_max" not in shown_of_agent
    assert "rollouts.turns_max" in shown_of_agent
    assert "d1ge57" not in str(shown) and "c0rpu5" not in str(shown)


def test_a_restart_asks_first(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("restart", "m", "--step", 1)
    before = store.keys("")
    said = precis_runs(*command, store=store, code=1)
    assert "2 steps and 2 checkpoints after step 1 of m" in said and "--yes" in said
    of_one = precis_runs("restart", "m", "--step", 2, store=store, code=1)
    assert "1 step and 1 checkpoint after step 2 of m" in of_one
    watched = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("precis.commands.terminal.sys", watched)
    said = precis_runs(*command, store=store, given="n\n", code=1)
    assert "Nothing was deleted" in said
    assert store.keys("") == before
    assert "at step 1 again" in precis_runs(*command, store=store, given="y\n")
    assert committed_steps(store, "m") == [0, 1]


def test_an_export_has_what_is_committed_for_any_reader(store: FolderStore, tmp_path: Path) -> None:
    put_trajectories(store, "m", "train", 3, ROLLOUTS, "m")
    put_trajectories(store, "m", "validation", 3, ROLLOUTS, "m")
    put_trajectories(store, "m", "validation", 4, ROLLOUTS, "m")
    files = export(store, "m", tmp_path / "out")
    assert [file.name for file in files if file.exists()] == [
        "ledger.json",
        "metrics.parquet",
        "trajectories.parquet",
    ]
    assert pl.read_parquet(tmp_path / "out" / "metrics.parquet")["reward"].len() == 4
    rows = pl.read_parquet(tmp_path / "out" / "trajectories.parquet")
    assert rows.group_by("split", "step").len().sort("split", "step").rows() == [
        *(("train", step, 5) for step in range(3)),
        ("validation", 3, 5),
    ]


def test_a_page_is_opened_from_the_usual_home_which_is_in_the_current_folder(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.chdir(tmp_path)
    precis_runs("rollouts", "m", store=store, PRECIS_HOME=".precis")
    assert opened == [(tmp_path / ".precis/reports/m/rollouts.html").as_uri()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "nobody"), "holds no run 'nobody'"),
        (("show", "/a/folder"), "holds no run '/a/folder'. See `precis runs list --store /"),
        (("compare", "m", "../page.html"), "holds no run '../page.html'"),
        (("rollouts", "/a/folder"), "holds no run '/a/folder'"),
        (("open", "/a/folder"), "holds no run '/a/folder'"),
        (("repair", "/a/folder"), "holds no run '/a/folder'"),
        (("restart", "/a/folder", "--step", "0"), "holds no run '/a/folder'"),
        (("export", "m", "--to", "{folder}/file"), "choose another place"),
        (("export", "m", "--to", "{folder}/taken"), "metrics.parquet"),
        (("export", "m", "--to", "{folder}/full"), "Free some space"),
    ],
)
def test_bad_input_gets_one_sentence(
    store: FolderStore, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "metrics.parquet").mkdir(parents=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "metrics.parquet").symlink_to("/dev/full")
    filled = (argument.format(folder=tmp_path) for argument in arguments)
    output = precis_runs(*filled, store=store, code=1)
    assert said in output
    assert len(output.splitlines()) == 1
