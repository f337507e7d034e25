"""Parts that overlap in one place: one speaks, the others wait, and what they say comes out part after part."""

from __future__ import annotations

import pytest
from hypothesis import given

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Event,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    ReasoningDelta,
    Signature,
    TextDelta,
)
from rivermouth.ir.lanes import Lanes, Said, said_chars
from tests.cost import assert_linear
from tests.strategies import event_streams


def in_turn(events: list[Event], cap_chars: int = 1000) -> tuple[list[Event], Lanes]:
    """The events of parts, as they come out of one lane for each kind."""
    lanes = Lanes(cap_chars)
    out: list[Event] = []
    for event in events:
        if isinstance(event, PartStart):
            lanes.open(event.part, event.kind)
        elif not isinstance(event, TextDelta | ReasoningDelta | Signature | ArgsDelta | MediaDelta | PartEnd):
            continue
        elif lanes.waits(event.part):
            lanes.hold(event.part, event)
        else:
            out.append(event)
            if isinstance(event, PartEnd):
                for part, said, ended in lanes.close(event.part):
                    out += [*said, PartEnd(part)] if ended else said
    return out, lanes


@pytest.mark.fault("F26")
@given(event_streams(kinds=tuple(PartKind), max_parts=5))
def test_parts_of_a_lane_never_overlap_and_lose_nothing(events: list[Event]) -> None:
    out, lanes = in_turn(events)
    heads = {e.part: e.kind for e in events if isinstance(e, PartStart)}
    for kind in PartKind:
        came = [e for e in out if heads[e.part] is kind]  # type: ignore[union-attr]
        said = [e for e in events if not isinstance(e, PartStart)]
        assert came == [e for p in heads if heads[p] is kind for e in said if getattr(e, "part", None) == p]
    assert lanes.statistics() == {"waiting_chars": 0, "cap_chars": 1000}


def test_who_may_speak() -> None:
    lanes = Lanes()
    assert [lanes.open(part, lane) for part, lane in enumerate("aaba")] == [True, False, True, False]
    assert [lanes.waits(part) for part in range(4)] == [False, True, False, True]
    for event in (TextDelta(1, "x"), PartEnd(1), TextDelta(3, "y")):
        lanes.hold(event.part, event)
    assert lanes.statistics()["waiting_chars"] == 2
    assert lanes.close(0) == [Said(1, [TextDelta(1, "x")], True), Said(3, [TextDelta(3, "y")], False)]
    assert lanes.close(3) == lanes.close(2) == []


def test_a_stream_that_fails_gets_all_that_waited() -> None:
    _, lanes = in_turn(
        [
            *(PartStart(i, PartKind.TEXT) for i in range(3)),
            TextDelta(2, "c"),
            PartEnd(2),
            TextDelta(1, "b"),
        ]
    )
    assert lanes.drain() == [Said(1, [TextDelta(1, "b")], False), Said(2, [TextDelta(2, "c")], True)]
    assert lanes.drain() == []


@pytest.mark.fault("F35")
def test_what_waits_is_bounded_and_what_was_kept_stays() -> None:
    lanes = Lanes(cap_chars=5)
    lanes.open(0, "a")
    lanes.open(1, "a")
    lanes.hold(1, TextDelta(1, "12345"))
    with pytest.raises(ApiError) as caught:
        lanes.hold(1, TextDelta(1, "6"))
    assert caught.value.kind is Kind.UPSTREAM
    assert lanes.drain() == [Said(1, [TextDelta(1, "12345")], False)]


def test_every_event_that_carries_characters_counts() -> None:
    events: list[Event] = [
        TextDelta(0, "ab"), ReasoningDelta(0, "ab"), ArgsDelta(0, "ab"), Signature(0, "ab"),
        MediaDelta(0, "image/png", "a", "b"), MediaDelta(0, data="ab"),
    ]  # fmt: skip
    assert [said_chars(e) for e in events] == [2] * len(events)
    assert said_chars(PartEnd(0)) == 0


def test_many_parts_that_wait_cost_what_they_are() -> None:
    def prepare(count: int) -> object:
        starts: list[Event] = [PartStart(i, PartKind.TEXT) for i in range(count)]
        said: list[Event] = [e for i in range(count - 1, -1, -1) for e in (TextDelta(i, "x"), PartEnd(i))]
        return lambda: in_turn([*starts, *said], cap_chars=count)

    assert_linear(prepare, 500)  # type: ignore[arg-type]
