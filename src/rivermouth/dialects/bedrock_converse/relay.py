"""This dialect on both sides: messages pass as they came, under their own names, trace and padding included."""

from __future__ import annotations

from rivermouth.dialects.bedrock_converse.messages import (
    BLOCK_DELTA,
    BLOCK_START,
    block_delta,
    block_stop,
    failure,
    passed,
)
from rivermouth.dialects.dialect import Answer
from rivermouth.ir.errors import ApiError, WireError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.wire import json
from rivermouth.wire.frame import Frame

_IN_A_BLOCK = (BLOCK_DELTA, BLOCK_START)
_CALL = "toolUse"


class Relay:
    """Frames to the bytes for a client of the same dialect.  Nothing in them names the model."""

    __slots__ = ("_done", "_last")

    def __init__(self, answer: Answer) -> None:
        self._done = False
        self._last: Frame | None = None  # if it is one of a block, that block is open

    def feed(self, frame: Frame, events: list[Event]) -> bytes:
        if self._done:
            return b""
        if events:
            last = events[-1]
            if isinstance(last, Error):
                return self.fail(last.error)
            self._done = isinstance(last, Finish)
        self._last = frame
        name, data = frame
        return block_delta(data) if name == BLOCK_DELTA else passed(name, data)

    def fail(self, error: ApiError) -> bytes:
        """The end of the block that is open, then the failure.  Nothing comes after it.

        A call stays open: agents run a call when its block ends, and the failure comes too late for them.
        """
        if self._done:
            return b""
        self._done = True
        return self._closed() + failure(error)

    def _closed(self) -> bytes:
        last = self._last
        if last is None or last.name not in _IN_A_BLOCK:
            return b""
        try:
            said = json.fields(last.data)
            index = int(bytes(said["contentBlockIndex"]))
            if _CALL in json.fields(said["delta" if last.name == BLOCK_DELTA else "start"]):
                return b""
        except (WireError, KeyError, ValueError):
            return b""
        return block_stop(index)
