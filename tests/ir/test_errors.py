"""The error tables are total and sane, and an error never prints what it was not told to."""

from __future__ import annotations

import pytest

from rivermouth.ir.errors import ADVICE, STATUS_KINDS, ApiError, Kind, invalid, kind_of_status, truncated


def test_every_kind_has_advice() -> None:
    assert set(ADVICE) == set(Kind)


@pytest.mark.parametrize("kind", Kind)
def test_a_kind_suggests_an_error_status_and_the_error_carries_it(kind: Kind) -> None:
    error = ApiError(kind, "m")
    assert 400 <= error.status <= 599
    assert error.retryable is ADVICE[kind].retryable
    assert ApiError(kind, "m", status=421).status == 421


@pytest.mark.parametrize(
    "kind",
    [
        Kind.INVALID_REQUEST,
        Kind.AUTHENTICATION,
        Kind.PERMISSION,
        Kind.NOT_FOUND,
        Kind.TOO_LARGE,
        Kind.CONTENT_FILTERED,
        Kind.CANCELLED,
    ],
)
def test_what_the_client_must_change_is_not_retried(kind: Kind) -> None:
    assert not ADVICE[kind].retryable


@pytest.mark.fault("F17")
@pytest.mark.parametrize(
    "kind", [Kind.TIMEOUT, Kind.NETWORK, Kind.UPSTREAM, Kind.TRUNCATED, Kind.OVERLOADED, Kind.RATE_LIMITED]
)
def test_a_cut_a_stall_and_nonsense_may_be_tried_elsewhere(kind: Kind) -> None:
    assert ADVICE[kind].retryable


def test_every_status_has_a_kind() -> None:
    for status in range(300, 600):
        kind = kind_of_status(status)
        assert isinstance(kind, Kind), status
        if status >= 500 or status < 400:
            assert ADVICE[kind].retryable, status
        if status in STATUS_KINDS:
            assert kind is STATUS_KINDS[status], status


def test_equality_is_by_what_a_client_sees() -> None:
    assert invalid("no", "n", "c") == invalid("no", "n", "c")
    assert invalid("no", "n") != invalid("no", "m")
    assert len({invalid("no"), invalid("no"), truncated("x")}) == 2
    assert invalid("no") != "no"


@pytest.mark.fault("F10")
def test_truncated_names_who_and_after_what() -> None:
    error = truncated("lab", "ping")
    assert error.kind is Kind.TRUNCATED
    assert error.provider == "lab"
    assert "lab" in error.message
    assert "ping" in error.message


def test_a_dialects_own_status_gives_way_to_one_that_overrides_the_kinds() -> None:
    assert ApiError(Kind.OVERLOADED, "m").status_for(529) == 529
    assert ApiError(Kind.OVERLOADED, "m", status=503).status_for(529) == 529
    assert ApiError(Kind.OVERLOADED, "m", status=500).status_for(529) == 500
