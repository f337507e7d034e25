"""Events to a client's NDJSON, and a whole reply to its one object.

A frame is a constant head (model, time), the encoded text and a constant tail; the head never changes in a stream, so
the same events always give the same bytes.  Calls are buffered until they are whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.ollama.calls import as_text, wire_call
from rivermouth.dialects.ollama.failure import stream_error
from rivermouth.dialects.ollama.tables import DONE_REASONS
from rivermouth.dialects.ollama.times import rfc3339_ns
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.reply import Reply, ReplyPart
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Request, Text, ToolCall
from rivermouth.wire import json
from rivermouth.wire.frame import FRAME_CAP_BYTES


class _Content(NamedTuple):
    """What one frame says beside its head."""

    text: str = ""
    thinking: str = ""
    calls: tuple[dict[str, Any], ...] = ()


class _Shape(NamedTuple):
    """Where one route's frames put the text: templates for the hot path, a function for all else."""

    text: bytes
    thinking: bytes
    tail: bytes
    members: Callable[[_Content], dict[str, Any]]


def _message(content: _Content) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content.text, **_extras(content)}}


def _response(content: _Content) -> dict[str, Any]:
    return {"response": content.text, **_extras(content)}


def _extras(content: _Content) -> dict[str, Any]:
    thinking = {"thinking": content.thinking} if content.thinking else {}
    return {**thinking, "tool_calls": content.calls} if content.calls else thinking


_SHAPES: Final[dict[str, _Shape]] = {
    "chat": _Shape(
        text=b'"message":{"role":"assistant","content":',
        thinking=b'"message":{"role":"assistant","content":"","thinking":',
        tail=b'},"done":false}\n',
        members=_message,
    ),
    "generate": _Shape(
        text=b'"response":',
        thinking=b'"response":"","thinking":',
        tail=b',"done":false}\n',
        members=_response,
    ),
}


class Encoder:
    """Speaks choice 0 of one stream.  After Finish or Error it says nothing more."""

    __slots__ = (
        "_answer",
        "_buffered_bytes",
        "_calls",
        "_cap_bytes",
        "_done",
        "_index",
        "_media",
        "_muted",
        "_tail",
        "_text",
        "_thinking",
        "_usage",
    )

    def __init__(self, answer: Answer, cap_bytes: int = FRAME_CAP_BYTES) -> None:
        shape = _SHAPES[answer.kind]
        head = json.encode(_head(answer))[:-1] + b","
        self._text = head + shape.text
        self._thinking = head + shape.thinking
        self._tail = shape.tail
        self._answer = answer
        self._calls: dict[int, tuple[PartStart, list[str]]] = {}
        self._media: dict[int, PartKind] = {}
        self._muted: set[int] = set()
        self._index = 0
        self._usage: Usage | None = None
        self._done = False
        self._buffered_bytes = 0
        self._cap_bytes = cap_bytes

    def feed(self, events: list[Event]) -> bytes:
        """The lines of these events, all at once."""
        return b"" if self._done else b"".join(self._lines(events))

    def _lines(self, events: list[Event]) -> list[bytes]:
        out: list[bytes] = []
        muted = self._muted
        for event in events:
            kind = type(event)
            if kind is TextDelta:
                if event.part not in muted:  # type: ignore[union-attr]
                    out += (self._text, json.encode(event.text), self._tail)  # type: ignore[union-attr]
            elif kind is ReasoningDelta:
                if event.part not in muted:  # type: ignore[union-attr]
                    out += (self._thinking, json.encode(event.text), self._tail)  # type: ignore[union-attr]
            else:
                out.append(self._rare(event))
                if self._done:
                    break
        return out

    def statistics(self) -> dict[str, int]:
        """What the calls that are not yet whole take up."""
        return {"buffered_bytes": self._buffered_bytes, "cap_bytes": self._cap_bytes}

    def _rare(self, event: Event) -> bytes:
        match event:
            case PartStart():
                self._open(event)
            case ArgsDelta():
                return self._buffer(event)
            case MediaDelta() if event.part in self._media:
                return self._frame(_Content(_link(self._media[event.part], event)))
            case PartEnd():
                return self._close(event.part)
            case Usage():
                self._usage = merge_usage(self._usage, event)
            case Finish():
                self._done = True
                return _final(self._answer, event.reason, self._usage, _Content()) + b"\n"
            case Error():
                return self._fail(event.error)
            case _:  # Start, Signature, Warn and Unknown have no place on this wire
                pass
        return b""

    def _open(self, head: PartStart) -> None:
        if head.choice != 0:
            self._muted.add(head.part)
        elif head.kind is PartKind.TOOL:
            self._calls[head.part] = (head, [])
        elif head.kind in (PartKind.IMAGE, PartKind.FILE):
            self._media[head.part] = head.kind

    def _buffer(self, delta: ArgsDelta) -> bytes:
        call = self._calls.get(delta.part)
        if call is None:
            return b""
        call[1].append(delta.json)
        self._buffered_bytes += len(delta.json)
        if self._buffered_bytes <= self._cap_bytes:
            return b""
        return self._fail(ApiError(Kind.UPSTREAM, f"the arguments of a tool call exceed {self._cap_bytes} bytes"))

    def _close(self, part: int) -> bytes:
        buffered = self._calls.pop(part, None)
        if buffered is None:
            return b""
        head, pieces = buffered
        self._buffered_bytes -= sum(map(len, pieces))
        call = ToolCall(head.id or "", head.name or "", "".join(pieces))
        spoken = wire_call(call, self._index)
        if spoken is None:
            return self._frame(_Content(as_text(call)))
        self._index += 1
        return self._frame(_Content(calls=(spoken,)))

    def _frame(self, content: _Content) -> bytes:
        answer = self._answer
        return json.encode({**_head(answer), **_SHAPES[answer.kind].members(content), "done": False}) + b"\n"

    def _fail(self, error: ApiError) -> bytes:
        self._done = True
        self._calls.clear()
        return stream_error(error)


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The whole answer as one object: the last frame's shape with all of the text."""
    choice = reply.choices[0]
    texts: list[str] = []
    thinking: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in choice.parts:
        match part:
            case Reasoning():
                thinking.append(part.text)
            case ToolCall() if (spoken := wire_call(part, len(calls))) is not None:
                calls.append(spoken)
            case _:
                texts.append(_as_text(part))
    content = _Content("".join(texts), "".join(thinking), tuple(calls))
    return _final(answer, choice.reason, reply.usage, content)


