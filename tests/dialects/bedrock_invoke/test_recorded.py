"""The recorded streams once more: in the other framing they mean the same, and the vendor's reader takes ours."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from rivermouth.wire import aws_eventstream as wire
from rivermouth.wire.sse import SseReader
from rivermouth.wire.sse import data as sse
from tests.dialects.bedrock_invoke.case import StreamDecoder, binary, decode
from tests.dialects.events_text import describe, parse_lines
from tests.dialects.recordings import meaning_of
from tests.every_way import every_way

STREAMS = Path(__file__).parent / "streams"
PLAIN = sorted(STREAMS.glob("*.sse"))
BINARY = [p for p in sorted(STREAMS.glob("*.bin")) if p.stem != "cut" and not p.stem.endswith("exception")]
CHUNK = wire.event_headers("chunk")


def meant(recording: Path) -> list[object]:
    return list(parse_lines(meaning_of(recording).read_text()))


def in_binary(payload: bytes) -> bytes:
    """One object as the service sends it: with padding, and a failure as an exception."""
    ((member, value), *_) = json.loads(payload).items()
    if member.endswith("Exception"):
        return wire.message(wire.exception_headers(member), json.dumps(value).encode())
    return wire.message(CHUNK, b'{"bytes":"%b","p":"abcdefghijklm"}' % b64encode(payload))


@pytest.mark.fault("F1", "F2", "F11")
@pytest.mark.parametrize("recording", PLAIN, ids=lambda p: p.stem)
def test_the_same_objects_in_binary_are_the_same_events(recording: Path) -> None:
    stream = b"".join(in_binary(frame.data) for frame in SseReader().feed(recording.read_bytes()))
    events = decode(stream)
    assert [describe(e) for e in events] == meant(recording)
    every_way(StreamDecoder, stream, events)


@pytest.mark.parametrize("recording", BINARY, ids=lambda p: p.stem)
def test_the_same_objects_as_plain_events_are_the_same(recording: Path) -> None:
    """Read out by the vendor's own reader, which also proves that the recording is one."""
    stream = b"".join(sse(b64decode(payload["bytes"])) for _, payload in binary(recording.read_bytes()))
    assert [describe(e) for e in decode(stream)] == meant(recording)


@pytest.mark.fault("F10")
@pytest.mark.parametrize("recording", [p for p in BINARY if p.stem != "error_inside"], ids=lambda p: p.stem)
def test_nothing_fails_after_the_end(recording: Path) -> None:
    late = wire.message(wire.exception_headers("modelStreamErrorException"), b'{"message":"late"}')
    events = decode(recording.read_bytes())
    assert decode(recording.read_bytes() + late) == events
