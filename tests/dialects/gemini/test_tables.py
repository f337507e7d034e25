from __future__ import annotations

import pytest
from google.genai.types import FinishReason, FunctionCallingConfigMode, ThinkingLevel

from rivermouth.dialects import discover
from rivermouth.dialects.dialect import Operation
from rivermouth.dialects.gemini import DIALECT, encoder, tables
from rivermouth.ir.errors import Kind
from rivermouth.ir.events import PartKind, Reason
from rivermouth.ir.request import Choose, Sampling


def test_tables_from_enums_are_total() -> None:
    assert set(tables.WORDINGS) == set(Kind)
    assert set(tables.FINISH_OUT) == set(Reason)
    assert set(tables.MODES_OUT) == set(Choose)
    assert set(encoder._TEXTS) == set(PartKind) - {PartKind.TOOL, PartKind.IMAGE, PartKind.FILE}
    assert set(tables.SAMPLING.values()) | set(tables.UNSAMPLED) == set(Sampling.__struct_fields__)


def test_tables_of_words_know_what_the_sdk_knows() -> None:
    known = {*tables.FINISH_IN, *tables.FINISH_FAILED, tables.UNSAID}
    for reason in FinishReason:
        assert reason.value in known, reason
    for mode in FunctionCallingConfigMode:
        assert mode.value in tables.MODES_IN or mode.value == "MODE_UNSPECIFIED"
    for level in ThinkingLevel:
        assert level.value in tables.LEVELS or level.value == "THINKING_LEVEL_UNSPECIFIED"
    assert {w.status for w in tables.WORDINGS.values()} <= set(tables.KINDS)


def test_every_reason_comes_back_as_itself() -> None:
    for reason, word in tables.FINISH_OUT.items():
        assert tables.reason_of(word, called=reason is Reason.TOOL_CALLS) is reason


@pytest.mark.parametrize(
    ("model", "budget_only", "signed"),
    [
        ("gemini-2.5-flash", True, False),
        ("models/gemini-2.0-flash-lite", True, False),
        ("gemini-1.5-pro", True, False),
        ("gemini-3-pro-preview", False, True),
        ("gemini-3.1-flash", False, True),
        ("models/gemini-4-argon", False, True),
        ("gemini-12", False, True),
        ("gemma-3-27b-it", False, False),
        ("gemini-flash-latest", False, False),
        ("my-model", False, False),
    ],
)
def test_which_models_know_what(model: str, budget_only: bool, signed: bool) -> None:
    assert bool(tables.BUDGET_ONLY.match(model)) is budget_only
    assert bool(tables.SIGNED_CALLS.match(model)) is signed


@pytest.mark.promise(157)
def test_the_dialect_is_found_with_its_routes_surfaces_and_keys() -> None:
    assert discover()["gemini"] is DIALECT
    assert {s.prefix: s.stream_type.partition(";")[0] for s in DIALECT.surfaces} == {
        "/gemini/v1beta": "text/event-stream",
        "/gemini/v1": "text/event-stream",
        "/gemini/v1alpha": "text/event-stream",
        "/gemini": "text/event-stream",
        "/v1beta": "application/json",
        "/v1alpha": "application/json",
    }
    assert [(r.path, r.operation) for r in DIALECT.routes if r.streams] == [
        ("/models/{model}:streamGenerateContent", Operation.GENERATE)
    ]
    assert DIALECT.keep_alive is None
    assert [(k.header, k.query, k.scheme) for k in DIALECT.keys] == [
        ("x-goog-api-key", None, ""),
        (None, "key", ""),
        ("authorization", None, "Bearer"),
    ]
    assert DIALECT.auth("k") == {"x-goog-api-key": "k"}
    assert DIALECT.encode_count is not None
    assert DIALECT.encode_count(7) == b'{"totalTokens":7}'
