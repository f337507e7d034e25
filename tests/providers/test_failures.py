"""Errors speak in the provider's name, without secrets; Retry-After is read as the standard says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.providers.failures import Failures, retry_after_s
from rivermouth.secrets import Secret

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("7", 7.0),
        ("1.5", 1.5),
        ("-1", None),
        ("1e99", 86_400.0),
        ("Sun, 29 Nov 9999 12:00:30 GMT", 86_400.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Sun, 29 Nov 2026 12:00:30 GMT", 30.0),
        ("Sun, 29 Nov 2026 11:00:00 GMT", 0.0),
        ("Sun, 99 Nov 2026 11:00:00 GMT", None),
    ],
)
def test_retry_after(value: str | None, want: float | None) -> None:
    assert retry_after_s({"retry-after": value} if value is not None else {}, NOW) == want


@pytest.mark.parametrize(
    ("millis", "seconds", "want"),
    [
        ("250", "9", 0.25),
        ("0", "9", 0.0),
        ("250", None, 0.25),
        ("soon", "9", 9.0),
        ("-1", None, None),
        ("inf", "9", 9.0),
    ],
)
def test_milliseconds_are_finer_and_win(millis: str, seconds: str | None, want: float | None) -> None:
    headers = {"retry-after-ms": millis, **({"retry-after": seconds} if seconds is not None else {})}
    assert retry_after_s(headers, NOW) == want


@pytest.mark.fault("F36")
def test_cleaned_masks_every_secret_in_every_word_and_keeps_the_rest() -> None:
    failures = Failures("lab", [Secret("the-key-1"), "the-header-2", ""])
    error = ApiError(
        Kind.RATE_LIMITED,
        "key the-key-1 with the-header-2 is slow",
        param="the-key-1",
        code="the-header-2",
        retry_after_s=3,
        status=430,
        clock="idle",
    )
    cleaned = failures.cleaned(error)
    assert "the-key-1" not in repr(cleaned) + cleaned.message
    assert "the-header-2" not in repr(cleaned) + cleaned.message
    assert cleaned.message.endswith("is slow")
    assert (cleaned.kind, cleaned.retry_after_s, cleaned.status, cleaned.provider, cleaned.clock) == (
        Kind.RATE_LIMITED, 3, 430, "lab", "idle",
    )  # fmt: skip


def test_parsed_renames_what_the_parser_raises() -> None:
    failures = Failures("lab", [])

    def nonsense(body: bytes) -> int:
        raise WireError("byte 3")

    def refused(body: bytes) -> int:
        raise ApiError(Kind.NOT_FOUND, "no such model")

    with pytest.raises(ApiError) as caught:
        failures.parsed(nonsense, b"")
    assert (caught.value.kind, caught.value.code, caught.value.provider) == (Kind.UPSTREAM, "malformed", "lab")
    with pytest.raises(ApiError) as caught:
        failures.parsed(refused, b"")
    assert (caught.value.kind, caught.value.provider) == (Kind.NOT_FOUND, "lab")
    assert failures.parsed(len, b"abc") == 3
