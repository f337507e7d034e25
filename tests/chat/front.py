"""The chat's streams as bytes, without a socket: the real front over ASGI, in the lab's own time.

    front = Front(lab)
    body = await front.stream(chat_id, {"content": "x"}, key="k")      the whole of it
    body = await front.stream(chat_id, {"content": "x"}, key="k", last_id="1-4")

`Screen` is a client that follows the rules of docs/chat.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from rivermouth.chat.identity import Identity
from rivermouth.http.chats import ChatStreams
from rivermouth.http.lifecycle import Lifecycle
from rivermouth.log.port import ZERO, FrameId
from rivermouth.wire import json
from tests.chat.lab import PERSON, ChatLab, read_frames

ENDS = ("done", "cancelled", "error")


class Always:
    """The port `Identity`: it is always the lab's person."""

    async def identify(self, headers: Sequence[tuple[bytes, bytes]]) -> str:
        return PERSON


class Front:
    def __init__(self, lab: ChatLab, identity: Identity | None = None) -> None:
        self.streams = ChatStreams(
            lab.service,
            identity=identity or Always(),
            settings=lab.ports.settings,
            lifecycle=Lifecycle(),
            new_id=lab.ports.new_id,
            base_path="",
            body_limit_bytes=1 << 20,
        )

    async def stream(
        self, chat_id: int, body: Any, *, key: str, last_id: str | None = None, until: bytes | None = None
    ) -> bytes:
        """until: leave when this was said."""
        headers = [(b"idempotency-key", key.encode())]
        return await self._ask("POST", f"/api/chats/{chat_id}/stream", b"", json.encode(body), headers, last_id, until)

    async def events(
        self, chat_id: int, *, turn: int | None = None, last_id: str | None = None, until: bytes | None = None
    ) -> bytes:
        """Of a turn to its end, or of the chat until something was said."""
        query = f"turn={turn}".encode() if turn is not None else b""
        return await self._ask("GET", f"/api/chats/{chat_id}/events", query, b"", [], last_id, until)

    async def _ask(
        self,
        method: str,
        path: str,
        query: bytes,
        body: bytes,
        headers: list[tuple[bytes, bytes]],
        last_id: str | None,
        until: bytes | None,
    ) -> bytes:
        asked: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
        gone = asyncio.Event()
        out: list[bytes] = []

        async def receive() -> dict[str, Any]:
            if asked:
                return asked.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                assert message["status"] in (200, 204), message
            else:
                out.append(message["body"])
                if until is not None and until in message["body"]:
                    gone.set()

        if last_id is not None:
            headers = [*headers, (b"last-event-id", last_id.encode())]
        scope = {"method": method, "path": path, "headers": headers, "query_string": query, "extensions": {}}
        await self.streams(scope, receive, send)
        return b"".join(out)


class Screen:
    """What a client shows.  It applies a frame if its id is beyond the last one, or if it has none."""

    def __init__(self, cursor: FrameId = ZERO, text: str = "") -> None:
        self.cursor = cursor
        self.text = text
        self.thought = ""
        self.calls: dict[int, tuple[str, str]] = {}
        self.provider: str | None = None
        self.ends: list[str] = []
        self.rest = b""

    @property
    def shown(self) -> tuple[Any, ...]:
        return self.text, self.thought, tuple(sorted(self.calls.items())), self.provider, tuple(self.ends), self.cursor

    def copy(self) -> Screen:
        """What is left of it when its connection is cut now: a frame that was cut was not seen."""
        other = Screen(self.cursor, self.text)
        other.thought, other.calls, other.provider = self.thought, dict(self.calls), self.provider
        other.ends = list(self.ends)
        return other

    def feed(self, data: bytes) -> None:
        """Bytes as they come."""
        whole, found, self.rest = (self.rest + data).rpartition(b"\n\n")
        for frame in read_frames(whole + found) if found else ():
            at = FrameId.parse(frame["#"]) if "#" in frame else None
            if at is not None:
                if at <= self.cursor:
                    continue
                self.cursor = at
            self._apply(frame)

    def _apply(self, frame: dict[str, Any]) -> None:
        match frame["event"]:
            case "start":
                self.text, self.thought, self.calls = "", "", {}
            case "provider":
                self.provider = frame["provider"]
            case "token":
                self.text += frame["token"]
            case "reasoning":
                self.thought += frame["reasoning"]
            case "tool_call":
                name, arguments = self.calls.get(frame["part"], ("", ""))
                self.calls[frame["part"]] = (frame.get("name", name), arguments + frame.get("arguments", ""))
            case "snapshot":
                self.text = frame["text"]
            case event if event in ENDS:
                self.ends.append(event)
