"""Hides torchao from this process, so that its imports leave the GPU alone.

Transformers imports torchao if it is installed, as with ART's GPU extra, and torchao asks CUDA for
the kind of GPU. A process that has used CUDA holds some hundred MB of the GPU and can't be forked:
vLLM's engine then has to import everything again, for 20 s. Nothing here uses torchao. Import this
before ART.
"""

import sys

sys.modules["torchao"] = None  # type: ignore[assignment]
