"""In front of the framework: the whole body of a request, within bounds, before any handler runs.

The framework reads a body when a handler asks for it, for as long as the client likes and before anybody has said who
they are; a client that leaves meanwhile would be a fault of ours in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog

from rivermouth.http.body import ClientLeft, Receive, read_body
from rivermouth.http.chats import answer_error
from rivermouth.http.headers import Header
from rivermouth.http.sink import Send
from rivermouth.ir.errors import ApiError

log = structlog.get_logger()

BODY_S: Final = 30.0
BODY_BYTES: Final = 1024 * 1024
"""The longest document here is a chat's instructions."""

App = Callable[[Any, Any, Any], Awaitable[None]]


class WholeBodies:
    """`app` gets requests whose bodies are here already."""

    def __init__(self, app: App, *, limit_bytes: int = BODY_BYTES, limit_s: float = BODY_S) -> None:
        self._app = app
        self._limit_bytes = limit_bytes
        self._limit_s = limit_s

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        headers: list[Header] = list(scope["headers"])
        try:
            body = await read_body(receive, headers, self._limit_bytes, self._limit_s)
        except ClientLeft:
            log.debug("request.abandoned", path=scope["path"])
            return
        except ApiError as error:
            await answer_error(send, error, [(b"connection", b"close")])
            return
        given = False

        async def again() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)
