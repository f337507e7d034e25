from __future__ import annotations

from typing import get_args

from cohere.types import ChatFinishReason

from rivermouth.dialects import discover
from rivermouth.dialects.cohere_v2 import DIALECT, decoder, encoder, tables
from rivermouth.dialects.dialect import Operation
from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.events import PartKind, Reason
from rivermouth.ir.request import Choose, Role


def test_tables_from_enums_are_total() -> None:
    assert set(tables.FINISH_REASONS) == set(Reason)
    assert set(tables.CHOICES) == set(Choose)
    assert set(tables.ROLES.values()) == set(Role)
    assert set(encoder.CONTENT) == set(PartKind)


def test_every_word_of_the_sdk_is_known() -> None:
    words = set(get_args(get_args(ChatFinishReason)[0]))
    assert words == tables.REASONS.keys() | tables.FAILED.keys()
    assert set(tables.FINISH_REASONS.values()) <= words


def test_every_event_of_the_sdk_is_known_or_passes() -> None:
    from cohere.v2.types.v2chat_stream_response import V2ChatStreamResponse

    union = get_args(V2ChatStreamResponse)[0]
    types = {get_args(event.model_fields["type"].annotation)[0] for event in get_args(union)}
    assert types - decoder.Decoder._HANDLERS.keys() == {"citation-start", "citation-end", "debug"}


def test_the_dialect_is_found_with_its_routes_and_surfaces() -> None:
    assert discover()["cohere_v2"] is DIALECT
    assert [(s.prefix, s.stream_type) for s in DIALECT.surfaces] == [("/cohere/v2", "text/event-stream; charset=utf-8")]
    assert [(r.method, r.path, r.operation, r.streams) for r in DIALECT.routes] == [
        ("POST", "/chat", Operation.GENERATE, True),
        ("POST", "/embed", Operation.EMBED, False),
    ]
    assert DIALECT.auth("k") == {"Authorization": "Bearer k"}
    assert DIALECT.auth("") == {}


def test_errors_are_said_and_read_in_the_vendors_way() -> None:
    failure = DIALECT.encode_error(ApiError(Kind.NOT_FOUND, "model 'x' not found"), "01J")
    assert (failure.status, failure.body) == (404, b'{"id":"01J","message":"model \'x\' not found"}')
    error = DIALECT.parse_error(404, {}, failure.body)
    assert (error.kind, error.code, error.provider) == (Kind.NOT_FOUND, "model_not_found", "cohere_v2")
