"""A dialect of five words, to test the transport without any vendor's oddities.

Stream: `{"say": text}` ..., `{"end": "stop"}`; an error is `{"error": text}`.  Reply: `{"text": text}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rivermouth.dialects.dialect import Dialect, Outgoing, Surface
from rivermouth.ir.errors import ApiError, Kind, WireError, kind_of_status, truncated
from rivermouth.ir.events import Error, Event, Finish, PartEnd, PartKind, PartStart, Reason, Start, TextDelta
from rivermouth.ir.reply import Choice, EmbedReply, ModelInfo, Reply
from rivermouth.ir.request import EmbedRequest, Request, Text
from rivermouth.wire import json
from rivermouth.wire.frame import Frame, Reader
from rivermouth.wire.ndjson import NdjsonReader
from rivermouth.wire.sse import SseReader


class TinyDecoder:
    def __init__(self, request: Request) -> None:
        self._begun = False
        self._done = False

    def feed(self, frame: Frame) -> list[Event]:
        if self._done:
            return []
        word = json.decode(frame.data)
        if not isinstance(word, dict):
            raise WireError("not an object")
        events: list[Event] = []
        if not self._begun:
            self._begun = True
            events += [Start(), PartStart(0, PartKind.TEXT)]
        if "say" in word:
            return [*events, TextDelta(0, word["say"])]
        self._done = True
        if "error" in word:
            return [*events, Error(ApiError(Kind.UPSTREAM, word["error"]))]
        return [*events, PartEnd(0), Finish(Reason(word["end"]))]

    def eof(self) -> list[Event]:
        return [] if self._done else [Error(truncated("tiny"))]


def build_request(request: Request, model: str) -> Outgoing:
    body = {"model": model, "stream": request.stream, "seed": 1}
    return Outgoing(path="/talk", body=json.encode(body), headers={"X-Tiny": "1"}, losses=("colour",))


def parse_reply(body: bytes) -> Reply:
    word = json.decode(body)
    if "error" in word:
        raise ApiError(Kind.UPSTREAM, word["error"])
    return Reply(choices=tuple(Choice((Text(t),), Reason.STOP) for t in word["text"]))


def parse_error(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    try:
        text = json.decode(body)["error"]
    except (WireError, KeyError, TypeError):
        text = f"status {status}"
    return ApiError(kind_of_status(status), text, status=status)


def unserved(*args: Any) -> Any:
    raise NotImplementedError


def tiny(reader: Callable[[], Reader] = SseReader, stream_type: str = "text/event-stream", **more: Any) -> Dialect:
    return Dialect(
        name="tiny",
        surfaces=(Surface(prefix="/tiny", stream_type=stream_type),),
        routes=(),
        keys=(),
        keep_alive=None,
        losses=frozenset({"colour"}),
        parse_request=unserved,
        encoder=unserved,
        encode_reply=unserved,
        encode_error=unserved,
        build_request=build_request,
        reader=reader,
        decoder=TinyDecoder,
        parse_reply=parse_reply,
        parse_error=parse_error,
        auth=lambda key: {"Authorization": f"Bearer {key}"},
        **more,
    )


def tiny_ndjson() -> Dialect:
    return tiny(NdjsonReader, "application/x-ndjson")


def with_embeddings() -> Dialect:
    def build_embed(request: EmbedRequest, model: str) -> Outgoing:
        return Outgoing(path="/embed", body=json.encode({"model": model, "input": request.input}), losses=("truncate",))

    def parse_embed(body: bytes) -> EmbedReply:
        return EmbedReply(model="m", vectors=tuple(tuple(v) for v in json.decode(body)))

    def parse_models(body: bytes) -> list[ModelInfo]:
        return [ModelInfo(id=name, owner="tiny") for name in json.decode(body)]

    return tiny(build_embed=build_embed, parse_embed_reply=parse_embed, parse_models=parse_models)
