"""What a client's words may become a name: short, printable, and never many."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.ir.names import LOSS_NAMES, MODEL_CHARS, OTHERS, loss_names, model_name, quoted, unread

SHOWN = re.compile(r"[A-Za-z0-9_.\-\[\]]{1,64}")


@pytest.mark.parametrize("name", ["m", "x" * MODEL_CHARS, "lab/org/modèle:1b", "a b"])
def test_a_name_of_a_model_is_kept_as_it_is(name: str) -> None:
    assert model_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "x" * (MODEL_CHARS + 1), "a\nb", "a\x00", "\x7f", "a\x9fb", "a\u2028b", "\r\nx-evil: 1", "a\u202eb", "\u2066"],
)
def test_any_other_is_refused_by_the_name_of_its_field(name: str) -> None:
    with pytest.raises(ApiError) as caught:
        model_name(name, param="source")
    assert (caught.value.kind, caught.value.status, caught.value.param) == (Kind.INVALID_REQUEST, 400, "source")
    assert len(caught.value.message) < 100


def test_the_first_spelling_that_is_given_is_the_name() -> None:
    assert model_name(None, "", "b", "c") == "b"


@given(st.lists(st.one_of(st.text(max_size=70), st.from_regex(SHOWN, fullmatch=True)), max_size=60))
def test_loss_names_can_be_shown_and_are_few(names: list[str]) -> None:
    kept = loss_names(names)
    assert all(SHOWN.fullmatch(name) for name in kept)
    assert len(kept) == len(set(kept)) <= LOSS_NAMES + 1
    assert set(kept) - {OTHERS} <= set(names)
    told = set(names) <= set(kept)
    assert told or kept[-1] == OTHERS or OTHERS in names


def test_plain_names_stay_in_their_order() -> None:
    assert loss_names(["b", "options.mirostat", "b", "tools[0]", "a-1"]) == ("b", "options.mirostat", "tools[0]", "a-1")
    assert loss_names([]) == ()


@pytest.mark.parametrize("odd", ["", "é", "a b", "a\nb", "x" * 65, "a:b", "a,b"])
def test_what_cannot_be_shown_is_one_name(odd: str) -> None:
    assert loss_names(["a", odd, odd + "\t", "b"]) == ("a", "b", OTHERS)


def test_too_many_are_one_name() -> None:
    names = [f"f{i}" for i in range(1000)]
    assert loss_names(names) == (*names[:LOSS_NAMES], OTHERS)
    assert loss_names(names[:LOSS_NAMES]) == tuple(names[:LOSS_NAMES])


def test_a_field_that_is_read_or_asks_for_nothing_is_not_unread() -> None:
    fields = {name: msgspec.Raw(raw) for name, raw in (("a", b"1"), ("b", b"null"), ("c", b"false"), ("d", b"{}"))}
    assert unread(fields, {"a"}) == ["d"]


@given(st.text())
def test_a_word_is_repeated_printable_and_short(word: str) -> None:
    shown = quoted(word)
    assert shown.isprintable()
    assert len(word) > 40 or shown == repr(word)
    assert len(quoted(word * 50)) < 500
