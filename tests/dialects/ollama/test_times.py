from __future__ import annotations

import math

import pytest

from rivermouth.dialects.ollama import media
from rivermouth.dialects.ollama.times import FOR_EVER, NEVER_WAS, duration_s, rfc3339, rfc3339_ns, unix_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("-2s", -2.0),
        ("+3s", 3.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("7ms", 0.007),
        ("8us", 8e-6),
        ("9\u00b5s", 9e-6),
        ("9\u03bcs", 9e-6),
        ("4ns", 4e-9),
        ("0h0m0s", 0.0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert math.isclose(duration_s(text), seconds)


@pytest.mark.parametrize(
    "text", ["", "-", "+", "5", "-1", "m", "5 m", "5mm", "1d", ".s", "1e3s", "٣s", "9" * 400 + "h"]
)
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        duration_s(text)


@pytest.mark.promise(147)
def test_nanoseconds_are_always_written() -> None:
    assert rfc3339_ns(0) == "1970-01-01T00:00:00.000000000Z"
    assert rfc3339_ns(1_700_000_000_000_000_007) == "2023-11-14T22:13:20.000000007Z"


def test_what_is_not_known_is_a_time_that_never_was() -> None:
    assert rfc3339(0) == rfc3339(-1) == rfc3339(math.nan) == NEVER_WAS
    assert rfc3339(math.inf) == FOR_EVER
    assert unix_seconds(NEVER_WAS) == 0


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        ("iVBORw0KGgo=", "image/png"),
        ("/9j/4AAQ", "image/jpeg"),
        ("R0lGODlhAQ==", "image/gif"),
        ("UklGRgAAAABXRUJQVlA4", "image/webp"),
        ("Qk0=", "image/bmp"),
        ("AAAA", media.UNKNOWN),
        ("", media.UNKNOWN),
        ("é", media.UNKNOWN),
    ],
)
def test_media_types_by_magic(data: str, media_type: str) -> None:
    assert media.media_type(data) == media_type


def test_line_breaks_in_base64_are_dropped() -> None:
    assert media.image("iVBO\r\nRw0KGgo=", "images[0]").data == "iVBORw0KGgo="
