"""From the engine's events to frames: an entry of the log is one frame, whatever came in whatever pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rivermouth.chat import frames, wire
from rivermouth.chat.inside import Inside, piece_of
from rivermouth.chat.reader import Outbox
from rivermouth.chat.wire import EVENTS, STREAM, View
from rivermouth.ir.events import (
    ArgsDelta,
    Event,
    MediaDelta,
    PartEnd,
    PartKind,
    PartStart,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
)
from rivermouth.log.port import FrameId
from tests.chat.front import Screen
from tests.chat.lab import read_frames, tokens

TEXT = st.text(st.sampled_from('a 🌊"\\\n\u2028\x85\ud800'), min_size=1, max_size=6)
PARTS = st.integers(0, 3)
EVENTS_OF_A_CALL = st.lists(
    st.one_of(
        st.builds(TextDelta, PARTS, TEXT),
        st.builds(ReasoningDelta, PARTS, TEXT),
        st.builds(ArgsDelta, PARTS, TEXT),
        st.builds(lambda part: PartStart(part, PartKind.TOOL, 0, f"call_{part}", f"tool {part}"), PARTS),
        st.builds(lambda part: PartStart(part, PartKind.TEXT), PARTS),
        st.builds(PartEnd, PARTS),
        st.builds(lambda part: MediaDelta(part, "image/png", "AA=="), PARTS),
        st.just(Start()),
        st.just(Usage(1, 2)),
    ),
    max_size=30,
)
PIECE = st.integers(1, 12)


def entries(events: list[Event], most_chars: int) -> list[frames.Said]:
    """As an owner takes them."""
    inside = Inside(1_000, lambda: None)
    assert inside.write(frames.to_line(events))
    found, at = [], 0
    while inside.pending:
        taken = inside.take(most_chars)
        calls = {str(e.part): f"call_{e.part}" for e in taken if isinstance(e, ArgsDelta | PartStart)}
        found.append(frames.decode(frames.encode(frames.Said(at, frames.pack_all(taken), calls))))
        at += sum(len(e.text) for e in taken if isinstance(e, TextDelta))
    assert inside.chars == 0
    return found  # type: ignore[return-value]


@given(events=EVENTS_OF_A_CALL, most_chars=PIECE)
def test_an_entry_is_one_frame_at_most_and_nothing_is_left_out(events: list[Event], most_chars: int):
    screens = {EVENTS: Screen(), STREAM: Screen()}
    for number, entry in enumerate(entries(events, most_chars), 1):
        assert len({piece for packed in entry.events if (piece := piece_of(frames.unpack(packed)))}) <= 1
        for view, screen in screens.items():
            data = wire.said(FrameId(1, number), entry, view)
            assert len(read_frames(data)) <= 1
            screen.feed(data)
    clean = [_whole(e.text) for e in events if isinstance(e, TextDelta)]
    assert screens[EVENTS].text == screens[STREAM].text == "".join(clean)
    assert (screens[STREAM].thought, screens[STREAM].calls) == ("", {})
    assert screens[EVENTS].thought == "".join(_whole(e.text) for e in events if isinstance(e, ReasoningDelta))
    for part, (_, arguments) in screens[EVENTS].calls.items():
        assert arguments == "".join(_whole(e.json) for e in events if isinstance(e, ArgsDelta) and e.part == part)


def _whole(text: str) -> str:
    """Half an emoji cannot be told."""
    return text.replace("\ud800", "\ufffd")


@given(text=TEXT.map(lambda t: t * 5_000), begin=st.integers(0, 10), at=st.sampled_from([None, FrameId(3, 9)]))
def test_a_long_frame_is_the_same_in_pieces(text: str, begin: int, at: FrameId | None):
    pieces = list(wire.long("snapshot", at, "text", text, begin, message_id=7))
    assert b"".join(pieces) == wire.sse("snapshot", at, message_id=7, text=text[begin:])
    assert max(map(len, pieces)) <= 6 * wire.LONG_CHARS


def test_what_waits_for_a_client_comes_in_order_and_in_bounded_pieces():
    out = Outbox(1_000)
    assert (bool(out), out.pop()) == (False, b"")
    out.frame(b"")
    assert not out
    out.frame(wire.sse("start", FrameId(1, 0)))
    for number in range(1, 100):
        out.text(FrameId(1, number), f"{number} ")
    assert not out.full
    out.long("token", FrameId(1, 100), "token", "🌊" * 100_000)
    assert out.full
    out.frame(wire.sse("done", FrameId(1, 101)))
    pieces = []
    while out:
        pieces.append(out.pop())
    assert max(map(len, pieces)) <= 1_000 + 6 * wire.LONG_CHARS
    told = read_frames(b"".join(pieces))
    assert [f["event"] for f in told] == ["start", "token", "token", "done"]
    assert [f["#"] for f in told] == ["1-0", "1-99", "1-100", "1-101"]
    assert tokens(told) == "".join(f"{n} " for n in range(1, 100)) + "🌊" * 100_000
    assert not out.full


def test_views_differ_in_what_they_show():
    entry = frames.Said(0, frames.pack_all([ReasoningDelta(0, "hm")]))
    assert wire.said(FrameId(1, 1), entry, View()) == b""
    assert read_frames(wire.said(FrameId(1, 1), entry, View(pieces=True)))[0]["reasoning"] == "hm"
