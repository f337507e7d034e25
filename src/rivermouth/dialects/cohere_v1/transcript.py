"""What has been said so far: the `response` that ends a stream is the whole answer once more.

Texts are kept as the JSON strings that went out, so that `response.text` is to the byte what its pieces say.  The last
line has them up to three times, so an answer has to be a good deal shorter than the lines that readers take.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.cohere_v1.calls import write_call
from rivermouth.dialects.cohere_v1.tables import NAME
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Usage
from rivermouth.ir.request import Request, ToolCall
from rivermouth.vendors.cohere.counts import write_counts
from rivermouth.wire import json

CAP_BYTES: Final = 4 * 1024 * 1024
VERSION: Final = "1"
_ITEMS: Final = json.typed(list[msgspec.Raw])


class Transcript:
    """Bounded: what does not fit any more is not kept, and neither is what came before it."""

    __slots__ = ("_bytes", "_calls", "_cap", "_texts")

    def __init__(self, cap_bytes: int = CAP_BYTES) -> None:
        self._cap = cap_bytes
        self._texts: list[bytes] = []
        self._calls: list[tuple[str, str, list[str]]] = []
        self._bytes = 0

    @property
    def complete(self) -> bool:
        """Whether it holds all that was said."""
        return self._bytes <= self._cap

    def text(self, encoded: bytes) -> bool:
        """A piece of text, as a JSON string.  False: the answer has become too long to be repeated."""
        self._bytes += len(encoded)
        if self._bytes > self._cap:
            return self._forget()
        self._texts.append(encoded)
        return True

    def call(self, identity: str, name: str) -> int:
        """A call begins; its index."""
        self._calls.append((identity, name, []))
        return len(self._calls) - 1

    def argue(self, index: int, arguments: str) -> bool:
        """A piece of a call's arguments.  False: the answer has become too long to be repeated."""
        self._bytes += len(arguments.encode("utf-8", "replace"))
        if self._bytes > self._cap:
            return self._forget()
        self._calls[index][2].append(arguments)
        return True

    def _forget(self) -> bool:
        self._texts.clear()
        for _, _, said in self._calls:
            said.clear()
        return False

    def calls(self) -> list[dict[str, Any]]:
        """The calls, whole, as they are written."""
        return [write_call(ToolCall(identity, name, "".join(said))) for identity, name, said in self._calls]

    def response(self, answer: Answer, word: str, usage: Usage | None) -> dict[str, Any]:
        """The whole answer, as a reply without a stream gives it; one that was not kept is left out."""
        text = msgspec.Raw(b'"' + b"".join(piece[1:-1] for piece in self._texts) + b'"')
        called = {"tool_calls": self.calls()} if self._calls and self.complete else {}
        return {
            "response_id": answer.id,
            "id": answer.id,
            "generation_id": answer.id,
            "text": text,
            "message": {"role": "assistant", "content": text},
            **called,
            **_history(answer.request, {"role": "CHATBOT", "message": text, **called}),
            "finish_reason": word,
            "meta": {"api_version": {"version": VERSION}, **write_counts(usage)},
        }

    def statistics(self) -> dict[str, int]:
        return {"held_bytes": self._bytes if self.complete else 0, "cap_bytes": self._cap}


def too_long() -> ApiError:
    """Why an answer that does not fit cannot end well."""
    return ApiError(Kind.UPSTREAM, f"the answer exceeds the {CAP_BYTES} bytes that this protocol can repeat at its end")


def _history(request: Request | None, spoken: dict[str, Any]) -> dict[str, Any]:
    """The talk with this answer, which clients send back as their next `chat_history`."""
    if request is None or request.original is None or request.original.dialect != NAME:
        return {}
    fields = request.original.fields
    turns: list[Any] = list(_items(fields, "chat_history"))
    message = fields.get("message")
    if message is not None and bytes(message) not in (b'""', b"null"):
        turns.append({"role": "USER", "message": message})
    results = _items(fields, "tool_results")
    if results:
        turns.append({"role": "TOOL", "tool_results": results})
    return {"chat_history": [*turns, spoken]}


def _items(fields: dict[str, msgspec.Raw], name: str) -> list[msgspec.Raw]:
    raw = fields.get(name, msgspec.Raw(b"null"))
    return [] if bytes(raw) == b"null" else json.decode_as(_ITEMS, raw)
