"""A frame: one message of a stream, freed of its framing.  Readers turn bytes into frames and do nothing else."""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import Final, NamedTuple, Protocol

FRAME_CAP_BYTES: Final = 16 * 1024 * 1024


class Frame(NamedTuple):
    """`name` is the SSE event name ("" where the protocol has none); `data` is the payload."""

    name: str
    data: bytes


frame_of: Final = partial(tuple.__new__, Frame)
"""`frame_of((name, data))` is a frame made without a Python call, for hot paths."""


def nameless(payloads: list[bytes]) -> list[Frame]:
    """A frame without a name for each payload.  Made without a Python call for each: this is the hot path."""
    if len(payloads) == 1:
        return [frame_of(("", payloads[0]))]
    return list(map(frame_of, zip(repeat(""), payloads)))


class Reader(Protocol):
    """Bytes in, frames out; the result never depends on how the bytes were cut."""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now.

        Raises `WireError` above the frame cap and on what cannot be a frame; it has the frames before that.
        """
        ...

    def statistics(self) -> dict[str, int]:
        """`buffered_bytes` and `cap_bytes`."""
        ...
