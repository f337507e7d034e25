from __future__ import annotations

import re
from typing import get_args

import pytest
from anthropic.types import ErrorType, StopReason
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects import discover
from rivermouth.dialects.anthropic import DIALECT, encoder, opaque, parse, tables
from rivermouth.dialects.dialect import Operation
from rivermouth.ir.errors import Kind
from rivermouth.ir.events import PartKind, Reason
from rivermouth.ir.request import Choose
from tests.dialects.anthropic.case import route

OWN = {"/anthropic/v1", "/v1/v1", "/anthropic/v1/v1"}
"""Where its SDK's requests arrive from a base URL with a prefix of our own, or with the /v1 that it appends itself."""


def test_tables_from_enums_are_total() -> None:
    assert set(tables.WORDINGS) == set(Kind)
    assert set(tables.STOP_REASONS) == set(Reason)
    assert set(encoder._DELTAS) == set(PartKind)
    assert set(parse._CHOICES.values()) == set(Choose)


def test_tables_of_words_know_what_the_sdk_knows() -> None:
    assert set(get_args(StopReason)) <= set(tables.REASONS)
    assert set(get_args(ErrorType)) <= set(tables.KINDS)
    assert {w.type for w in tables.WORDINGS.values()} | {tables.BILLING.type} <= set(tables.KINDS)


def test_every_reason_comes_back_as_itself() -> None:
    for reason, word in tables.STOP_REASONS.items():
        assert tables.reason_of(word, called=reason is Reason.TOOL_CALLS) is reason


def test_the_dialect_is_found_with_its_routes_and_surfaces() -> None:
    assert discover()["anthropic"] is DIALECT
    assert {s.prefix for s in DIALECT.surfaces} == {"/v1", *OWN}
    assert {s.stream_type for s in DIALECT.surfaces} == {"text/event-stream; charset=utf-8"}
    assert {s.prefix for s in DIALECT.surfaces if "always" in s.options} == OWN
    assert [r.path for r in DIALECT.routes if r.streams] == ["/messages"]
    assert {r.path for r in DIALECT.routes if r.when_header == "anthropic-version"} == {"/models", "/models/{model}"}
    assert route("/messages/count_tokens").operation is Operation.COUNT_TOKENS
    assert DIALECT.encode_count is not None
    assert DIALECT.encode_count(7) == b'{"input_tokens":7}'
    assert DIALECT.auth("k") == {"x-api-key": "k", "anthropic-version": "2023-06-01"}


@given(st.text(min_size=1, max_size=150))
def test_any_tool_id_is_spelled_in_the_alphabet_and_restored(tool_id: str) -> None:
    wire = opaque.tool_id_to_wire(tool_id)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", wire)
    assert opaque.tool_id_from_wire(wire) == tool_id


@pytest.mark.parametrize("tool_id", ["toolu_01", "call_abc-D", "rmid_", "rmid_!", "rmid_zz"])
def test_ids_of_others_are_left_alone(tool_id: str) -> None:
    assert opaque.tool_id_from_wire(tool_id) == tool_id


@given(st.none() | st.text(min_size=1))
def test_any_signature_comes_back_as_itself(signature: str | None) -> None:
    wire = opaque.signature_to_wire(signature)
    assert wire
    if signature != opaque.NATIVE:
        assert opaque.signature_from_wire(wire) == signature


@given(st.text("ABCabc019+/=", min_size=1))
def test_anthropics_own_signatures_pass_unchanged(signature: str) -> None:
    neutral = opaque.signature_from_wire(signature)
    assert opaque.native(neutral) == opaque.signature_to_wire(neutral) == signature
    assert opaque.native("foreign") is opaque.native(None) is None
