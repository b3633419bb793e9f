"""The trainer: an `art.Backend` behind HTTP, and the client that is an `art.Backend` again."""

from precis.trainer.client import RemoteTrainer

__all__ = ["RemoteTrainer"]
