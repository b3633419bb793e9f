"""A trainer that ends when its client is gone for good, so that its machine can be given back.

The flow says every few seconds that it is there (`precis.cluster.skypilot`), also while nothing is
asked of the trainer; an answer that is still under way counts as well. Who asks without the token
does not.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

_STOP_S = 15.0
"""How long it may take to stop in order."""
_log = logging.getLogger(__name__)


class EndsWithClient:
    """ASGI middleware that ends this process when no client was heard of for `lost_s` seconds."""

    def __init__(self, app: ASGIApp, lost_s: float) -> None:
        self._app, self._lost_s = app, lost_s
        self._heard, self._answering = time.monotonic(), 0
        threading.Thread(target=self._watch, daemon=True).start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the server's own lifespan lasts as long as this process
            return await self._app(scope, receive, send)

        async def heard(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and message["status"] != 401:
                self._heard = time.monotonic()
            await send(message)

        self._answering += 1
        try:
            await self._app(scope, receive, heard)
        finally:
            self._answering -= 1

    def _watch(self) -> None:
        while (left := self._heard + self._lost_s - time.monotonic()) > 0 or self._answering:
            time.sleep(max(left, 0.1))
        _log.warning("No client was heard of for %.0f s: the trainer ends.", self._lost_s)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_STOP_S)
        os._exit(0)  # what is left of this process waits for a child that does not end
