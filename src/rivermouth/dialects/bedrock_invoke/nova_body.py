"""Amazon's Nova body in this envelope: Converse's request and events, each event an object with its name.

    object   {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": piece}}}

The body itself is spoken by the dialect that owns it, used only through the contract that every dialect fulfils; what
differs is here: `schemaVersion`, older names in `inferenceConfig`, what is beside the protocol there and in it here,
and the framing.  A client's body keeps its owner's name in the original, so it goes on losslessly to an upstream of
either.
"""

from __future__ import annotations

from typing import Any, Final

from rivermouth.dialects.bedrock_converse import DIALECT as CONVERSE
from rivermouth.dialects.bedrock_invoke.body import METRICS, Body, relay_reply
from rivermouth.dialects.bedrock_invoke.borrowed import CUT, NOBODYS, Measured, relay_of
from rivermouth.dialects.bedrock_invoke.tables import NOVA
from rivermouth.dialects.dialect import Answer, Outgoing, Route
from rivermouth.ir.errors import ApiError, WireError, invalid
from rivermouth.ir.events import Event
from rivermouth.ir.request import Request
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

VERSION: Final = "messages-v1"
VERSION_FIELD: Final = "schemaVersion"
_INFERENCE: Final = "inferenceConfig"
_MORE: Final = "additionalModelRequestFields"
_OTHER_OWNER: Final = "anthropic_version"
_OWN: Final = frozenset({VERSION_FIELD, _INFERENCE, "toolConfig"})
LOSSES: Final = CONVERSE.losses
DELTA_HEAD: Final = b'{"contentBlockDelta":'
_EVENTS: Final = (
    "messageStart",
    "contentBlockStart",
    "contentBlockDelta",
    "contentBlockStop",
    "messageStop",
    "metadata",
)
# Names in `inferenceConfig`: older ones, and those that Converse has beside the protocol.
_RENAMED: Final = {"max_new_tokens": "maxTokens", "top_p": "topP"}
_BESIDE: Final = {"topK": "topK", "top_k": "topK"}
_REASONING: Final = "reasoningConfig"
# What Converse has and this body has not; the wish that is lost with it, if any is.
_DROPPED: Final = {"additionalModelResponseFieldPaths": None, "requestMetadata": "metadata", "serviceTier": None,
                   "performanceConfig": None}  # fmt: skip
# Without these the answer would be another one, and this body has no place for them.
_CONVERSES_ALONE: Final = ("guardrailConfig", "promptVariables")


def tells(fields: dict[str, json.Raw]) -> bool:
    """Messages in this body's own way: a block has a member that says what it is, and no `type`."""
    if "messages" not in fields or _OTHER_OWNER in fields:
        return False
    return not _OWN.isdisjoint(fields) or b'"type"' not in bytes(fields["messages"])


def knows(members: dict[str, json.Raw]) -> bool:
    return "output" in members or not members.keys().isdisjoint(_EVENTS)


def parse(fields: dict[str, json.Raw], route: Route, model: str) -> Request:
    """Raises `ApiError` with the field at fault."""
    inner: dict[str, Any] = {name: raw for name, raw in fields.items() if name != VERSION_FIELD}
    more = _object(inner, _MORE)
    config = _object(inner, _INFERENCE)
    beside = {new: config.pop(old) for old, new in _BESIDE.items() if old in config}
    reasoning = inner.pop(_REASONING, config.pop(_REASONING, None))
    for old, new in _RENAMED.items():
        if old in config:
            config.setdefault(new, config.pop(old))
    if beside:
        more[_INFERENCE] = beside
    if reasoning is not None:
        more[_REASONING] = reasoning
    inner |= {name: value for name, value in ((_INFERENCE, config), (_MORE, more)) if value}
    return CONVERSE.parse_request(json.encode(inner), route, model)


