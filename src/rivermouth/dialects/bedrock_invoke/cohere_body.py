"""Cohere's Command body in this envelope: its v1 API without `model` and `stream`, and its lines as objects.

The body itself is spoken by the dialect that owns it, used only through the contract that every dialect fulfils.  A
client's body keeps its owner's name in the original, so it goes on losslessly to an upstream of either dialect.
"""

from __future__ import annotations

from typing import Final

from rivermouth.dialects.bedrock_invoke.body import Body, relay_reply
from rivermouth.dialects.bedrock_invoke.borrowed import CUT, NOBODYS, Measured, relay_of
from rivermouth.dialects.bedrock_invoke.tables import COHERE
from rivermouth.dialects.cohere_v1 import DIALECT as CHAT
from rivermouth.dialects.dialect import Answer, Decoder, Outgoing, Route
from rivermouth.ir.events import Event
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Request
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

DELTA_HEAD: Final = b'{"is_finished":false,"event_type":"text-generation",'
LOSSES: Final = CHAT.losses
_NO_FIELDS: Final = ("model", "stream")


def tells(fields: dict[str, json.Raw]) -> bool:
    return "message" in fields


def knows(members: dict[str, json.Raw]) -> bool:
    return "event_type" in members or "generation_id" in members or ("text" in members and "type" not in members)


def parse(fields: dict[str, json.Raw], route: Route, model: str) -> Request:
    """Raises `ApiError` with the field at fault."""
    inner = {name: raw for name, raw in fields.items() if name not in _NO_FIELDS}
    inner |= {"model": json.raw(model), "stream": json.raw(route.streams)}
    return CHAT.parse_request(json.encode(inner), route, None)


def build(request: Request, model: str) -> Outgoing:
    """The body of the vendor's own dialect, moved into the envelope."""
    built = CHAT.build_request(request, model)
    fields = {name: raw for name, raw in json.fields(built.body).items() if name not in _NO_FIELDS}
    return Outgoing(path="", body=json.encode(fields), losses=built.losses)


def objects_of(stream: bytes) -> list[bytes]:
    """The objects of whole lines."""
    return stream.split(b"\n")[:-1]


def encoder(answer: Answer) -> Measured:
    encode = CHAT.encoder(answer).feed
    return Measured(lambda events: objects_of(encode(events)), answer)


def decoder(request: Request | None) -> Decoder:
    return CHAT.decoder(request or NOBODYS)


class ObjectRelay:
    """Objects as they came: nothing in them names the model."""

    __slots__ = ("_relay",)

    def __init__(self, answer: Answer) -> None:
        self._relay = relay_of(CHAT, answer)

    def feed(self, frame: Frame, events: list[Event]) -> list[bytes]:
        return objects_of(self._relay.feed(Frame(frame.name, frame.data.replace(b"\n", b" ")), events))

    def close(self) -> list[bytes]:
        return objects_of(self._relay.fail(CUT))[:-1]


def parse_reply(body: bytes) -> Reply:
    return CHAT.parse_reply(body)


BODY: Final = Body(
    name=COHERE,
    owner=CHAT.name,
    delta_head=DELTA_HEAD,
    delta_name="",
    tells=tells,
    knows=knows,
    parse=parse,
    build=build,
    encoder=encoder,
    decoder=decoder,
    relay=ObjectRelay,
    encode_reply=CHAT.encode_reply,
    parse_reply=parse_reply,
    relay_reply=relay_reply,
)
