"""What a vendor's body inside the envelope must bring: its part of a dialect, without framing, path or errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from rivermouth.dialects.dialect import Answer, Decoder, Outgoing, Route
from rivermouth.ir.events import Event
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Request
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

METRICS: Final = "amazon-bedrock-invocationMetrics"
"""The member of a stream's last object in which the service counts."""


class Objects(Protocol):
    """Events to the objects of the model's stream, each one line of JSON."""

    def feed(self, events: list[Event]) -> list[bytes]:
        """Never gets an Error."""
        ...

    def close(self) -> list[bytes]:
        """The stream fails here: what closes the parts that are open (F13)."""
        ...


class ObjectRelay(Protocol):
    """The same body on both sides: an object as it came."""

    def feed(self, frame: Frame, events: list[Event]) -> list[bytes]: ...

    def close(self) -> list[bytes]: ...


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """One vendor's body.

    owner: the dialect whose name the original of a request has.
    tells: whether a request body may be of this form.  knows: whether an object of a stream, or a whole reply, is, by
    its members.
    delta_head: how the deltas of a stream begin, which no failure does.  delta_name: of a frame that holds one.
    build gives the body without the model, which the path names; its `path` says nothing here.
    """

    name: str
    owner: str
    delta_head: bytes
    delta_name: str
    tells: Callable[[dict[str, json.Raw]], bool]
    knows: Callable[[dict[str, json.Raw]], bool]
    parse: Callable[[dict[str, json.Raw], Route, str], Request]
    build: Callable[[Request, str], Outgoing]
    encoder: Callable[[Answer], Objects]
    decoder: Callable[[Request | None], Decoder]
    relay: Callable[[Answer], ObjectRelay]
    encode_reply: Callable[[Reply, Answer], bytes]
    parse_reply: Callable[[bytes], Reply]
    relay_reply: Callable[[bytes, Answer], bytes]


def metrics(usage: tuple[int | None, int | None], total_ns: int) -> dict[str, int]:
    """What the service adds to the last object of a stream, as far as it is known."""
    counted = {"inputTokenCount": usage[0], "outputTokenCount": usage[1]}
    said = {name: count for name, count in counted.items() if count is not None}
    return {**said, "invocationLatency": total_ns // 1_000_000} if total_ns else said


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply as it came, on one line: nothing in it names the model."""
    return json.encode(json.fields(body))
