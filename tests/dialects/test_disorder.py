"""Frames of recorded streams left out, said twice, out of order: one legal stream comes of whatever a server does."""

from __future__ import annotations

from functools import cache
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects import discover
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.ir.grammar import Grammar
from rivermouth.wire.frame import Frame
from tests.dialects.conformance import DIALECTS, answer, asked, decoded
from tests.dialects.recordings import FAILED, RECORDINGS, dialect_of

FRAMES_CAP: Final = 40
Edit = tuple[str, int, int]
EDITS: Final = st.lists(
    st.tuples(st.sampled_from(("drop", "again", "swap")), st.integers(0, FRAMES_CAP), st.integers(0, FRAMES_CAP)),
    min_size=1,
    max_size=6,
)


@cache
def streams(name: str) -> list[list[Frame]]:
    paths = (p for p in RECORDINGS if p.parent.parent.name == name and p.suffix != FAILED)
    return [dialect_of(path).reader().feed(path.read_bytes())[:FRAMES_CAP] for path in paths]


def edited(frames: list[Frame], edits: list[Edit]) -> list[Frame]:
    frames = list(frames)
    for what, one, other in edits:
        if not frames:
            break
        one, other = one % len(frames), other % len(frames)
        if what == "drop":
            del frames[one]
        elif what == "again":
            frames.insert(other, frames[one])
        else:
            frames[one], frames[other] = frames[other], frames[one]
    return frames


@pytest.mark.fault("F10", "F13", "F35")
@pytest.mark.parametrize("name", DIALECTS)
@given(number=st.integers(0, 1000), edits=EDITS)
def test_frames_in_any_order_are_one_legal_stream_or_a_wire_error(name: str, number: int, edits: list[Edit]) -> None:
    """And a client of the same dialect, who gets them as they came, reads the same end in them."""
    dialect, recorded = discover()[name], streams(name)
    assert dialect.relay is not None
    decoder, relay, grammar = dialect.decoder(asked()), dialect.relay(answer(dialect)), Grammar()
    end: Event | None = None
    passed = b""
    try:
        for frame in edited(recorded[number % len(recorded)], edits):
            events = decoder.feed(frame)
            grammar.feed_all(events)
            end = events[-1] if events else None
            if isinstance(end, Error):
                break
            passed += relay.feed(frame, events)
            if isinstance(end, Finish):
                assert decoder.feed(frame) == decoder.eof() == []
                break
        else:
            events = decoder.eof()
            grammar.feed_all(events)
            end = events[-1]
    except WireError:
        end = Error(ApiError(Kind.UPSTREAM, "nonsense"))
    if isinstance(end, Error):
        passed += relay.fail(end.error)
    assert type(end) in (Error, Finish)
    assert type(decoded(dialect, passed)[-1]) is type(end)
