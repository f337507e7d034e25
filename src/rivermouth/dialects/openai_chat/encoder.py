"""Events to a stream of this dialect.  Deterministic; the constant parts of a frame are made once for each part."""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.dialect import ROLE_EVERY, ROLE_WITH_CONTENT, Answer
from rivermouth.dialects.openai_chat.failures import encode_stream_error
from rivermouth.dialects.openai_chat.tables import DELTA_MEMBER, FINISH_OUT
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
    Signature,
    Start,
    TextDelta,
    Usage,
    merge_usage,
)
from rivermouth.ir.lanes import WAITING_CAP_CHARS, Lanes, Said
from rivermouth.ir.request import Request
from rivermouth.vendors.openai import free_form
from rivermouth.vendors.openai.usage import write_usage
from rivermouth.wire import json, sse
from rivermouth.wire.stencil import Stencil

DONE: Final = sse.data(b"[DONE]")
PROSE: Final = frozenset({PartKind.TEXT, PartKind.REASONING, PartKind.REFUSAL})
_encode: Final = json.encode


class ChoiceFrames:
    """One choice as far as it was written: its constant bytes, and how many calls and details it has."""

    __slots__ = ("calls", "details", "head", "index", "media")

    def __init__(self, index: int, head: bytes) -> None:
        self.index = index
        self.head = head
        self.calls = 0
        self.details = 0
        self.media = {PartKind.IMAGE: 0, PartKind.FILE: 0}


class OpenCall:
    """An open tool call: the bytes around a piece of its arguments, or the pieces, if they must be sent whole."""

    __slots__ = ("choice", "held", "id", "name")

    def __init__(self, choice: ChoiceFrames, identity: str, name: str) -> None:
        self.choice = choice
        self.id = identity
        self.name = name
        self.held: list[str] = []


