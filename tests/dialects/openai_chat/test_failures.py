from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.openai_chat import DIALECT
from rivermouth.dialects.openai_chat.failures import encode_stream_error
from rivermouth.ir.errors import ADVICE, ApiError, Kind, invalid
from rivermouth.vendors.openai.failures import MESSAGE_CHARS, mask
from tests.strategies import errors

STATUS_TYPE_CODE = {
    Kind.INVALID_REQUEST: (400, "invalid_request_error", None),
    Kind.AUTHENTICATION: (401, "invalid_request_error", "invalid_api_key"),
    Kind.PERMISSION: (403, "permission_error", "model_not_allowed"),
    Kind.NOT_FOUND: (404, "invalid_request_error", "model_not_found"),
    Kind.TOO_LARGE: (413, "invalid_request_error", "request_too_large"),
    Kind.RATE_LIMITED: (429, "rate_limit_error", "rate_limit_exceeded"),
    Kind.OVERLOADED: (503, "server_error", "server_is_overloaded"),
    Kind.TIMEOUT: (504, "server_error", "timeout"),
    Kind.NETWORK: (502, "server_error", "upstream_unreachable"),
    Kind.UPSTREAM: (502, "server_error", "upstream_error"),
    Kind.TRUNCATED: (502, "server_error", "upstream_truncated"),
    Kind.CONTENT_FILTERED: (400, "invalid_request_error", "content_filter"),
    Kind.CANCELLED: (499, "server_error", "cancelled"),
    Kind.INTERNAL: (500, "server_error", "internal_error"),
}


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.fault("F15")
def test_each_kind_has_a_status_a_type_a_code_and_a_word_on_retrying(kind: Kind) -> None:
    failure = DIALECT.encode_error(ApiError(kind, "m", param="p"), "01J")
    status, type_, code = STATUS_TYPE_CODE[kind]
    assert failure.status == status
    assert json.loads(failure.body) == {"error": {"message": "m", "type": type_, "param": "p", "code": code}}
    assert failure.headers == {"x-should-retry": "true" if ADVICE[kind].retryable else "false"}


def test_codes_and_statuses_of_the_error_win_over_those_of_its_kind() -> None:
    failure = DIALECT.encode_error(ApiError(Kind.INVALID_REQUEST, "m", code="context_length_exceeded", status=405), "1")
    assert failure.status == 405
    assert json.loads(failure.body)["error"]["code"] == "context_length_exceeded"


def test_a_model_that_is_not_found_is_the_field_model() -> None:
    assert json.loads(DIALECT.encode_error(ApiError(Kind.NOT_FOUND, "m"), "1").body)["error"]["param"] == "model"
    route = ApiError(Kind.NOT_FOUND, "m", code="unknown_url")
    assert json.loads(DIALECT.encode_error(route, "1").body)["error"]["param"] is None


def test_an_empty_purse_is_not_cured_by_trying_again() -> None:
    failure = DIALECT.encode_error(ApiError(Kind.RATE_LIMITED, "m", code="insufficient_quota"), "1")
    assert json.loads(failure.body)["error"]["type"] == "insufficient_quota"
    assert (failure.status, failure.headers) == (429, {"x-should-retry": "false"})


@pytest.mark.promise(4)
@pytest.mark.fault("F5")
def test_an_error_in_the_stream_is_one_frame_on_one_line() -> None:
    frame = encode_stream_error(invalid("a\n\nb\u2028", "p"))
    assert frame.startswith(b'data: {"error":{"message":')
    assert frame.endswith(b"}}\n\n")
    assert len(frame.decode().strip().splitlines()) == 1


@given(errors)
def test_what_is_encoded_is_read_back_as_the_same_kind(error: ApiError) -> None:
    failure = DIALECT.encode_error(error, "1")
    back = DIALECT.parse_error(failure.status, {}, failure.body)
    assert ADVICE[back.kind].status == (502 if error.kind is Kind.INTERNAL else failure.status)
    assert back.code == (error.code or STATUS_TYPE_CODE[error.kind][2])


