"""Hides torchao from this process, so that what it imports leaves the GPU alone.

Transformers imports torchao where it is installed, as ART's GPU extra has it, and torchao asks CUDA
what kind of GPU there is. A process that has asked CUDA anything holds some hundred MB of the GPU
and can't be forked any more: vLLM's engine then imports all of it anew, for 20 s. Nothing here uses
torchao. Import this before ART.
"""

import sys

sys.modules["torchao"] = None  # type: ignore[assignment]
