"""The kinds of embedded policies, and the kind of a checkpoint."""

import json
from pathlib import Path

from precis.errors import CorruptCheckpoint
from precis.rehearsal.checkpoint_files import POLICY_FILE
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.kind import PolicyKind
from precis.rehearsal.tool_calls.kind import TOOL_CALLS

_KINDS: dict[str, PolicyKind] = {one.layout.kind: one for one in (SENTENCES, TOOL_CALLS)}


def kind_in(folder: Path) -> PolicyKind:
    """Return the kind of the policy in a checkpoint's folder."""
    file = folder / POLICY_FILE
    try:
        return _KINDS[json.loads(file.read_text(encoding="utf-8"))["policy"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        known = " or ".join(_KINDS)
        raise CorruptCheckpoint(f"{file} holds no policy of the kind {known}.") from error
