"""A trainer that ends when its client is gone for good, so that its machine can be given back.

The flow says every few seconds that it is there (`precis.cluster.skypilot`), also while nothing is
asked of the trainer; an answer that is still under way counts as well.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_STOP_S = 15.0
"""How long it may take to stop in order."""
_log = logging.getLogger(__name__)


class Presence:
    """Ends this process when no client was heard of for `lost_s` seconds; never, where that is 0.

    with presence.answering():      # a request of the client's
        …
        presence.heard()            # it was answered
    """

    def __init__(self, lost_s: float) -> None:
        self._lost_s = lost_s
        self._heard = time.monotonic()
        self._answering = 0
        if lost_s:
            threading.Thread(target=self._watch, daemon=True).start()

    def heard(self) -> None:
        """A client is there."""
        self._heard = time.monotonic()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A client waits for an answer while the block lasts."""
        self._answering += 1
        try:
            yield
        finally:
            self._answering -= 1

    def _watch(self) -> None:
        while (left := self._heard + self._lost_s - time.monotonic()) > 0 or self._answering:
            time.sleep(max(left, 0.1))
        _log.warning("No client was heard of for %.0f s: the trainer ends.", self._lost_s)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_STOP_S)
        os._exit(0)  # what is left of this process waits for a child that does not end
