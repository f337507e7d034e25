"""The front switch: data-plane paths go straight to `dataplane`, everything else to the framework.

No framework stands in the way of a token; no hand-written routing where one JSON document is all there is.

What depends on the configuration is a `Front`.  A request takes the one that is there when it comes, and keeps it to
its end, with its edition if it asks something of that; a reload puts another in its place.  Who follows a chat may stay
for days and asks nothing of it: a turn enters the edition that is current when it begins.

Behind the switch a request is what it was before trusted proxies passed it on: the scope's `client` and `scheme`, and
the Host header, are those of `proxies`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec

from rivermouth.editions import Edition
from rivermouth.http.api.platform.visitor import PREFIX, VISITOR, Visitor
from rivermouth.http.chats import ChatStreams
from rivermouth.http.dataplane import DataPlane
from rivermouth.http.envelope import envelope
from rivermouth.http.headers import JSON, Header
from rivermouth.http.keys import Keys
from rivermouth.http.origins import Origins
from rivermouth.http.page import Page
from rivermouth.http.persons import Persons
from rivermouth.http.proxies import Proxies
from rivermouth.http.resume import Connection, Resumption
from rivermouth.http.rules import Rules
from rivermouth.http.sink import Send

Scope = MutableMapping[str, Any]
AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]

OPEN_PATHS = frozenset({"/", "/health"})
"""Asked by browsers, probes and load balancers, which have no key."""


CHAT_PREFIXES = ("/api/chats/", "/api/ai/", "/api/auth/")
"""The chat application's paths, among those of another dialect under /api."""


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before one edition."""

    edition: Edition
    data: DataPlane
    streams: ChatStreams
    persons: Persons
    rules: Rules
    keys: Keys
    origins: Origins
    proxies: Proxies

    def admits(self, headers: list[Header], query: bytes) -> bool:
        """Everybody may call, or a good key is there."""
        return self.keys.caller(headers, query) is not None


class App:
    """The whole server as one ASGI application.  `front`: the one that new requests take."""

    def __init__(
        self,
        front: Front,
        *,
        chats: AsgiApp,
        page: Page,
        platform: AsgiApp,
        resumption: Resumption,
        rest: AsgiApp,
        base_path: str,
    ) -> None:
        self.front = front
        self._chats = chats
        self._page = page
        self._platform = platform
        self._resumption = resumption
        self._rest = rest
        self._base_path = base_path.rstrip("/")

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            await _refuse_websocket(scope, receive, send)
            return
        front, extensions = self.front, scope.get("extensions")
        if front.proxies:
            scope = front.proxies.seen(scope)
        try:
            await self._switch(front, scope, receive, send)
        finally:
            if extensions:
                extensions.clear()  # they and the request hold each other (`protocol`)

    async def _switch(self, front: Front, scope: Scope, receive: Any, send: Send) -> None:
        path = raw_path(scope)
        if self._base_path:
            if not (path + "/").startswith(self._base_path + "/"):
                await _answer(send, 404, f"this server is mounted under {self._base_path}", [])
                return
            path = path.removeprefix(self._base_path) or "/"
            decoded = scope["path"].removeprefix(self._base_path) or "/"
            scope = {**scope, "path": decoded, "raw_path": path.encode("latin-1")}
        if not (path + "/").startswith(CHAT_PREFIXES) and front.data.routes.owns(path):
            with front.edition:
                await front.data(scope, receive, send)
        else:
            await self._guarded(front, scope, receive, send)

    async def _guarded(self, front: Front, scope: Mapping[str, Any], receive: Any, send: Send) -> None:
        """The framework's routes follow the same rules of host, origin and key."""
        headers: list[Header] = list(scope["headers"])
        verdict = front.origins.judge(scope["method"], headers)
        if verdict.preflight:
            await _answer(send, 204, "", list(verdict.cors))
        elif verdict.status:
            await _answer(send, verdict.status, verdict.message, list(verdict.cors))
        elif scope["path"].startswith(PREFIX):  # what who may there, these ask themselves
            caller = front.keys.caller(headers, scope["query_string"])
            visited = {**scope, VISITOR: Visitor(front.edition, caller)}
            with front.edition:
                await self._platform(visited, receive, _with_headers(send, verdict.cors) if verdict.cors else send)
        elif self._resumption.owns(scope["path"]):  # a reader asks nothing of its edition, and may stay for long
            await self._resumption(front.keys, scope, Connection.of(scope, receive, send, verdict.cors))
        elif self._page.owns(scope["method"], scope["path"], headers):
            await self._page(scope, receive, send)
        elif (scope["path"] + "/").startswith(CHAT_PREFIXES):  # whose request it is, these ask themselves
            answering = _with_headers(send, verdict.cors) if verdict.cors else send
            await (front.streams if front.streams.owns(scope["path"]) else self._chats)(scope, receive, answering)
        elif scope["path"] not in OPEN_PATHS and not front.admits(headers, scope["query_string"]):
            await _answer(send, 401, "no valid API key was given", list(verdict.cors))
        else:
            await self._rest(scope, receive, _with_headers(send, verdict.cors) if verdict.cors else send)


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
