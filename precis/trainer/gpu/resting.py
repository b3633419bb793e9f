"""The place of the base model's weights while vLLM has the GPU's memory."""

import torch


class RestingWeights:
    """A copy of a model's frozen weights in the machine's memory, in pages that the GPU reads.

    Training never changes them, so they are copied there once, and from then on only back: 6 GB
    take a fraction of a second, instead of seconds each way through ordinary memory.

    Args:
        model: its frozen weights are copied; those of 4 bits are left to the model's own `to`,
            since they have a state of their own.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._copies = []
        for weight in model.parameters():
            if type(weight) is torch.nn.Parameter and not weight.requires_grad:
                copy = weight.data.cpu()
                self._copies.append((weight, copy.pin_memory() if weight.is_cuda else copy))

    def move_to(self, device: str) -> None:
        """Have the model's weights be on a device; on the CPU they are the copy itself."""
        for weight, copy in self._copies:
            weight.data = copy if device == "cpu" else copy.to(device, non_blocking=True)
