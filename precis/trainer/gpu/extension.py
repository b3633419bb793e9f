"""The changes of vLLM's engine, made in its own process before it loads a model.

vLLM imports this module as its `worker_extension_cls`.
"""

from precis.trainer.gpu import lora
from precis.trainer.gpu.outputs import send_in_groups


class Extension:
    """Nothing to add to vLLM's worker: importing this module is what counts."""


lora.extend_layers()
send_in_groups()
