"""The OpenAI route of this server: that protocol's chat inside this one's errors and habits.

The chat itself is spoken by the dialect that owns it, used only through the contract that every dialect fulfils; what
differs is here: where a schema stands, how a tool is chosen, which fields a server takes, and the shape of errors.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.dialects.openai_chat import DIALECT as OPENAI
from rivermouth.dialects.tgi.failures import error_body, stream_error
from rivermouth.dialects.tgi.parameters import schema_of
from rivermouth.dialects.tgi.tables import DEFAULT_MODEL, NAME
from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.ir.events import Error, Event
from rivermouth.ir.names import loss_names
from rivermouth.ir.opaque import holds_sealed
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Original, Request
from rivermouth.wire import json, sse
from rivermouth.wire.frame import Frame

PATH: Final = "/v1/chat/completions"
_GAP: Final = b"\n\n"

parse_reply: Final = OPENAI.parse_reply
parse_models: Final = OPENAI.parse_models
encode_models: Final = OPENAI.encode_models

# Fields that a server of this protocol does not act on, and how the neutral model calls them.
_IGNORED: Final[dict[str, str]] = {
    "logit_bias": "logit_bias",
    "parallel_tool_calls": "parallel_tools",
    "reasoning_effort": "thinking",
    "user": "user",
}
_CHOICES: Final = frozenset({"auto", "none", "required"})


def parse_chat(fields: dict[str, json.Raw], body: bytes, route: Route) -> Request:
    """The neutral request.  Raises `ApiError` with the field at fault."""
    plain = _as_openai(fields)
    request = OPENAI.parse_request(body if plain is fields else json.encode(plain), route, None)
    lost = [name for name in fields if name not in plain]
    return msgspec.structs.replace(
        request, original=Original(NAME, fields), unmodelled=loss_names((*lost, *request.unmodelled))
    )


def _as_openai(fields: dict[str, json.Raw]) -> dict[str, json.Raw]:
    """The fields in the owner's words; the same object when nothing differs.  O13: a list of biases is left out."""
    changed: dict[str, json.Raw] = {}
    if bytes(fields.get("model", b"null")) in (b"null", b'""'):
        changed["model"] = json.raw(DEFAULT_MODEL)
    if "response_format" in fields and (form := _format(json.decode(fields["response_format"]))) is not None:
        changed["response_format"] = json.raw(form)
    if bytes(fields.get("logit_bias", b""))[:1] == b"[":
        fields = {name: raw for name, raw in fields.items() if name != "logit_bias"}
    if "tool_choice" in fields and (choice := _choice(json.decode(fields["tool_choice"]))) is not None:
        changed["tool_choice"] = json.raw(choice)
    return {**fields, **changed} if changed else fields


def _format(form: Any) -> dict[str, Any] | None:
    """O8: a schema stands in `value`, whatever the type is called."""
    if not isinstance(form, dict) or "value" not in form:
        return None
    if form.get("type") == "regex":
        raise invalid("a regular expression is no format that can be served", "response_format.type")
    schema = schema_of(form["value"])
    if schema is None:
        raise invalid("a JSON format needs a schema", "response_format.value")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def _choice(choice: Any) -> dict[str, Any] | None:
    """O9: a tool is chosen by its bare name, or by a function object that does not say what it is."""
    if isinstance(choice, str) and choice and choice not in _CHOICES:
        return {"type": "function", "function": {"name": choice}}
    if isinstance(choice, dict) and "type" not in choice and "function" in choice:
        return {"type": "function", **choice}
    return None


def build_chat(request: Request, model: str) -> Outgoing:
    """The call for a server of this protocol, from the neutral request.  Raises `ApiError`."""
    if request.n > 1:
        raise invalid("a server of this protocol gives one answer for each request", "n")
    built = OPENAI.build_request(msgspec.structs.replace(request, original=None), model)
    fields = json.fields(built.body)
    losses = {*built.losses, *(loss for field, loss in _IGNORED.items() if field in fields)}
    limit = fields.pop("max_completion_tokens", None)
    if limit is not None:
        fields["max_tokens"] = limit
    if "response_format" in fields:
        fields["response_format"] = _grammar(json.decode(fields["response_format"]))
    return Outgoing(path=PATH, body=json.encode(fields), losses=tuple(sorted(losses)))


def _grammar(form: dict[str, Any]) -> json.Raw:
    """The older spelling of a schema, which every version of the server reads."""
    if form["type"] == "text":
        return json.raw(form)
    schema = form.get("json_schema", {}).get("schema") or {"type": "object"}
    return json.raw({"type": "json_object", "value": schema})


