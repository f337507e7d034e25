from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.anthropic import DIALECT
from rivermouth.dialects.anthropic.errors import encode_stream_error
from rivermouth.ir.errors import ADVICE, ApiError, Kind, invalid


def said(error: ApiError) -> tuple[int, dict[str, Any], dict[str, str]]:
    failure = DIALECT.encode_error(error, "01J")
    return failure.status, json.loads(failure.body), dict(failure.headers)


@pytest.mark.fault("F15")
@pytest.mark.parametrize(
    ("kind", "status", "word", "retry"),
    [
        (Kind.INVALID_REQUEST, 400, "invalid_request_error", "false"),
        (Kind.AUTHENTICATION, 401, "authentication_error", "false"),
        (Kind.PERMISSION, 403, "permission_error", "false"),
        (Kind.NOT_FOUND, 404, "not_found_error", "false"),
        (Kind.TOO_LARGE, 413, "request_too_large", "false"),
        (Kind.RATE_LIMITED, 429, "rate_limit_error", "true"),
        (Kind.OVERLOADED, 529, "overloaded_error", "true"),
        (Kind.TIMEOUT, 504, "timeout_error", "true"),
        (Kind.NETWORK, 502, "api_error", "true"),
        (Kind.UPSTREAM, 502, "api_error", "true"),
        (Kind.TRUNCATED, 502, "api_error", "true"),
        (Kind.CONTENT_FILTERED, 400, "invalid_request_error", "false"),
        (Kind.CANCELLED, 499, "api_error", "false"),
        (Kind.INTERNAL, 500, "api_error", "false"),
    ],
)
def test_each_kind_in_its_envelope(kind: Kind, status: int, word: str, retry: str) -> None:
    assert said(ApiError(kind, "m")) == (
        status,
        {"type": "error", "error": {"type": word, "message": "m"}, "request_id": "01J"},
        {"x-should-retry": retry},
    )


def test_a_status_of_its_own_is_kept() -> None:
    assert said(ApiError(Kind.INVALID_REQUEST, "m", status=405))[0] == 405


def test_a_spent_quota_is_a_billing_error() -> None:
    status, body, headers = said(ApiError(Kind.RATE_LIMITED, "m", code="insufficient_quota"))
    assert (status, body["error"]["type"], headers) == (402, "billing_error", {"x-should-retry": "false"})


def test_the_field_is_in_the_message_and_a_long_prompt_in_the_words_that_agents_look_for() -> None:
    assert said(invalid("Field required", "max_tokens"))[1]["error"]["message"] == "max_tokens: Field required"
    assert said(invalid("model x is unknown", "model"))[1]["error"]["message"] == "model x is unknown"
    long = invalid("9 tokens, 4 allowed", code="context_length_exceeded")
    assert said(long)[1]["error"]["message"] == "prompt is too long: 9 tokens, 4 allowed"


@pytest.mark.parametrize("kind", Kind)
def test_an_error_survives_the_trip_as_far_as_its_word_goes(kind: Kind) -> None:
    failure = DIALECT.encode_error(ApiError(kind, "m"), "01J")
    back = DIALECT.parse_error(failure.status, failure.headers, failure.body)
    assert back.message == "m"
    merged = {Kind.NETWORK, Kind.TRUNCATED, Kind.CANCELLED, Kind.INTERNAL}
    assert back.kind is {Kind.CONTENT_FILTERED: Kind.INVALID_REQUEST}.get(
        kind, Kind.UPSTREAM if kind in merged else kind
    )
    assert back.status == ADVICE[back.kind].status


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (529, b"", Kind.OVERLOADED, None),
        (500, b"<html>", Kind.UPSTREAM, None),
        (418, b"{}", Kind.INVALID_REQUEST, None),
        (402, b'{"error":{"type":"billing_error","message":"m"}}', Kind.RATE_LIMITED, "insufficient_quota"),
        (429, b'{"error":"slow down"}', Kind.RATE_LIMITED, None),
        (
            400,
            b'{"error":{"type":"invalid_request_error","message":"Prompt is too long: 9 > 4"}}',
            Kind.INVALID_REQUEST,
            "context_length_exceeded",
        ),
        (200, b'{"error":{"type":7}}', Kind.UPSTREAM, None),
    ],
)
def test_an_upstreams_error(status: int, body: bytes, kind: Kind, code: str | None) -> None:
    error = DIALECT.parse_error(status, {}, body)
    assert (error.kind, error.code) == (kind, code)
    assert error.message


@pytest.mark.fault("F15")
@pytest.mark.parametrize("kind", Kind)
def test_an_error_in_a_stream_says_in_words_whether_it_may_pass_where_its_type_does_not(kind: Kind) -> None:
    """opencode asks again after an error in a stream only where type or words tell it to."""
    passing = kind in (Kind.TIMEOUT, Kind.NETWORK, Kind.UPSTREAM, Kind.TRUNCATED)
    assert streamed(ApiError(kind, "m")) == ("m; try again later" if passing else "m")


def test_the_words_that_tell_to_try_again_come_once_and_never_with_a_spent_quota() -> None:
    assert streamed(ApiError(Kind.UPSTREAM, "busy, try again later")) == "busy, try again later"
    assert streamed(ApiError(Kind.RATE_LIMITED, "m", code="insufficient_quota")) == "m"


def streamed(error: ApiError) -> str:
    (frame,) = DIALECT.reader().feed(encode_stream_error(error, "01J"))
    message: str = json.loads(frame.data)["error"]["message"]
    return message
