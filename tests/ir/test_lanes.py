"""Parts that overlap in one place: one speaks, the others wait, and what they say comes out part after part."""

from __future__ import annotations

import weakref

import pytest
from hypothesis import given

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import (
    ArgsDelta,
    Error,
    Event,
    Finish,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    Reason,
    ReasoningDelta,
    Signature,
    TextDelta,
)
from rivermouth.ir.lanes import Delta, Ending, Lanes, OneAtATime, Said, said_chars
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


class Wire(OneAtATime):
    """Turns as they are taken, each as text: who, what it said, and how it ended."""

    def __init__(self, cap_chars: int = 1000) -> None:
        super().__init__(cap_chars)
        self.turns: list[str] = []

    def _take(self, start: PartStart, out: list[bytes]) -> None:
        assert not self.turns or self.turns[-1].endswith(".")
        self.turns.append(f"{start.part}:")

    def _write(self, event: Delta, out: list[bytes]) -> None:
        assert isinstance(event, TextDelta)
        self.turns[-1] += event.text

    def _release(self, ending: Ending, out: list[bytes]) -> None:
        self.turns[-1] += f" {ending.value}."

    def feed(self, events: list[Event]) -> list[str]:
        for event in events:
            match event:
                case PartStart():
                    self.part_start(event, [])
                case TextDelta():
                    self.part_delta(event, [])
                case PartEnd():
                    self.part_end(event, [])
                case Finish():
                    self._drain(Ending.OPEN, [])
                case Error():
                    self._drain(Ending.CUT, [])
        return self.turns


def three(*events: Event) -> list[Event]:
    """Three parts that are open at once, and what comes then."""
    return [*(PartStart(part, PartKind.TEXT) for part in range(3)), *events]


WORDS: tuple[Event, ...] = (TextDelta(2, "c"), TextDelta(0, "a"), TextDelta(1, "b"), TextDelta(0, "A"))


@pytest.mark.fault("F26")
@pytest.mark.parametrize(
    ("then", "turns"),
    [
        ((), ["0:aA"]),
        ((PartEnd(1),), ["0:aA"]),
        ((PartEnd(0),), ["0:aA whole.", "1:b"]),
        ((PartEnd(1), PartEnd(0)), ["0:aA whole.", "1:b whole.", "2:c"]),
        ((PartEnd(2), PartEnd(0), TextDelta(1, "B"), PartEnd(1)), ["0:aA whole.", "1:bB whole.", "2:c whole."]),
        ((PartEnd(0), PartEnd(0), TextDelta(0, "x")), ["0:aA whole.", "1:b"]),
        ((PartEnd(1), Finish(Reason.STOP)), ["0:aA open.", "1:b whole.", "2:c open."]),
        ((PartEnd(0), Error(ApiError(Kind.UPSTREAM, "x"))), ["0:aA whole.", "1:b cut.", "2:c cut."]),
        ((PartEnd(0), PartEnd(1), PartEnd(2), Finish(Reason.STOP)), ["0:aA whole.", "1:b whole.", "2:c whole."]),
    ],
)
def test_turns_come_in_the_order_of_opening_and_end_as_the_parts_did(then: tuple[Event, ...], turns: list[str]) -> None:
    assert Wire().feed(three(*WORDS, *then)) == turns


def test_a_part_of_another_choice_gets_no_turn() -> None:
    first, other = PartStart(0, PartKind.TEXT), PartStart(1, PartKind.TEXT, choice=1)
    said: list[Event] = [
        first,
        other,
        TextDelta(1, "x"),
        TextDelta(0, "a"),
        PartEnd(1),
        PartEnd(0),
        Finish(Reason.STOP),
    ]
    assert Wire().feed(said) == ["0:a whole."]


def test_after_too_much_was_said_everything_before_it_has_its_turn() -> None:
    wire = Wire(cap_chars=2)
    with pytest.raises(ApiError) as caught:
        wire.feed(three(*WORDS[:3], TextDelta(2, "!")))
    assert caught.value.kind is Kind.UPSTREAM
    assert wire.feed([Error(caught.value)]) == ["0:a cut.", "1:b cut.", "2:c cut."]


def test_an_encoder_is_gone_when_it_is_left() -> None:
    """No cycle: what a call held is not left to the collector."""
    wire = Wire()
    wire.feed(three(*WORDS))
    left = weakref.ref(wire)
    del wire
    assert left() is None
