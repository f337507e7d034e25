from __future__ import annotations

import json
from typing import Any

import pytest

from rivermouth.ir.errors import ApiError, Kind, invalid
from rivermouth.vendors.cohere import failures


def test_every_kind_means_the_same_when_it_comes_back() -> None:
    for kind in Kind:
        error = ApiError(kind, "m")
        back = failures.read_error("x", error.status, failures.error_document(error, "01J"))
        assert back.message == "m"
        assert back.retryable is error.retryable or kind in (Kind.INTERNAL, Kind.CANCELLED)


def test_the_message_begins_with_the_field_that_it_does_not_name() -> None:
    assert json.loads(failures.error_document(invalid("too long", "message"), "01J")) == {
        "id": "01J",
        "message": "message: too long",
    }
    assert failures.sentence(invalid("the model is unknown", "model")) == "the model is unknown"
    assert failures.sentence(ApiError(Kind.INTERNAL, "")) == "internal"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("", ""),
        ({}, ""),
        ([], ""),
        (" broke ", "broke"),
        ({"message": "broke"}, "broke"),
        ({"error": {"message": "broke"}}, "broke"),
        ({"error": "broke"}, "broke"),
        ({"detail": [{"loc": 1}]}, '[{"loc":1}]'),
        ({"message": {"message": {"x": 1}}}, '{"x":1}'),
        ("x" * 5000, "x" * 2000),
    ],
)
def test_the_words_of_an_error(value: Any, text: str) -> None:
    assert failures.words(value) == text


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (404, b'{"message":"model \'x\' not found"}', Kind.NOT_FOUND, "model_not_found"),
        (404, b'{"message":"no such route"}', Kind.NOT_FOUND, None),
        (400, b'{"message":"too many tokens: 9"}', Kind.INVALID_REQUEST, "context_length_exceeded"),
        (400, b"{}", Kind.INVALID_REQUEST, None),
        (498, b'{"message":"invalid token"}', Kind.AUTHENTICATION, None),
        (422, b'{"message":"invalid"}', Kind.INVALID_REQUEST, None),
        (429, b'{"message":"trial key"}', Kind.RATE_LIMITED, None),
        (499, b"", Kind.CANCELLED, None),
        (501, b"", Kind.INVALID_REQUEST, None),
        (503, b"<html>", Kind.OVERLOADED, None),
        (500, b"\xff", Kind.UPSTREAM, None),
    ],
)  # fmt: skip
def test_an_upstreams_error(status: int, body: bytes, kind: Kind, code: str | None) -> None:
    error = failures.read_error("cohere", status, body)
    assert (error.kind, error.code, error.provider) == (kind, code, "cohere")
    assert error.message