def _object(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """A member that is an object, taken out.  Raises `ApiError`."""
    raw = fields.pop(name, None)
    if raw is None or bytes(raw) == b"null":
        return {}
    try:
        return dict(json.fields(raw))
    except WireError:
        raise invalid("an object is expected", name) from None


def build(request: Request, model: str) -> Outgoing:
    """The body of Converse, moved into the envelope.  Raises `ApiError` where it has what this body has not."""
    built = CONVERSE.build_request(request, model)
    fields: dict[str, Any] = dict(json.fields(built.body))
    losses = set(built.losses)
    for name, loss in _DROPPED.items():
        if fields.pop(name, None) is not None and loss is not None:
            losses.add(loss)
    for name in _CONVERSES_ALONE:
        if name in fields:
            raise invalid(f"{name} can only be passed to an upstream that is asked by Converse", name)
    output = _object(fields, "outputConfig")
    if "textFormat" in output:
        raise invalid("this model has no output formats in this protocol", "response_format")
    if output:
        losses.add("thinking.effort")
    config, more = _object(fields, _INFERENCE), _object(fields, _MORE)
    config |= _object(more, _INFERENCE)
    if _REASONING in more:
        config[_REASONING] = more.pop(_REASONING)
    fields |= {name: value for name, value in ((_INFERENCE, config), (_MORE, more)) if value}
    body = {VERSION_FIELD: VERSION, **fields}
    return Outgoing(path="", body=json.encode(body), losses=tuple(sorted(losses)))


def encoder(answer: Answer) -> Measured:
    encode, read = CONVERSE.encoder(answer).feed, CONVERSE.reader().feed
    return Measured(lambda events: _objects(read(encode(events))), answer)


def _objects(frames: list[Frame]) -> list[bytes]:
    """The owner's events, each under its name."""
    return [b'{"%b":%b}' % (name.encode(), json.line_safe(data)) for name, data in frames]


class ObjectDecoder:
    """Objects to events: each is the owner's event, under its name."""

    __slots__ = ("_inner",)

    def __init__(self, request: Request | None) -> None:
        self._inner = CONVERSE.decoder(request or NOBODYS)

    def feed(self, frame: Frame) -> list[Event]:
        events: list[Event] = []
        for name, raw in json.fields(frame.data).items():
            if name != METRICS:
                events += self._inner.feed(Frame(name, bytes(raw)))
        return events

    def eof(self) -> list[Event]:
        return self._inner.eof()


class ObjectRelay:
    """Objects as they came; a block that is open when the stream fails is closed."""

    __slots__ = ("_answer", "_last")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._last = b""

    def feed(self, frame: Frame, events: list[Event]) -> list[bytes]:
        self._last = frame.data
        return [json.line_safe(frame.data.replace(b"\n", b" "))]

    def close(self) -> list[bytes]:
        relay = relay_of(CONVERSE, self._answer)
        for name, raw in json.fields(self._last or b"{}").items():
            relay.feed(Frame(name, bytes(raw)), [])
        return _objects(CONVERSE.reader().feed(relay.fail(CUT)))[:-1]


BODY: Final = Body(
    name=NOVA,
    owner=CONVERSE.name,
    delta_head=DELTA_HEAD,
    delta_name="",
    tells=tells,
    knows=knows,
    parse=parse,
    build=build,
    encoder=encoder,
    decoder=ObjectDecoder,
    relay=ObjectRelay,
    encode_reply=CONVERSE.encode_reply,
    parse_reply=CONVERSE.parse_reply,
    relay_reply=relay_reply,
)


def count(body: bytes, route: Route, model: str | None) -> Request:
    """The request of Converse whose tokens are to be counted.  Raises `ApiError` with the field at fault."""
    try:
        return CONVERSE.parse_request(body, route, model)
    except ApiError as error:
        inside = f"input.converse.{error.param}" if error.param and error.param != "modelId" else error.param
        raise invalid(error.message, inside) from None