def repeat_chat(fields: dict[str, json.Raw], request: Request, model: str) -> Outgoing:
    """A body of this protocol as it came; usage is asked for, since every call is counted."""
    again = {**fields, "model": json.raw(model)}
    if "messages" in again and holds_sealed(bytes(again["messages"])):  # what only travels is its owner's to take out
        theirs = msgspec.structs.replace(request, original=Original(OPENAI.name, fields))
        again["messages"] = json.fields(OPENAI.build_request(theirs, model).body)["messages"]
    if request.stream:
        again |= {"stream": json.raw(value=True), "stream_options": json.raw({"include_usage": True})}
    else:
        again.pop("stream_options", None)
        if "stream" in again:
            again["stream"] = json.raw(value=False)
    return Outgoing(path=PATH, body=json.encode(again))


def inside(answer: Answer) -> Answer:
    """The answer as the chat's own dialect may see it: the routing block is none of this protocol's (R5)."""
    return msgspec.structs.replace(answer, routing=None)


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    return OPENAI.encode_reply(reply, inside(answer))


def relay_reply(body: bytes, answer: Answer) -> bytes:
    if OPENAI.relay_reply is None:
        raise TypeError(f"{OPENAI.name} has no relay")
    return OPENAI.relay_reply(body, inside(answer))


class ChatEncoder:
    """Events to the chat's chunks; an error in this server's shape."""

    __slots__ = ("_answer", "_encode")

    def __init__(self, answer: Answer) -> None:
        self._answer = inside(answer)
        self._encode = OPENAI.encoder(self._answer).feed

    def feed(self, events: list[Event]) -> bytes:
        """Raises `ApiError` when what has to wait is more than the cap; the error then follows what was said."""
        said = self._encode(events)
        last = events[-1] if said else None
        if type(last) is not Error:
            return said
        theirs = OPENAI.encoder(self._answer).feed([last])
        return said.removesuffix(theirs) + sse.data(error_body(last.error))


class ChatDecoder:
    """The chat's chunks to events; errors read in this server's shape, older tool calls mended."""

    __slots__ = ("_decode", "_eof")

    def __init__(self, request: Request | None) -> None:
        inner = OPENAI.decoder(request or Request(model="", messages=()))
        self._decode = inner.feed
        self._eof = inner.eof

    def feed(self, frame: Frame) -> list[Event]:
        try:
            events = self._decode(frame)
        except WireError:
            mended = _mend(frame.data)
            if mended is None:
                raise
            events = self._decode(Frame(frame.name, mended))
        if events and type(events[-1]) is Error and b'"error_type"' in frame.data:
            events[-1] = Error(stream_error(frame.data))
        return events

    def eof(self) -> list[Event]:
        return [Error(_ours(e.error)) if isinstance(e, Error) else e for e in self._eof()]


def _ours(error: ApiError) -> ApiError:
    error.provider = NAME
    return error


def _mend(data: bytes) -> bytes | None:
    """O10: a chunk whose `tool_calls` is one call, made a list; None for any other."""
    chunk = json.decode(data)
    choices = chunk.get("choices") if isinstance(chunk, dict) else None
    calls = [
        c["delta"]
        for c in (choices if isinstance(choices, list) else ())
        if isinstance(c, dict) and isinstance(c.get("delta"), dict) and isinstance(c["delta"].get("tool_calls"), dict)
    ]
    for delta in calls:
        delta["tool_calls"] = [delta["tool_calls"]]
    return json.encode(chunk) if calls else None


class ChatRelay:
    """Chunks as they came; an error in this server's shape."""

    __slots__ = ("_done", "_relay")

    def __init__(self, answer: Answer) -> None:
        if OPENAI.relay is None:
            raise TypeError(f"{OPENAI.name} has no relay")
        self._relay = OPENAI.relay(inside(answer))
        self._done = False

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        if self._done:
            return b""
        if events and type(events[-1]) is Error:
            return self.fail(events[-1].error)
        return self._relay.feed(frame, events)

    def fail(self, error: ApiError) -> bytes:
        """The in-stream error, in the place of the one that the chat's relay ends with."""
        if self._done:
            return b""
        self._done = True
        ended = self._relay.fail(error)
        said, gap, _ = ended.removesuffix(_GAP).rpartition(_GAP)
        return said + gap + sse.data(error_body(error)) if ended else b""