class Encoder:
    """Events in, bytes out.  The role once for each choice; `[DONE]` after Finish only; nothing after an end.

    The wire has one string for all prose of a kind, so of the parts that are open one speaks and the others wait.
    Raises `ApiError` when what waits is more than the cap; what came before it goes out before the error.
    """

    def __init__(self, answer: Answer) -> None:
        options = answer.surface.options
        request = answer.request
        self._answer = answer
        self._wants_usage = request is not None and request.include_usage
        self._legacy = uses_functions(request)
        self._custom = custom_tools(request)
        created = answer.created_ns // 1_000_000_000
        identity, model = _encode(f"chatcmpl-{answer.id}"), _encode(answer.model)
        self._open = b'data: {"id":%s,"object":"chat.completion.chunk","created":%d,"model":%s,"choices":[' % (
            identity,
            created,
            model,
        )
        close = b'],"usage":null}\n\n' if self._wants_usage else b"]}\n\n"
        self._tail = b'},"finish_reason":null}' + close
        self._close = close
        self._role = b'"role":"assistant","content":""' if ROLE_WITH_CONTENT in options else b'"role":"assistant"'
        self._every = b'"role":"assistant",' if ROLE_EVERY in options else b""
        self._choices: list[ChoiceFrames] = []
        self._heads: dict[int, bytes] = {}
        self._tails: dict[int, bytes] = {}
        self._calls: dict[int, OpenCall] = {}
        self._parts: dict[int, tuple[ChoiceFrames, PartStart]] = {}
        self._lanes = Lanes()
        self._whole_chars = 0  # of the calls that must be sent whole
        self._unsent: list[bytes] = []
        self._usage: Usage | None = None
        self._done = False

    def feed(self, events: list[Event]) -> bytes:
        """The bytes of these events, joined for one send."""
        if self._done:
            return b""
        out: list[bytes] = []
        try:
            self._write(events, out)
        except ApiError:
            self._unsent += out
            raise
        return b"".join(out)

    def plain(self, part: int) -> Stencil | None:
        """What stands around the next delta of a part of text, as long as nothing else is said."""
        head = self._heads.get(part)
        if head is None or part not in self._parts or self._done:
            return None
        return Stencil(head + b'"', b'"' + self._tail)

    def statistics(self) -> dict[str, int]:
        """`waiting_chars` (of prose that waits for other prose, and of calls that are sent whole) and `cap_chars`."""
        waits = self._lanes.statistics()
        return {**waits, "waiting_chars": waits["waiting_chars"] + self._whole_chars}

    def _write(self, events: list[Event], out: list[bytes]) -> None:
        heads = self._heads
        tail = self._tail
        for event in events:
            kind = type(event)
            if kind is TextDelta or kind is ReasoningDelta:
                head = heads.get(event.part)  # type: ignore[union-attr]
                if head is None:
                    self._lanes.hold(event.part, event)  # type: ignore[union-attr]
                    continue
                out.append(head)
                out.append(_encode(event.text))  # type: ignore[union-attr]
                out.append(tail)
            else:
                self._other(event, out)
                if kind is Finish or kind is Error:
                    return

    def _other(self, event: Event, out: list[bytes]) -> None:
        match event:
            case ArgsDelta():
                self._args(event, out)
            case PartStart():
                self._part_start(event, out)
            case PartEnd():
                self._part_end(event, out)
            case Start():
                self._choice(0, out)
            case Signature():
                self._signature(event, out)
            case MediaDelta():
                self._media(event, out)
            case Usage():
                self._usage = merge_usage(self._usage, event)
            case Finish():
                self._finish(event, out)
            case Error():
                out[:0] = self._unsent
                self._take_turns(self._lanes.drain(), out)  # what was produced is not kept back
                self._done = True
                out.append(encode_stream_error(event.error))
            case _:  # Warn, Unknown and the hot deltas: nothing of this dialect's.
                pass

    # -- parts --------------------------------------------------------------------------------------------------------

    def _choice(self, index: int, out: list[bytes]) -> ChoiceFrames:
        """The choice, opened with its role chunk, after those before it: SDKs keep choices by position."""
        while len(self._choices) <= index:
            number = len(self._choices)
            head = self._open + b'{"index":%d,"delta":{' % number
            self._choices.append(ChoiceFrames(number, head))
            out.append(head + self._role + self._tail)
        return self._choices[index]

    def _part_start(self, event: PartStart, out: list[bytes]) -> None:
        choice = self._choice(event.choice, out)
        self._parts[event.part] = (choice, event)
        if event.kind is PartKind.TOOL:
            self._call_start(event, choice, out)
            return
        if event.kind not in PROSE or self._lanes.open(event.part, (choice.index, event.kind)):
            self._speak(event.part)

    def _speak(self, part: int) -> None:
        choice, start = self._parts[part]
        member = b'"' + DELTA_MEMBER[start.kind].encode() + b'":'
        self._heads[part] = choice.head + self._every + member

    def _take_turns(self, turns: list[Said], out: list[bytes]) -> None:
        """Parts that waited say what they have to say."""
        for part, said, ended in turns:
            self._speak(part)
            self._write(said, out)
            if ended:
                del self._heads[part], self._parts[part]

    def _call_start(self, event: PartStart, choice: ChoiceFrames, out: list[bytes]) -> None:
        identity, name = event.id or "", event.name or ""
        number = choice.calls
        choice.calls += 1
        if name in self._custom:
            self._calls[event.part] = OpenCall(choice, identity, name)
            self._heads[event.part] = b'%s"tool_calls":[{"index":%d,' % (choice.head, number)
            return
        if self._legacy and number == 0:
            opening = choice.head + b'"function_call":{'
            self._heads[event.part] = opening + b'"arguments":'
            self._tails[event.part] = b"}" + self._tail
            out += (opening, b'"name":', _encode(name), b',"arguments":""}', self._tail)
            return
        opening = b'%s"tool_calls":[{"index":%d,' % (choice.head, number)
        self._heads[event.part] = opening + b'"function":{"arguments":'
        self._tails[event.part] = b"}}]" + self._tail
        out += (opening, b'"id":', _encode(identity), b',"type":"function","function":{"name":', _encode(name))
        out += (b',"arguments":""}}]', self._tail)

    def _args(self, event: ArgsDelta, out: list[bytes]) -> None:
        call = self._calls.get(event.part)
        if call is not None:
            self._whole_chars += len(event.json)
            if self._whole_chars > WAITING_CAP_CHARS:
                raise ApiError(Kind.UPSTREAM, f"the input of a tool call exceeds {WAITING_CAP_CHARS} characters")
            call.held.append(event.json)
        else:
            out += (self._heads[event.part], _encode(event.json), self._tails[event.part])

    def _part_end(self, event: PartEnd, out: list[bytes]) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)
            return
        head = self._heads.pop(event.part)
        self._tails.pop(event.part, None)
        _, part = self._parts.pop(event.part)
        call = self._calls.pop(event.part, None)
        if part.kind in PROSE:
            self._take_turns(self._lanes.close(event.part), out)
        if call is not None:
            self._whole_chars -= sum(map(len, call.held))
            custom = {"name": call.name, "input": free_form.unwrap("".join(call.held))}
            out += (head, b'"id":', _encode(call.id), b',"type":"custom","custom":', _encode(custom), b"}]", self._tail)

    def _signature(self, event: Signature, out: list[bytes]) -> None:
        if self._lanes.waits(event.part):
            self._lanes.hold(event.part, event)
            return
        choice, part = self._parts[event.part]
        detail = reasoning_detail(choice.details, event.signature, redacted=part.redacted)
        choice.details += 1
        out += (choice.head, b'"reasoning_details":', _encode([detail]), self._tail)

    def _media(self, event: MediaDelta, out: list[bytes]) -> None:
        choice, part = self._parts[event.part]
        number = choice.media[part.kind]
        choice.media[part.kind] += 1
        entry = media_entry(part.kind, number, event.media_type, event.data, event.url)
        out += (self._heads[event.part], _encode([entry]), self._tail)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _finish(self, event: Finish, out: list[bytes]) -> None:
        """One empty delta for each choice, the last with the routing block beside `choices` (R5); usage; `[DONE]`."""
        self._done = True
        reasons = event.reasons or (event.reason,)
        count = max(len(reasons), len(self._choices))
        self._choice(count - 1, out)
        for index, choice in enumerate(self._choices):
            said = reasons[index] if index < len(reasons) else event.reason
            word = finish_word(said, calls=choice.calls, legacy=self._legacy)
            close = self._close
            if index == count - 1 and self._answer.routing is not None:
                key, block = self._answer.routing
                close = close.removesuffix(b"}\n\n") + b"," + _encode(key) + b":" + _encode(block) + b"}\n\n"
            out += (choice.head, b'},"finish_reason":"', word.encode(), b'"}', close)
        usage = write_usage(self._usage) if self._wants_usage else None
        if usage is not None:
            out += (self._open, b'],"usage":', _encode(usage), b"}\n\n")
        out.append(DONE)