def standby(request: Request) -> str | None:
    """ "load" or "unload" when the request has nothing to answer and is only about the model in memory, else None."""
    if request.messages:
        return None
    return "unload" if request.local.keep_alive_s == 0 else "load"


def encode_standby(request: Request, answer: Answer) -> bytes:
    """The one JSON document that answers a load or an unload, also when a stream was asked for: no counters."""
    members = _SHAPES[answer.kind].members(_Content())
    return json.encode({**_head(answer), **members, "done": True, "done_reason": standby(request) or "load"})


def _head(answer: Answer) -> dict[str, Any]:
    return {"model": answer.model, "created_at": rfc3339_ns(answer.created_ns)}


def _final(answer: Answer, reason: Reason, usage: Usage | None, content: _Content) -> bytes:
    members = _SHAPES[answer.kind].members(content)
    done = {"done": True, "done_reason": DONE_REASONS[reason]}
    return json.encode({**_head(answer), **members, **done, **_counters(answer, usage or Usage())})


def _counters(answer: Answer, usage: Usage) -> dict[str, int]:
    """Durations are nanoseconds.  Zero is left out, as Go does, and so is what nobody knows."""
    said = {
        "total_duration": answer.total_ns,
        "load_duration": usage.load_ns,
        "prompt_eval_count": usage.input_tokens,
        "prompt_eval_duration": usage.prompt_ns,
        "eval_count": usage.output_tokens,
        "eval_duration": usage.output_ns,
    }
    return {name: value for name, value in said.items() if value}


def _as_text(part: ReplyPart) -> str:
    match part:
        case Text() | Refusal():
            return part.text
        case ToolCall():
            return as_text(part)
        case Image():
            return _link(PartKind.IMAGE, MediaDelta(0, part.media_type, part.data, part.url))
        case File():
            return _link(PartKind.FILE, MediaDelta(0, part.media_type, part.data, part.url))
        case Reasoning():
            return ""


def _link(kind: PartKind, media: MediaDelta) -> str:
    """An image or file as Markdown: this wire has no other place that its clients can read."""
    target = media.url or f"data:{media.media_type or 'application/octet-stream'};base64,{media.data or ''}"
    return f"![image]({target})" if kind is PartKind.IMAGE else f"[file]({target})"
