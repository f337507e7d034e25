"""Streams whose frames are lost, doubled or in disorder: refused, or still of the grammar; never a fault of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Dialect
from rivermouth.ir.errors import ApiError, WireError
from rivermouth.ir.events import Error, Event, Finish
from rivermouth.ir.grammar import Grammar
from rivermouth.ir.request import Message, Request, Role, Text
from rivermouth.wire.frame import Frame
from tests.dialects.recordings import RECORDINGS, STREAMS

DIALECTS: Final = discover()
REQUEST: Final = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),), stream=True)
Change = Callable[[list[Frame], int, int], None]


def lose(frames: list[Frame], at: int, other: int) -> None:
    del frames[at]


def double(frames: list[Frame], at: int, other: int) -> None:
    frames.insert(other, frames[at])


def swap(frames: list[Frame], at: int, other: int) -> None:
    frames[at], frames[other] = frames[other], frames[at]


def recorded(dialect: Dialect) -> list[list[Frame]]:
    paths = [p for p in RECORDINGS if p.parent.parent.name == dialect.name and p.suffix in STREAMS]
    return [frames for path in paths if (frames := list(dialect.reader().feed(path.read_bytes())))]


@pytest.mark.fault("F10", "F13")
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS.keys())
def test_frames_in_disorder(dialect: Dialect) -> None:
    every = recorded(dialect)
    place = st.integers(0, 10_000)
    changes = st.lists(st.tuples(st.sampled_from([lose, double, swap]), place, place), min_size=1, max_size=4)

    @given(st.sampled_from(every), changes)
    def mixed(frames: list[Frame], changes: list[tuple[Change, int, int]]) -> None:
        frames = list(frames)
        for change, at, other in changes:
            if frames:
                change(frames, at % len(frames), other % len(frames))
        grammar, events = Grammar(), list[Event]()
        decoder = dialect.decoder(REQUEST)
        try:
            for frame in frames:
                events += decoder.feed(frame)
            events += decoder.eof()
        except (ApiError, WireError):
            return
        for event in events:
            grammar.feed(event)
        assert isinstance(events[-1], Finish | Error)

    mixed()
