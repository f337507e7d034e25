"""The envelope around the bodies: whose body it is, and the framing of what is streamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rivermouth.dialects.bedrock_invoke import (
    cohere_body,
    llama_body,
    messages_body,
    mistral_body,
    nova_body,
    titan_body,
)
from rivermouth.dialects.bedrock_invoke.body import Body, ObjectRelay, Objects
from rivermouth.dialects.bedrock_invoke.failures import frame_error
from rivermouth.dialects.bedrock_invoke.framing import framing
from rivermouth.dialects.bedrock_invoke.tables import NAME, TEXT_LOSSES, body_of_model
from rivermouth.dialects.dialect import Answer
from rivermouth.dialects.dialect import Decoder as AnyDecoder
from rivermouth.ir.errors import ApiError, WireError, truncated
from rivermouth.ir.events import Error, Event, Finish, TextDelta
from rivermouth.ir.reply import Reply
from rivermouth.ir.request import Request
from rivermouth.wire import json
from rivermouth.wire.frame import Frame, frame_of

# The first is what a client speaks that did not say anything else.
BODIES: Final[tuple[Body, ...]] = (
    messages_body.BODY,
    titan_body.BODY,
    nova_body.BODY,
    llama_body.BODY,
    mistral_body.BODY,
    cohere_body.BODY,
)
BODY_NAMED: Final[dict[str, Body]] = {body.name: body for body in BODIES}
LOSSES: Final = messages_body.LOSSES | nova_body.LOSSES | cohere_body.LOSSES | TEXT_LOSSES


def body_of_fields(fields: dict[str, json.Raw], model: str) -> Body | None:
    """Whose body these members are; where they are those of several, the model's name decides."""
    telling = [body for body in BODIES if body.tells(fields)]
    named = body_of_model(model)
    return next((body for body in telling if body.name == named), telling[0] if telling else None)


def body_of_client(request: Request | None) -> Body:
    """The body that the client of this request reads: the one it sent."""
    original = request.original if request is not None else None
    if request is None or original is None:
        return BODIES[0]
    if original.dialect == NAME:
        return body_of_fields(original.fields, request.model) or BODIES[0]
    return next((body for body in BODIES if body.owner == original.dialect), BODIES[0])


def body_of_data(data: bytes) -> Body:
    """The body that an object of a stream, or a whole reply, is of.  Raises `WireError`."""
    members = json.fields(data)
    found = next((body for body in BODIES if body.knows(members)), None)
    if found is None:
        raise WireError("an object of no body that is spoken here")
    return found


class Encoder:
    """Events to a client's stream, in the body and the framing that it reads."""

    __slots__ = ("_done", "_fail", "_feed", "_frames", "_objects")

    def __init__(self, answer: Answer) -> None:
        self._objects: Objects = body_of_client(answer.request).encoder(answer)
        framed = framing(answer.surface)
        self._feed, self._frames, self._fail = self._objects.feed, framed.frames, framed.fail
        self._done = False

    def feed(self, events: list[Event]) -> bytes:
        if self._done or not events:
            return b""
        last = events[-1]
        kind = type(last)
        if kind is TextDelta:
            return self._frames(self._feed(events))
        if isinstance(last, Error):
            objects = self._feed(events[:-1]) + self._objects.close()
            self._done = True
            return self._frames(objects) + self._fail(last.error)
        objects = self._feed(events)
        self._done = kind is Finish
        return self._frames(objects)


class Decoder:
    """Objects of a stream to events.  The first object tells whose body it is."""

    __slots__ = ("_done", "_feed", "_head", "_inner", "_name", "_request")

    def __init__(self, request: Request | None = None) -> None:
        self._request = request
        self._inner: AnyDecoder | None = None
        self._feed: Callable[[Frame], list[Event]] | None = None
        self._head, self._name = BODIES[0].delta_head, BODIES[0].delta_name
        self._done = False

    def feed(self, frame: Frame) -> list[Event]:
        feed = self._feed
        if feed is not None and frame.data.startswith(self._head):
            return feed(frame_of((self._name, frame.data)))
        if self._done:
            return []
        error = frame_error(frame)
        if error is not None:
            self._done = True
            self._feed = None
            ended = self._inner is not None and not self._inner.eof()  # then nothing can fail any more
            return [] if ended else [Error(error)]
        if feed is None:
            body = body_of_data(frame.data)
            self._head, self._name = body.delta_head, body.delta_name
            self._inner = body.decoder(self._request)
            feed = self._feed = self._inner.feed
        return feed(frame)

    def eof(self) -> list[Event]:
        if self._done:
            return []
        self._done = True
        return [Error(truncated(NAME))] if self._inner is None else self._inner.eof()


class Relay:
    """This dialect on both sides: objects as they came, in the client's framing.

    A client's body may not be the upstream model's: then the events are written anew.
    """

    __slots__ = ("_answer", "_done", "_encoder", "_framing", "_relay", "_wanted")

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._wanted = body_of_client(answer.request)
        self._framing = framing(answer.surface)
        self._relay: ObjectRelay | None = None
        self._encoder: Encoder | None = None
        self._done = False

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        if self._done:
            return b""
        last = events[-1] if events else None
        if isinstance(last, Error):
            return self.fail(last.error)
        self._done = isinstance(last, Finish)
        if self._relay is None and self._encoder is None:
            if body_of_data(frame.data) is self._wanted:
                self._relay = self._wanted.relay(self._answer)
            else:
                self._encoder = Encoder(self._answer)
        if self._relay is None:
            return self._encoder.feed(events) if self._encoder is not None else b""
        return self._framing.frames(self._relay.feed(frame, events))

    def fail(self, error: ApiError) -> bytes:
        """What closes the relayed objects, then the failure.  Nothing comes after it."""
        if self._done:
            return b""
        self._done = True
        if self._encoder is not None:
            return self._encoder.feed([Error(error)])
        objects = self._relay.close() if self._relay is not None else []
        return self._framing.frames(objects) + self._framing.fail(error)


def encode_reply(reply: Reply, answer: Answer) -> bytes:
    """The whole answer in the body that the client speaks."""
    return body_of_client(answer.request).encode_reply(reply, answer)


def parse_reply(body: bytes) -> Reply:
    """A whole reply of any body.  Raises `ApiError` or `WireError` for anything else."""
    return body_of_data(body).parse_reply(body)


def relay_reply(body: bytes, answer: Answer) -> bytes:
    """A whole reply as it came, if its body is the one that the client reads."""
    wanted = body_of_client(answer.request)
    sent = body_of_data(body)
    return wanted.relay_reply(body, answer) if sent is wanted else wanted.encode_reply(sent.parse_reply(body), answer)
