from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.dialects.gemini.errors import encode_error, parse_error
from rivermouth.ir.errors import ApiError, Kind


def told(error: ApiError) -> Any:
    return json.loads(encode_error(error, "id").body)["error"]


@pytest.mark.fault("F15")
@pytest.mark.parametrize(
    ("kind", "code", "word"),
    [
        (Kind.INVALID_REQUEST, 400, "INVALID_ARGUMENT"),
        (Kind.AUTHENTICATION, 401, "UNAUTHENTICATED"),
        (Kind.PERMISSION, 403, "PERMISSION_DENIED"),
        (Kind.NOT_FOUND, 404, "NOT_FOUND"),
        (Kind.RATE_LIMITED, 429, "RESOURCE_EXHAUSTED"),
        (Kind.CANCELLED, 499, "CANCELLED"),
        (Kind.INTERNAL, 500, "INTERNAL"),
        (Kind.OVERLOADED, 503, "UNAVAILABLE"),
        (Kind.TIMEOUT, 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_a_kind_has_its_status_its_word_and_an_integer_code(kind: Kind, code: int, word: str) -> None:
    failure = encode_error(ApiError(kind, "m"), "id")
    assert failure.status == code
    assert json.loads(failure.body) == {"error": {"code": code, "message": "m", "status": word}}
    assert failure.body.startswith(b'{"error":{"code":%d' % code)


def test_a_status_of_its_own_is_kept() -> None:
    assert told(ApiError(Kind.INVALID_REQUEST, "m", status=405))["code"] == 405
    assert encode_error(ApiError(Kind.INVALID_REQUEST, "m", status=405), "id").status == 405
    assert told(ApiError(Kind.INTERNAL, "m", status=200))["code"] == 500


def test_details_name_the_field_the_reason_and_the_wait() -> None:
    error = told(ApiError(Kind.RATE_LIMITED, "slow", param="contents", code="too_fast", retry_after_s=3.5))
    assert error["message"] == "contents: slow"
    assert error["details"] == [
        {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TOO_FAST", "domain": "gemini"},
        {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": "contents", "description": "slow"}],
        },
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"},
    ]


def test_a_long_prompt_is_said_in_the_words_that_agents_look_for_and_read_in_them() -> None:
    ours = encode_error(ApiError(Kind.INVALID_REQUEST, "9 > 5", code="context_length_exceeded"), "id")
    assert b"exceeds the maximum number of tokens allowed" in ours.body
    assert parse_error(400, {}, ours.body).code == "context_length_exceeded"


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, {"status": "INVALID_ARGUMENT"}, Kind.INVALID_REQUEST),
        (400, {"status": "FAILED_PRECONDITION"}, Kind.INVALID_REQUEST),
        (400, {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}, Kind.AUTHENTICATION),
        (413, {"status": "INVALID_ARGUMENT"}, Kind.TOO_LARGE),
        (500, {"status": "INTERNAL"}, Kind.UPSTREAM),
        (500, {"status": "UNAVAILABLE"}, Kind.OVERLOADED),
        (503, {"status": "NEW_WORD"}, Kind.OVERLOADED),
        (429, {}, Kind.RATE_LIMITED),
        (400, {"status": 1, "details": [1, {"reason": [1], "retryDelay": 3}]}, Kind.INVALID_REQUEST),
    ],
)
def test_an_upstreams_error_by_its_word_and_its_status(status: int, error: dict[str, Any], kind: Kind) -> None:
    body = json.dumps({"error": {"code": status, "message": "m", **error}}).encode()
    for wrapped in (body, b"[" + body + b"]"):
        found = parse_error(status, {}, wrapped)
        assert (found.kind, found.message) == (kind, "m")


@pytest.mark.parametrize(("delay", "seconds"), [("34s", 34.0), ("0.5s", 0.5), ("1e300s", 86_400.0)])
def test_the_wait_is_read_from_the_details(delay: str, seconds: float) -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    body = json.dumps({"error": {"code": 429, "message": "m", "details": [info]}}).encode()
    assert parse_error(429, {}, body).retry_after_s == seconds


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"error":null}', b"\xff", b'{"error":{}}'])
def test_a_body_that_says_nothing_leaves_the_status(body: bytes) -> None:
    found = parse_error(503, {}, body)
    assert (found.kind, found.message) == (Kind.OVERLOADED, "the upstream answered with status 503")


def test_a_filter_and_a_wait_that_cannot_be_read() -> None:
    filtered = encode_error(ApiError(Kind.CONTENT_FILTERED, "no"), "id")
    assert parse_error(filtered.status, {}, filtered.body).kind is Kind.CONTENT_FILTERED
    for delay in ("soons", "-3s", "infs", "3"):
        body = json.dumps({"error": {"details": [{"retryDelay": delay}]}}).encode()
        assert parse_error(429, {}, body).retry_after_s is None


def test_a_bare_message_is_read() -> None:
    assert parse_error(404, {}, b'{"error":"no such model"}').message == "no such model"
