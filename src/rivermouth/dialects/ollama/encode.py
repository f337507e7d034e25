"""Events to a client's NDJSON, and a whole reply to its one object.

A frame is a constant head (model, time), the encoded text and a constant tail; the head never changes in a stream, so
the same events always give the same bytes.  Calls are buffered until they are whole, and of parts that overlap in one
member (`content`, `thinking`) one speaks and the others wait.
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
from rivermouth.ir.lanes import WAITING_CAP_CHARS, Lanes, Said
from rivermouth.ir.reply import Reply, ReplyPart
from rivermouth.ir.request import File, Image, Reasoning, Refusal, Request, Text, ToolCall
from rivermouth.wire import json
from rivermouth.wire.stencil import Stencil

_encode: Final = json.encode


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


_LINKED: Final = frozenset({PartKind.IMAGE, PartKind.FILE})
# The members that parts of a choice share; the rest have their place in "content".
_MEMBERS: Final = {PartKind.REASONING: "thinking"}


class Encoder:
    """Speaks choice 0 of one stream.  After Finish or Error it says nothing more.

    Raises `ApiError` when what has to wait is more than the cap; what came before it goes out before the error.
    """

    __slots__ = (
        "_answer",
        "_buffered_chars",
        "_calls",
        "_cap_chars",
        "_done",
        "_index",
        "_lanes",
        "_media",
        "_silent",
        "_tail",
        "_text",
        "_thinking",
        "_unsent",
        "_usage",
    )

    def __init__(self, answer: Answer, cap_chars: int = WAITING_CAP_CHARS) -> None:
        shape = _SHAPES[answer.kind]
        head = json.encode(_head(answer))[:-1] + b","
        self._text = head + shape.text
        self._thinking = head + shape.thinking
        self._tail = shape.tail
        self._answer = answer
        self._calls: dict[int, tuple[PartStart, list[str]]] = {}
        self._buffered_chars = 0  # of the calls
        self._cap_chars = cap_chars
        self._media: dict[int, PartKind] = {}
        self._lanes = Lanes(cap_chars)
        self._silent: set[int] = set()  # parts that wait, and those of other choices
        self._unsent: list[bytes] = []
        self._index = 0
        self._usage: Usage | None = None
        self._done = False

    def feed(self, events: list[Event]) -> bytes:
        """The lines of these events, all at once."""
        if self._done:
            return b""
        out: list[bytes] = []
        try:
            self._write(events, out)
        except ApiError:
            self._unsent += out
            raise
        return b"".join(out)

    def _write(self, events: list[Event], out: list[bytes]) -> None:
        silent = self._silent
        for event in events:
            kind = type(event)
            if kind is TextDelta and event.part not in silent:  # type: ignore[union-attr]
                out += (self._text, _encode(event.text), self._tail)  # type: ignore[union-attr]
            elif kind is ReasoningDelta and event.part not in silent:  # type: ignore[union-attr]
                out += (self._thinking, _encode(event.text), self._tail)  # type: ignore[union-attr]
            else:
                self._rare(event, out)
                if self._done:
                    break

    def plain(self, part: int) -> Stencil | None:
        """What stands around the next delta of a part of text, as long as nothing else is said."""
        if part in self._silent or self._done:
            return None
        return Stencil(self._text + b'"', b'"' + self._tail)

    def statistics(self) -> dict[str, int]:
        """`waiting_chars` (of calls that are not yet whole, and of parts that wait for others) and `cap_chars`."""
        waits = self._lanes.statistics()
        return {**waits, "waiting_chars": waits["waiting_chars"] + self._buffered_chars}

    def _rare(self, event: Event, out: list[bytes]) -> None:
        match event:
            case PartStart():
                self._open(event)
            case ArgsDelta():
                self._buffer(event)
            case TextDelta() | ReasoningDelta() | MediaDelta() | PartEnd() if event.part in self._silent:
                if self._lanes.waits(event.part):
                    self._lanes.hold(event.part, event)
            case MediaDelta():
                out.append(self._frame(_Content(_link(self._media[event.part], event))))
            case PartEnd():
                self._close(event.part, out)
            case Usage():
                self._usage = merge_usage(self._usage, event)
            case Finish():
                self._done = True
                out.append(_final(self._answer, event.reason, self._usage, _Content()) + b"\n")
            case Error():
                out[:0] = self._unsent
                self._take_turns(self._lanes.drain(), out)  # what was produced is not kept back
                self._done = True
                self._calls.clear()
                out.append(stream_error(event.error))
            case _:  # Start, Signature, Warn and Unknown have no place on this wire
                pass

    def _open(self, head: PartStart) -> None:
        if head.choice != 0:
            self._silent.add(head.part)
        elif head.kind is PartKind.TOOL:
            self._calls[head.part] = (head, [])
        else:
            if head.kind in _LINKED:
                self._media[head.part] = head.kind
            if not self._lanes.open(head.part, _MEMBERS.get(head.kind, "content")):
                self._silent.add(head.part)

    def _take_turns(self, turns: list[Said], out: list[bytes]) -> None:
        """Parts that waited say what they have to say."""
        for part, events, _ in turns:
            self._silent.discard(part)
            self._write(events, out)

    def _buffer(self, delta: ArgsDelta) -> None:
        call = self._calls.get(delta.part)
        if call is None:
            return
        self._buffered_chars += len(delta.json)
        if self._buffered_chars > self._cap_chars:
            raise ApiError(Kind.UPSTREAM, f"the arguments of a tool call exceed {self._cap_chars} characters")
        call[1].append(delta.json)

    def _close(self, part: int, out: list[bytes]) -> None:
        buffered = self._calls.pop(part, None)
        if buffered is None:
            self._take_turns(self._lanes.close(part), out)
            return
        head, pieces = buffered
        self._buffered_chars -= sum(map(len, pieces))
        call = ToolCall(head.id or "", head.name or "", "".join(pieces))
        spoken = wire_call(call, self._index)
        if spoken is None:
            out.append(self._frame(_Content(as_text(call))))
        else:
            self._index += 1
            out.append(self._frame(_Content(calls=(spoken,))))

    def _frame(self, content: _Content) -> bytes:
        answer = self._answer
        return json.encode({**_head(answer), **_SHAPES[answer.kind].members(content), "done": False}) + b"\n"


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
