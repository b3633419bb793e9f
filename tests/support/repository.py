"""The repository's own files, as tests read them."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
"""All that is written for people who use Précis or work on it."""


def deployments_in(*manifests: Path) -> dict[str, dict[str, Any]]:
    """The deployments of these manifests, by the names that Prefect gives them."""
    found = {}
    for manifest in manifests:
        for entry in yaml.safe_load(manifest.read_text())["deployments"]:
            flow = entry["entrypoint"].rpartition(":")[2].replace("_", "-")
            found[f"{flow}/{entry['name']}"] = entry
    return found
