"""The front switch: data-plane paths go straight to `dataplane`, everything else to the framework.

No framework stands in the way of a token; no hand-written routing where one JSON document is all there is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from rivermouth.http.chats import ChatStreams
from rivermouth.http.dataplane import DataPlane
from rivermouth.http.envelope import envelope
from rivermouth.http.headers import JSON, Header
from rivermouth.http.keys import Keys
from rivermouth.http.origins import Origins
from rivermouth.http.page import Page
from rivermouth.http.sink import Send

Scope = MutableMapping[str, Any]
AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]

OPEN_PATHS = frozenset({"/", "/health"})
"""Asked by browsers, probes and load balancers, which have no key."""


CHAT_PREFIXES = ("/api/chats/", "/api/ai/", "/api/auth/")
"""The chat application's paths, among those of another dialect under /api."""


class App:
    """The whole server as one ASGI application."""

    def __init__(
        self,
        *,
        data: DataPlane,
        streams: ChatStreams,
        chats: AsgiApp,
        page: Page,
        platform: AsgiApp,
        keys: Keys,
        origins: Origins,
        base_path: str,
    ) -> None:
        self._data = data
        self._streams = streams
        self._chats = chats
        self._page = page
        self._platform = platform
        self._keys = keys
        self._origins = origins
        self._base_path = base_path.rstrip("/")

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            await _refuse_websocket(scope, receive, send)
            return
        path = raw_path(scope)
        if self._base_path:
            if not (path + "/").startswith(self._base_path + "/"):
                await _answer(send, 404, f"this server is mounted under {self._base_path}", [])
                return
            path = path.removeprefix(self._base_path) or "/"
            decoded = scope["path"].removeprefix(self._base_path) or "/"
            scope = {**scope, "path": decoded, "raw_path": path.encode("latin-1")}
        if not (path + "/").startswith(CHAT_PREFIXES) and self._data.routes.owns(path):
            await self._data(scope, receive, send)
        else:
            await self._guarded(scope, receive, send)

    async def _guarded(self, scope: Mapping[str, Any], receive: Any, send: Send) -> None:
        """The framework's routes follow the same rules of host, origin and key."""
        headers: list[Header] = list(scope["headers"])
        verdict = self._origins.judge(scope["method"], headers)
        if verdict.preflight:
            await _answer(send, 204, "", list(verdict.cors))
        elif verdict.status:
            await _answer(send, verdict.status, verdict.message, list(verdict.cors))
        elif self._page.owns(scope["method"], scope["path"], headers):
            await self._page(scope, receive, send)
        elif (scope["path"] + "/").startswith(CHAT_PREFIXES):  # whose request it is, these ask themselves
            answering = _with_headers(send, verdict.cors) if verdict.cors else send
            await (self._streams if self._streams.owns(scope["path"]) else self._chats)(scope, receive, answering)
        elif scope["path"] not in OPEN_PATHS and not self._admitted(headers, scope["query_string"]):
            await _answer(send, 401, "no valid API key was given", list(verdict.cors))
        else:
            await self._platform(scope, receive, _with_headers(send, verdict.cors) if verdict.cors else send)

    def _admitted(self, headers: list[Header], query: bytes) -> bool:
        return self._keys.open or self._keys.name_of(headers, query) is not None


def raw_path(scope: Mapping[str, Any]) -> str:
    """The path as it came, still percent-encoded: a model's id with %2F in it is one segment."""
    raw: bytes = scope["raw_path"]
    return raw.partition(b"?")[0].decode("latin-1")


def _with_headers(send: Send, extra: tuple[Header, ...]) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, message: str, headers: list[Header]) -> None:
    body = envelope(status, message) if message else b""
    start = {"type": "http.response.start", "status": status, "headers": [JSON, *headers]}
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _refuse_websocket(scope: Scope, receive: Any, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1003})
