"""The changes of vLLM's engine, made in its own process before it loads a model.

vLLM imports this module as its `worker_extension_cls`.
"""

import torch

from precis.trainer.gpu import lora
from precis.trainer.gpu.outputs import send_in_groups


class Extension:
    """Adds nothing to vLLM's worker: importing this module is the purpose."""


lora.extend_layers()
# The engine computes on its GPU. With a thread for each core, each of an adapter's small tensors
# waited for the slowest of them: two seconds a step on a busy host.
torch.set_num_threads(1)
send_in_groups()
