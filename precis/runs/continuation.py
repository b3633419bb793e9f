"""The check that a run can be continued with the settings that it is given now."""

import json
from collections.abc import Mapping
from shlex import quote
from typing import Any

from precis.config import TrainConfig
from precis.errors import ConfigError
from precis.records.ledger import Ledger
from precis.settings.environment import label_of
from precis.settings.identity import changed_settings

_SHOWN_MAX = 5
"""Settings listed in one message; the others are counted."""


def check_settings(
    ledger: Ledger, config: TrainConfig, identity: str, corpus: str, store: str
) -> None:
    """Refuse settings that would make a stored run another one: a ConfigError names both values.
    `identity` is the digest of what decides the result now, `corpus` that of the scenarios."""
    if ledger.config == identity:
        return
    found = _differences(ledger.settings, config, is_corpus_the_same=ledger.corpus == corpus)
    ways = (
        "Restore the old settings to continue it, train under another name (model), or delete it "
        f"first with `precis runs delete {config.model} --store {quote(store)}`."
    )
    if config.environment.kind == "python":
        ways += " `precis train` takes --name a-new-name, and --fresh to begin again."
    if config.trainer.kind in ("extractive", "tool_calls"):
        ways += " `make rehearse` takes MODEL=a-new-name, and FRESH=1 to begin again."
    raise ConfigError(
        f"{store} holds a run of {ledger.model!r} with other settings: {found}.", ways
    )


def _differences(
    before: Mapping[str, Any], config: TrainConfig, *, is_corpus_the_same: bool
) -> str:
    if not before:
        return "which ones is not known, since its ledger was rebuilt"
    changed = []
    names_documents = False
    for name, was, now in changed_settings(before, config):
        if name.startswith("documents."):
            names_documents = True
            if is_corpus_the_same:  # the same documents from another file are no difference
                continue
        changed.append(f"{name} was {_shown(was)} and is {_shown(now)} now")
    said = changed[:_SHOWN_MAX]
    if len(changed) > _SHOWN_MAX:
        said.append(f"and {len(changed) - _SHOWN_MAX} more")
    environment = config.environment
    if environment.kind != "summaries":
        seen = f"{label_of(environment)}, its scenarios, or what the embedded policy sees of them"
        return "; ".join(said) or f"{seen} have changed since"
    if not is_corpus_the_same and not names_documents:
        said.append(f"the documents of {config.documents.source} have changed since")
    return "; ".join(said) or (
        "the judge's prompts or rules, the file of the warm start, or Précis's own settings, have "
        "changed since"
    )


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
