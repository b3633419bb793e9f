"""Précis trains a small open model to write summaries that keep the facts.

Nothing in this package imports Prefect: `flows/` and `tasks/` add the orchestration.
"""

import os
import sys

from precis.deferred_imports import DeferringFinder

sys.meta_path.insert(0, DeferringFinder())
# litellm would otherwise fetch a price list from the network on import.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# transformers would warn on import that there is no PyTorch, which we don't need.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

__version__ = "0.1.0"
