from __future__ import annotations

import json

import pytest

from rivermouth.dialects.ollama.failure import encode_error, parse_error, stream_error
from rivermouth.ir.errors import ADVICE, ApiError, Kind, invalid


@pytest.mark.parametrize("kind", list(Kind))
def test_an_error_is_one_string(kind: Kind) -> None:
    failure = encode_error(ApiError(kind, "why"), "call-1")
    assert failure.status == ADVICE[kind].status
    assert json.loads(failure.body) == {"error": "why"}
    assert stream_error(ApiError(kind, "why")) == failure.body + b"\n"


def test_a_status_of_its_own_is_kept() -> None:
    assert encode_error(ApiError(Kind.INVALID_REQUEST, "x", status=405), "").status == 405


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (404, b'{"error":"model \'x\' not found"}', Kind.NOT_FOUND, "model 'x' not found"),
        (400, b'{"error":{"message":"bad"}}', Kind.INVALID_REQUEST, "bad"),
        (500, b'{"error":{"code":7}}', Kind.UPSTREAM, '{"code":7}'),
        (502, b"<html>\xff", Kind.UPSTREAM, "<html>\ufffd"),
        (503, b"", Kind.OVERLOADED, "HTTP status 503"),
        (429, b"[]", Kind.RATE_LIMITED, "[]"),
    ],
)
def test_an_upstreams_error(status: int, body: bytes, kind: Kind, message: str) -> None:
    error = parse_error(status, {}, body)
    assert (error.kind, error.message, error.provider) == (kind, message, "ollama")
    assert (error.code == "model_not_found") is (status == 404)


def test_a_long_body_is_cut() -> None:
    assert len(parse_error(500, {}, b"x" * 10_000).message) == 500
    assert len(parse_error(500, {}, b'{"error":"' + b"x" * 10_000 + b'"}').message) == 500


def test_a_refusal_is_400() -> None:
    assert encode_error(invalid("model is required", "model"), "").status == 400