# -- an upstream's errors ---------------------------------------------------------------------------------------------


NOTHING = "the upstream failed with HTTP status %d"
CONTEXT = "context_length_exceeded"
RATE = "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (429, '{"error":{"message":"m","type":"requests","code":"rate_limit_exceeded"}}', "rate_limited", RATE),
        (429, '{"error":{"message":"m","type":"insufficient_quota"}}', "rate_limited", "insufficient_quota"),
        (400, '{"error":{"message":"m","code":"context_length_exceeded"}}', "invalid_request", CONTEXT),
        (400, '{"error":{"code":400,"message":"m","type":"exceed_context_size_error"}}', "invalid_request", CONTEXT),
        (400, '{"error":{"message":"m","code":"content_filter"}}', "content_filtered", "content_filter"),
        (401, '{"error":"m"}', "authentication", None),
        (404, '{"error":{"message":"m","code":"404"}}', "not_found", None),
        (422, '{"detail":[{"loc":["body","messages",0],"msg":"m"}]}', "invalid_request", None),
        (404, '{"detail":"m"}', "not_found", None),
        (529, '{"type":"error","message":"m"}', "overloaded", None),
    ],
)
def test_an_upstreams_error_of_any_shape(status: int, body: str, kind: str, code: str | None) -> None:
    error = DIALECT.parse_error(status, {}, body.encode())
    assert (error.kind.value, error.message) == (kind, "m")
    assert error.code == code


def test_a_prompt_that_is_too_long_is_known_by_its_words_too() -> None:
    body = b'{"object":"error","message":"This model\'s maximum context length is 10"}'
    assert DIALECT.parse_error(400, {}, body).code == CONTEXT


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, "<html><body>oops</body></html>", "upstream"),
        (502, "", "upstream"),
        (503, "[1]", "overloaded"),
        (503, '{"error":null}', "overloaded"),
        (418, '{"error":{"message":["odd"],"code":{},"type":[]}}', "invalid_request"),
    ],
)
def test_an_error_without_words_is_told_by_its_status(status: int, body: str, kind: str) -> None:
    error = DIALECT.parse_error(status, {}, body.encode())
    assert (error.kind.value, error.code, error.message) == (kind, None, NOTHING % status)


def test_the_field_that_an_upstream_blames_is_kept() -> None:
    assert DIALECT.parse_error(400, {}, b'{"error":{"message":"m","param":"tools[0]"}}').param == "tools[0]"
    assert DIALECT.parse_error(422, {}, b'{"detail":[{"loc":["body","stop"],"msg":"m"}]}').param == "stop"


@pytest.mark.fault("F36")
@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: SECRET123456. Find yours",
        "invalid key sk-SECRET123456",
        "invalid key sk-SECRET",
        "sk-proj-SECRET_12-3456 is wrong",
        "bad gsk_SECRET123456!",
        "Authorization: Bearer SECRET123456",
        'api_key="SECRET123456"',
        "AIzaSECRET123456",
    ],
)
def test_no_key_of_an_upstream_reaches_a_client(text: str) -> None:
    error = DIALECT.parse_error(401, {}, json.dumps({"error": {"message": text}}).encode())
    assert "SECRET" not in error.message
    assert "***" in error.message


def test_messages_are_short_and_on_one_line() -> None:
    assert mask("a\r\n\x00b\u2028\x85c\u202e") == "a b c"
    assert len(mask("x" * 10_000)) == MESSAGE_CHARS
    for harmless in (
        "a task-oriented api-reference",
        "Missing bearer authentication in header",
        "bad api key: unknown",
    ):
        assert mask(harmless) == harmless


@given(st.integers(400, 599), st.binary(max_size=60))
def test_parsing_an_error_never_fails(status: int, body: bytes) -> None:
    assert DIALECT.parse_error(status, {}, body).message
