"""Anthropic's body in this envelope: the Messages API without model and stream, and its events without their names.

The body itself is spoken by the dialect that owns it, used only through the contract that every dialect fulfils; what
differs is here: where the model stands, `anthropic_version`, beta features as a field instead of a header, frames
without event names, and errors, which are the envelope's.

A client's body keeps its owner's name in the original, so it goes on losslessly to an upstream of either dialect.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rivermouth.dialects.anthropic import DIALECT as MESSAGES
from rivermouth.dialects.bedrock_invoke.body import Body
from rivermouth.dialects.bedrock_invoke.borrowed import CUT, NOBODYS, Measured, relay_of
from rivermouth.dialects.bedrock_invoke.tables import ANTHROPIC
from rivermouth.dialects.dialect import Answer, Decoder, Outgoing, Route
from rivermouth.ir.errors import WireError, invalid
from rivermouth.ir.events import Event, TextDelta
from rivermouth.ir.request import Original, Request
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

VERSION: Final = "bedrock-2023-05-31"
VERSION_FIELD: Final = "anthropic_version"
BETA_FIELD: Final = "anthropic_beta"
LOSSES: Final = MESSAGES.losses
_BETA_HEADER: Final = "anthropic-beta"
_DELTA: Final = "content_block_delta"
DELTA_HEAD: Final = b'{"type":"content_block_delta",'
_DATA: Final = b"\ndata: "
_SKIP: Final = len(_DATA) - 1
_DELTA_EVENT: Final = b"event: content_block_delta\ndata: "
_SIZE: Final = len(_DELTA_EVENT)
_BETWEEN: Final = b"\n\n" + _DELTA_EVENT
_betas: Final = json.typed(list[str])


def tells(fields: dict[str, json.Raw]) -> bool:
    return VERSION_FIELD in fields


def knows(members: dict[str, json.Raw]) -> bool:
    """Every event, and the whole message, says its type."""
    return "type" in members


def parse(fields: dict[str, json.Raw], route: Route, model: str) -> Request:
    """Raises `ApiError` with the field at fault."""
    inner = {name: raw for name, raw in fields.items() if name not in (VERSION_FIELD, BETA_FIELD)}
    inner |= {"model": json.raw(model), "stream": json.raw(route.streams)}
    request = MESSAGES.parse_request(json.encode(inner), route, None)
    betas = _read_betas(fields.get(BETA_FIELD))
    headers = {_BETA_HEADER: ",".join(betas)} if betas else {}
    return msgspec.structs.replace(request, include_usage=True, original=Original(MESSAGES.name, inner, headers))


def _read_betas(raw: json.Raw | None) -> list[str]:
    if raw is None or bytes(raw) == b"null":
        return []
    try:
        return json.decode_as(_betas, raw)
    except WireError:
        raise invalid("a list of names is expected", BETA_FIELD) from None


def build(request: Request, model: str) -> Outgoing:
    """The body of the vendor's own dialect, moved into the envelope."""
    built = MESSAGES.build_request(request, model)
    fields = json.fields(built.body)
    for name in ("model", "stream"):
        fields.pop(name, None)
    betas = built.headers.get(_BETA_HEADER)
    if betas:
        fields[BETA_FIELD] = json.raw([b.strip() for b in betas.split(",") if b.strip()])
    fields[VERSION_FIELD] = json.raw(VERSION)
    return Outgoing(path="", body=json.encode(fields), losses=built.losses)


def payloads(stream: bytes) -> list[bytes]:
    """The objects of whole events as the owner of the stream writes them: one `data:` line each, mostly with a name.

    Cheaper than a reader of whatever is legal, and this is the hot path: most streams are nothing but deltas.
    """
    if stream.startswith(_DELTA_EVENT):
        found = stream[_SIZE:-2].split(_BETWEEN)
        if stream.count(b"\n") == 3 * len(found):
            return found
    return [block[(b"\n" + block).find(_DATA) + _SKIP :] for block in stream[:-2].split(b"\n\n")] if stream else []


def encoder(answer: Answer) -> Measured:
    encode = MESSAGES.encoder(answer).feed

    def objects(events: list[Event]) -> list[bytes]:
        stream = encode(events)
        if len(events) == 1 and type(events[0]) is TextDelta and stream.startswith(_DELTA_EVENT):
            return [stream[_SIZE:-2]]
        return payloads(stream)

    return Measured(objects, answer)


def decoder(request: Request | None) -> Decoder:
    """The owner's; it finds the type of a frame without a name in the data."""
    return MESSAGES.decoder(request or NOBODYS)


class ObjectRelay:
    """Objects as they came, but for the model's name."""

    __slots__ = ("_relay",)

    def __init__(self, answer: Answer) -> None:
        self._relay = relay_of(MESSAGES, answer)

    def feed(self, frame: Frame, events: list[Event]) -> list[bytes]:
        data = frame.data
        if b"\n" in data:  # only white space between tokens can be one
            data = data.replace(b"\n", b" ")
        if data.startswith(DELTA_HEAD):  # nothing in it is ever edited, and its owner keeps no count of them
            return [json.line_safe(data)]
        return payloads(self._relay.feed(Frame(frame.name, data), events))

    def close(self) -> list[bytes]:
        return payloads(self._relay.fail(CUT))[:-1]


def relay_reply(body: bytes, answer: Answer) -> bytes:
    if MESSAGES.relay_reply is None:
        raise TypeError(f"{MESSAGES.name} has no relay")
    return MESSAGES.relay_reply(body, answer)


BODY: Final = Body(
    name=ANTHROPIC,
    owner=MESSAGES.name,
    delta_head=DELTA_HEAD,
    delta_name=_DELTA,
    tells=tells,
    knows=knows,
    parse=parse,
    build=build,
    encoder=encoder,
    decoder=decoder,
    relay=ObjectRelay,
    encode_reply=MESSAGES.encode_reply,
    parse_reply=MESSAGES.parse_reply,
    relay_reply=relay_reply,
)
