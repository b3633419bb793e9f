"""All rollouts of a run in a store, as one self-contained page."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from shlex import quote
from typing import Any

import polars as pl

from precis.errors import StoreError
from precis.records.rollout import Split, tool_calls_of
from precis.records.trajectories import OWN_COLUMNS, scan_trajectories, trajectory_steps
from precis.report import wording
from precis.report.page import pack, render_page
from precis.store import Store

BYTES_MAX = 60_000_000
"""The most bytes of texts and figures in a page: a browser opens more slowly, or not at all."""
_TEXT_MAX = 100_000
_READ_AT_ONCE = 16
_SPLITS: tuple[Split, ...] = ("validation", "train")
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_CONTROLS |= dict.fromkeys(range(0x7F, 0xA0), 0xFFFD)
"""Control characters as visible symbols, since text of the page may be copied into terminals."""


@dataclass
class RolloutsData:
    """The content of the page, as JSON.

    Attributes:
        texts: the index of every text, by which messages refer to it.
        steps: the rollouts, by split, and by step as a string.
        left_out: steps that did not fit.
    """

    texts: dict[str, int] = field(default_factory=dict)
    steps: dict[str, dict[str, list[dict[str, Any]]]] = field(
        default_factory=lambda: {split: {} for split in _SPLITS}
    )
    left_out: int = 0
    bytes: int = 0

    def place_of(self, text: str) -> int:
        """Return a text's index, after adding it if it is new."""
        if len(text) > _TEXT_MAX:
            cut = f"\n… cut here: the text has {len(text):,} characters (see `precis runs export`)"
            text = text[:_TEXT_MAX] + cut
        text = text.translate(_CONTROLS)
        if text not in self.texts:
            self.bytes += len(text.encode(errors="replace"))
        return self.texts.setdefault(text, len(self.texts))

    def add(self, split: Split, row: Mapping[str, Any]) -> None:
        """Add a rollout, a row of `scan_trajectories`."""
        conversations = []
        for each in (row["messages"], *json.loads(row["others"] or "[]")):
            if each:
                conversations.append(list(map(self._message, each)))
        metrics = {}
        for name, value in row.items():
            if name not in OWN_COLUMNS and value is not None:
                metrics[name] = wording.number(value)
        details = json.loads(row["details"] or "{}")
        shown = {
            "scenario": row["scenario_id"],
            "index": row["index"],
            "reward": wording.number(row["reward"]),
            "success": row["success"],
            "cause": row["cause"],
            "detail": row["detail"],
            "metrics": metrics,
            "details": json.dumps(details, ensure_ascii=False, indent=2) if details else "",
            "calls": row["calls"],
            "tokens": [row["prompt_tokens"], row["completion_tokens"]],
            "policy": row["policy"],
            "conversations": conversations,
        }
        self.steps[split].setdefault(str(row["step"]), []).append(shown)
        self.bytes += len(json.dumps(shown))

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        calls = []
        made = {"tool_calls": json.loads(message["tool_calls"] or "[]")}
        for name, arguments, key in tool_calls_of(made):
            calls.append([str(key), name, self.place_of(arguments)])
        return {
            "role": message["role"],
            "text": self.place_of(message["content"] or ""),
            "calls": calls,
            "of": message["tool_call_id"],
            "sampled": message["trainable"],
        }


def gather_rollouts(
    store: Store,
    model: str,
    steps: Collection[int] = (),
    bytes_max: int = BYTES_MAX,
) -> RolloutsData:
    """Read a run's rollouts, newest steps first, until the page is full; optionally only of some
    steps. Raises StoreError if there are none."""
    kept = {split: trajectory_steps(store, model, split) for split in _SPLITS}
    known = sorted(set().union(*kept.values()), reverse=True)
    if not known:
        raise StoreError(
            f"{store.url} holds no rollouts of {model!r}.",
            f"See `precis runs list --store {quote(store.url)}` for its runs.",
        )
    wanted = [step for step in known if not steps or step in steps]
    data = RolloutsData()
    frames: dict[Split, pl.DataFrame] = {}
    for place, step in enumerate(wanted):
        if data.bytes >= bytes_max:
            data.left_out = len(wanted) - place
            break
        try:
            if place % _READ_AT_ONCE == 0:
                chunk = set(wanted[place : place + _READ_AT_ONCE])
                for split in _SPLITS:
                    frames[split] = scan_trajectories(store, model, split, chunk).collect()
            for split, frame in frames.items():
                for row in frame.filter(pl.col("step") == step).iter_rows(named=True):
                    data.add(split, row)
        except (pl.exceptions.PolarsError, AttributeError, TypeError, ValueError) as error:
            raise StoreError(
                f"The rollouts of {model!r} in {store.url} can't be read (steps {min(chunk)} to "
                f"{max(chunk)}): {error}.",
                "Name other steps with --step.",
            ) from error
    if not any(data.steps.values()):
        raise StoreError(
            f"{store.url} holds no such rollouts of {model!r}.",
            f"It has steps {known[-1]} to {known[0]}: leave out --step to see all.",
        )
    return data


def rollouts_html(data: RolloutsData, model: str, place: str, now: datetime) -> str:
    """Return the rollouts as a self-contained page, with the place and time of reading."""
    return render_page(
        "rollouts.html.j2",
        title=f"{model}: rollouts",
        facts={"store": place, "read": f"{now:%Y-%m-%d %H:%M} UTC"},
        left_out=data.left_out,
        rollouts=pack({"texts": list(data.texts), "splits": data.steps}),
    )
