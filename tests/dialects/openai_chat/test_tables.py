from __future__ import annotations

import pytest

from rivermouth.dialects.openai_chat import DIALECT, tables
from rivermouth.dialects.openai_chat.build import LOSSES, SAMPLING
from rivermouth.dialects.openai_chat.shapes import ChatRequest
from rivermouth.ir.errors import Kind
from rivermouth.ir.events import PartKind, Reason
from rivermouth.ir.request import Choose, Format, Sampling
from rivermouth.vendors.openai.failures import CODE_KINDS, TYPE_KINDS, WORDS
from rivermouth.vendors.openai.finish import FINISH_FAILED, FINISH_IN


@pytest.mark.parametrize(
    ("table", "keys"),
    [
        (tables.FINISH_OUT, Reason),
        (tables.DELTA_MEMBER, PartKind),
        (tables.FORMAT_OUT, Format),
        (WORDS, Kind),
    ],
)
def test_tables_towards_the_wire_are_total(table: dict[object, object], keys: type) -> None:
    assert set(table) == set(keys)


def test_what_goes_out_is_read_back_as_the_same() -> None:
    assert {r: FINISH_IN[word] for r, word in tables.FINISH_OUT.items()} == {r: r for r in Reason}
    assert set(FINISH_IN).isdisjoint(FINISH_FAILED)
    assert set(tables.CHOOSE_IN.values()) == set(Choose) - {Choose.NAMED}


def test_only_words_that_the_sdks_know_go_out() -> None:
    assert set(tables.FINISH_OUT.values()) == {"stop", "length", "tool_calls", "content_filter"}


def test_every_field_of_sampling_is_sent_or_is_a_loss() -> None:
    for name in Sampling.__struct_fields__:
        assert (name in SAMPLING) != (name in LOSSES)


def test_ranges_are_of_fields_that_exist() -> None:
    assert set(tables.RANGES) <= set(ChatRequest.__struct_fields__)


def test_kinds_of_codes_agree_with_the_codes_we_send() -> None:
    for kind, words in WORDS.items():
        if words.code in CODE_KINDS:
            assert CODE_KINDS[words.code] is kind
    assert set(TYPE_KINDS.values()) <= set(Kind)


def test_keys_are_taken_where_both_families_put_them() -> None:
    assert {(k.header, k.scheme) for k in DIALECT.keys} == {("authorization", "Bearer"), ("x-api-key", "")}
    assert DIALECT.auth("k") == {"authorization": "Bearer k"}
    assert DIALECT.keep_alive == b": ping\n\n"
    assert DIALECT.losses == LOSSES
