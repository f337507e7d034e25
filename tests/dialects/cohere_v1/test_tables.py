from __future__ import annotations

import json
from typing import get_args

import pytest
from cohere.types import ChatStreamEndEventFinishReason, FinishReason, StreamedChatResponse

from rivermouth.dialects import discover
from rivermouth.dialects.cohere_v1 import DIALECT, calls, decoder, tables
from rivermouth.dialects.dialect import Operation
from rivermouth.ir.errors import ApiError, Kind, WireError
from rivermouth.ir.events import Reason
from rivermouth.ir.reply import ModelInfo
from rivermouth.ir.request import Role
from rivermouth.wire.json import Raw
from tests.dialects.cohere_v1.case import route


def test_tables_from_enums_are_total() -> None:
    assert set(tables.FINISH_REASONS) == set(Reason)
    assert set(tables.WIRE_ROLES) == set(Role)


def test_every_word_of_the_sdk_is_known() -> None:
    words = {w for union in (FinishReason, ChatStreamEndEventFinishReason) for w in get_args(get_args(union)[0])}
    assert words == tables.REASONS.keys() | tables.FAILED.keys()
    assert set(tables.FINISH_REASONS.values()) <= set(get_args(get_args(ChatStreamEndEventFinishReason)[0]))


def test_every_event_of_the_sdk_is_known_or_passes() -> None:
    union = get_args(StreamedChatResponse)[0]
    types = {get_args(event.model_fields["event_type"].annotation)[0] for event in get_args(union)}
    known = decoder.Decoder._HANDLERS.keys() | {"text-generation"}
    assert types - known == {"search-queries-generation", "search-results", "citation-generation", "debug"}


def test_the_dialect_is_found_with_its_routes_and_surfaces() -> None:
    assert discover()["cohere_v1"] is DIALECT
    assert [(s.prefix, s.stream_type) for s in DIALECT.surfaces] == [("/cohere/v1", "application/json")]
    assert [(r.method, r.path, r.operation, r.streams) for r in DIALECT.routes] == [
        ("POST", "/chat", Operation.GENERATE, True),
        ("POST", "/embed", Operation.EMBED, False),
        ("GET", "/models", Operation.MODELS, False),
        ("GET", "/models/{model}", Operation.MODEL, False),
    ]
    assert DIALECT.auth("k") == {"Authorization": "Bearer k"}
    assert DIALECT.auth("") == {}


def test_errors_are_said_and_read_in_the_vendors_way() -> None:
    failure = DIALECT.encode_error(ApiError(Kind.RATE_LIMITED, "slow down", param="model"), "01J")
    assert (failure.status, failure.body) == (429, b'{"id":"01J","message":"model: slow down"}')
    error = DIALECT.parse_error(429, {}, failure.body)
    assert (error.kind, error.provider) == (Kind.RATE_LIMITED, "cohere_v1")


def test_models() -> None:
    infos = [
        ModelInfo(id="lab/x", owner="lab", context_tokens=4096, capabilities=("completion", "tools")),
        ModelInfo(id="e", owner="lab", capabilities=("embedding",)),
    ]
    assert DIALECT.encode_models is not None
    assert DIALECT.encode_model is not None
    assert DIALECT.parse_models is not None
    listed = DIALECT.encode_models(infos, route("/models"))
    about = {"finetuned": False, "is_deprecated": False}
    first = {"name": "lab/x", "endpoints": ["chat"], **about, "context_length": 4096, "features": ["tools"]}
    assert json.loads(listed) == {
        "models": [first, {"name": "e", "endpoints": ["embed"], **about, "context_length": None, "features": None}],
        "next_page_token": None,
    }
    assert json.loads(DIALECT.encode_model(infos[0], route("/models/{model}"))) == first
    back = DIALECT.parse_models(listed)
    assert [(m.id, m.context_tokens, m.capabilities) for m in back] == [
        ("lab/x", 4096, ("completion",)),
        ("e", None, ("embedding",)),
    ]


@pytest.mark.parametrize(
    "text", ["rain", "", "7", "[1]", '{"t":24,"u":[1]}', '{"output":"x","more":1}', "a\u2028b", "{broken", '"quoted"']
)
def test_a_results_text_survives_its_objects(text: str) -> None:
    outputs = [
        Raw(json.dumps(o if isinstance(o, dict) else json.loads(bytes(o))).encode()) for o in calls.write_outputs(text)
    ]
    back = calls.read_outputs(outputs)
    assert back == text or json.loads(back) == json.loads(text)


def test_arguments_that_cannot_be_read_are_a_wire_error() -> None:
    assert calls.arguments_text(Raw(b"null")) == ""
    assert calls.arguments_text(Raw(b'"say \\"hi\\""')) == 'say "hi"'
    with pytest.raises(WireError):
        calls.arguments_text(Raw(b"\xff"))
