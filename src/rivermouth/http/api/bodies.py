"""In front of the framework: the whole body of a request, within bounds, before any handler runs.

The framework reads a body when a handler asks for it, for as long as the client likes and before anybody has said who
they are; a client that leaves meanwhile would be a fault of ours in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import structlog

from rivermouth.http.body import ClientLeft, Receive, read_body
from rivermouth.http.chats import answer_error
from rivermouth.http.envelope import envelope
from rivermouth.http.headers import JSON, Header
from rivermouth.http.sink import Send
from rivermouth.ir.errors import ApiError

log = structlog.get_logger()

BODY_S: Final = 30.0
BODY_BYTES: Final = 1024 * 1024
"""The longest document here is a chat's instructions."""

App = Callable[[Any, Any, Any], Awaitable[None]]
Refuse = Callable[[Send, ApiError, Sequence[Header]], Awaitable[None]]


def route_of(scope: Any) -> str:
    """The path as its route has it, for the log: a path itself may name a person."""
    return str(scope.get("path_template", ""))


async def answer_in_envelope(send: Send, error: ApiError, more: Sequence[Header]) -> None:
    """An error outside every dialect, and outside the chat."""
    body = envelope(error.status, error.message, error.code)
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": error.status, "headers": [JSON, length, *more]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


class WholeBodies:
    """`app` gets requests whose bodies are here already.

    reads: False for a request that `app` refuses unread; nobody waits for the body of such a one.
    refuse: says in the words of `app` what was wrong with a body.
    """

    def __init__(
        self,
        app: App,
        *,
        reads: Callable[[Any], bool] = lambda scope: True,
        refuse: Refuse = answer_error,
        limit_bytes: int = BODY_BYTES,
        limit_s: float = BODY_S,
    ) -> None:
        self._app = app
        self._reads = reads
        self._refuse = refuse
        self._limit_bytes = limit_bytes
        self._limit_s = limit_s

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if not self._reads(scope):
            await self._app(scope, receive, send)
            return
        headers: list[Header] = list(scope["headers"])
        try:
            body = await read_body(receive, headers, self._limit_bytes, self._limit_s)
        except ClientLeft:
            log.debug("request.abandoned", path=scope["path"])
            return
        except ApiError as error:
            await self._refuse(send, error, [(b"connection", b"close")])
            return
        given = False

        async def again() -> Any:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)
