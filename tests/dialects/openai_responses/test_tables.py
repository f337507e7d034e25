from __future__ import annotations

from rivermouth.dialects.openai_responses import DIALECT, tables
from rivermouth.dialects.openai_responses.decoder import _ITEMS, Decoder
from rivermouth.dialects.openai_responses.pictures import format_of, media_type_of
from rivermouth.dialects.openai_responses.shapes import RequestShape
from rivermouth.ir.errors import Kind
from rivermouth.ir.events import Reason
from rivermouth.ir.request import Choose, Format, Role, Sampling
from tests.goldens.cases import PIXEL


def test_tables_towards_the_wire_are_total() -> None:
    assert set(tables.STATUSES) == set(tables.WHY) == set(Reason)
    for reason, why in tables.WHY.items():
        assert (tables.STATUSES[reason] == "incomplete") is (why is not None)
    assert set(tables.FAILED_CODES) == set(Kind)
    assert set(tables.FORMAT_OUT) == set(Format)


def test_what_goes_out_is_read_back_as_the_same() -> None:
    assert set(tables.INCOMPLETE_IN.values()) == {Reason.LENGTH, Reason.CONTENT_FILTER}
    assert set(tables.CHOOSE_IN.values()) == set(Choose) - {Choose.NAMED}
    assert set(tables.ROLES_IN.values()) == set(Role) - {Role.TOOL}


def test_every_field_of_sampling_is_sent_or_is_a_loss() -> None:
    for name in Sampling.__struct_fields__:
        assert (name in tables.SAMPLING) != (name in tables.LOSSES)


def test_ranges_are_of_fields_that_exist() -> None:
    assert set(tables.RANGES) <= set(RequestShape.__struct_fields__)


def test_every_event_of_the_grammar_is_read() -> None:
    parts = ("output_text", "refusal", "reasoning_summary_text", "reasoning_text", "function_call_arguments")
    for part in (*parts, "custom_tool_call_input"):
        assert {f"response.{part}.delta", f"response.{part}.done"} <= set(Decoder._HANDLERS)
    for name in ("created", "in_progress", "queued", "completed", "incomplete", "failed"):
        assert f"response.{name}" in Decoder._HANDLERS
    assert {"message", "reasoning", "function_call", "custom_tool_call", "image_generation_call"} == set(_ITEMS)


def test_pictures_are_known_by_their_word_or_their_first_bytes() -> None:
    for media_type in ("image/png", "image/jpeg", "image/webp", "image/gif"):
        word = format_of(media_type)
        assert word is not None
        assert media_type_of(word, "") == media_type
    assert media_type_of(None, PIXEL) == "image/png"
    assert media_type_of(None, "/9j/4AAQ") == "image/jpeg"
    assert media_type_of("odd", "AAAA") == "image/png"
    assert (format_of(None), format_of("image/tiff")) == (None, None)


def test_it_is_served_beside_the_chat_and_called_with_a_bearer() -> None:
    assert [s.prefix for s in DIALECT.surfaces] == ["/v1", "/openai/v1"]
    assert {(k.header, k.scheme) for k in DIALECT.keys} == {("authorization", "Bearer"), ("x-api-key", "")}
    assert DIALECT.auth("k") == {"authorization": "Bearer k"}
    assert DIALECT.keep_alive == b": ping\n\n"
