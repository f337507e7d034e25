"""Bodies that another dialect speaks (messages_body, nova_body, cohere_body): its streams inside this envelope.

The owner is used only through the contract that every dialect fulfils, so it never learns of the envelope.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rivermouth.dialects.bedrock_invoke.body import METRICS, metrics
from rivermouth.dialects.bedrock_invoke.framing import BINARY
from rivermouth.dialects.dialect import Answer, Dialect, Relay
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Error, Event, Finish, Usage, merge_usage
from rivermouth.ir.request import Request
from rivermouth.wire import json

CUT: Final = ApiError(Kind.TRUNCATED, "")
"""Makes an owner close what is open.  What it says of the failure is dropped: that is the envelope's to say."""
NOBODYS: Final = Request(model="", messages=())
"""Of an answer whose question is not known."""


class Measured:
    """Events of the neutral model to the owner's objects; in the binary framing the last one carries the metrics.

    objects: the owner's encoder, and its stream taken apart.
    """

    __slots__ = ("_answer", "_measured", "_objects", "_usage")

    def __init__(self, objects: Callable[[list[Event]], list[bytes]], answer: Answer) -> None:
        self._objects = objects
        self._answer = answer
        self._usage: Usage | None = None
        self._measured = BINARY in answer.surface.options

    def feed(self, events: list[Event]) -> list[bytes]:
        objects = self._objects(events)
        if not self._measured:
            return objects
        for event in events:
            if type(event) is Usage:
                self._usage = merge_usage(self._usage, event)
        if objects and type(events[-1]) is Finish:
            objects[-1] = self._with_metrics(objects[-1])
        return objects

    def close(self) -> list[bytes]:
        """What was not said yet, and the ends of what is open."""
        return self._objects([Error(CUT)])[:-1]

    def _with_metrics(self, last: bytes) -> bytes:
        usage = self._usage or Usage()
        counted = metrics((usage.input_tokens, usage.output_tokens), self._answer.total_ns)
        return json.encode({**json.fields(last), METRICS: counted}) if counted else last


def relay_of(owner: Dialect, answer: Answer) -> Relay:
    if owner.relay is None:
        raise TypeError(f"{owner.name} has no relay")
    return owner.relay(answer)
