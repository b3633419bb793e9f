"""Précis trains a small open model to write summaries that keep the facts.

Everything in this package is true without Prefect, and nothing in it imports Prefect:
`flows/` and `tasks/` add the orchestration.
"""

import os

from precis.deferred_imports import defer_imports

defer_imports()
# litellm would otherwise fetch a price list from the network on import.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# transformers would say first of all that there is no PyTorch: none is needed.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

__version__ = "0.1.0"
