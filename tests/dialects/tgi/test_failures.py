"""Errors: the tables are total, on both routes alike, and every server's way of saying them is understood."""

from __future__ import annotations

import json

import pytest

from rivermouth.dialects.tgi import DIALECT
from rivermouth.dialects.tgi.tables import KINDS, WORDINGS
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import Error, TextDelta
from tests.dialects.conformance import only_error
from tests.dialects.tgi.case import HELLO, answer, decode, encode, plain


@pytest.mark.fault("F15")
@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_words(kind: Kind) -> None:
    failure = DIALECT.encode_error(ApiError(kind, "not today", param="inputs"), "c")
    assert set(WORDINGS) == set(Kind)
    assert failure.status == WORDINGS[kind].status
    assert json.loads(failure.body) == {"error": "inputs: not today", "error_type": WORDINGS[kind].type}
    assert WORDINGS[kind].type in KINDS


def test_a_status_of_its_own_is_kept() -> None:
    assert DIALECT.encode_error(ApiError(Kind.INVALID_REQUEST, "no", status=405), "c").status == 405


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (422, b'{"error":"x","error_type":"validation"}', Kind.INVALID_REQUEST),
        (424, b'{"error":"x","error_type":"generation"}', Kind.UPSTREAM),
        (429, b'{"error":"x","error_type":"overloaded"}', Kind.RATE_LIMITED),
        (500, b'{"error":"x","error_type":"incomplete_generation"}', Kind.TRUNCATED),
        (503, b'{"error":"x","error_type":"healthcheck"}', Kind.OVERLOADED),
        (404, b'{"error":"x"}', Kind.NOT_FOUND),
        (500, b"<html>", Kind.UPSTREAM),
        (422, b"Failed to deserialize the JSON body", Kind.INVALID_REQUEST),
    ],
)
def test_an_upstreams_error_is_read(status: int, body: bytes, kind: Kind) -> None:
    assert DIALECT.parse_error(status, {}, body).kind is kind


def test_no_error_text_makes_a_client_ask_again() -> None:
    """O5: one sentence makes clients repeat the call without some of its fields."""
    for kind in Kind:
        assert b"model_kwargs" not in DIALECT.encode_error(ApiError(kind, kind.value), "c").body


@pytest.mark.fault("F11", "F14")
@pytest.mark.parametrize("kind", Kind)
def test_the_chat_says_errors_in_this_servers_shape(kind: Kind) -> None:
    encoder = DIALECT.encoder(answer("chat"))
    stream = encoder.feed([*HELLO[:3], Error(ApiError(kind, "it broke"))])
    last = stream.rstrip(b"\n").rpartition(b"\n\n")[2]
    assert json.loads(last.removeprefix(b"data: ")) == {"error": "it broke", "error_type": WORDINGS[kind].type}
    assert b"[DONE]" not in stream
    assert encoder.feed([TextDelta(0, "late")]) == b""
    assert only_error(decode(stream)).error.kind is KINDS[WORDINGS[kind].type]


def test_the_chat_ends_with_a_space_before_its_terminator() -> None:
    assert encode(HELLO, "chat").endswith(b"\n\ndata: [DONE]\n\n")


def test_a_call_that_older_servers_do_not_put_in_a_list_is_read() -> None:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    head = {"id": "x", "object": "chat.completion.chunk"}
    stream = plain(
        {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "tool_calls": call}, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "eos_token"}]},
    )
    names = [type(e).__name__ for e in decode(stream + b"data: [DONE]\n\n")]
    assert names == ["Start", "PartStart", "ArgsDelta", "PartEnd", "Finish"]