def finish_word(reason: Reason, *, calls: int, legacy: bool = False) -> str:
    """`finish_reason`, derived from what was emitted where the event contradicts it (F24)."""
    if reason in (Reason.STOP, Reason.TOOL_CALLS):
        reason = Reason.TOOL_CALLS if calls else Reason.STOP
    if reason is Reason.TOOL_CALLS and legacy and calls == 1:
        return "function_call"
    return FINISH_OUT[reason]


def reasoning_detail(index: int, signature: str | None, *, redacted: bool, text: str | None = None) -> dict[str, Any]:
    """A typed block that carries a signature, or hidden reasoning (O8)."""
    if redacted:
        return {"type": "reasoning.encrypted", "index": index, "data": signature or ""}
    said = {"text": text, "signature": signature}
    return {"type": "reasoning.text", "index": index, **{name: v for name, v in said.items() if v is not None}}


def media_entry(
    kind: PartKind, index: int, media_type: str | None, data: str | None, url: str | None
) -> dict[str, Any]:
    """What the model drew or wrote, in the place where some gateways put it (O11)."""
    link = url if data is None else f"data:{media_type or 'application/octet-stream'};base64,{data}"
    if kind is PartKind.IMAGE:
        return {"index": index, "type": "image_url", "image_url": {"url": link}}
    return {"index": index, "type": "file", "file": {"file_data": link}}


def uses_functions(request: Request | None) -> bool:
    """True when the client spoke the forms of before 2023: `functions`, and no `tools`."""
    fields = _client_fields(request)
    return b"{" in fields.get("functions", b"") and b"{" not in fields.get("tools", b"")


def custom_tools(request: Request | None) -> frozenset[str]:
    """The names of the client's free-form tools, which were wrapped as functions (O12)."""
    raw = _client_fields(request).get("tools", b"")
    if b'"custom"' not in raw:
        return frozenset()
    return frozenset(t["custom"]["name"] for t in json.decode(raw) if isinstance(t.get("custom"), dict))


def _client_fields(request: Request | None) -> dict[str, bytes]:
    if request is None or request.original is None or request.original.dialect != "openai_chat":
        return {}
    raw = request.original.fields
    return {name: bytes(raw[name]) for name in ("functions", "tools") if name in raw}
