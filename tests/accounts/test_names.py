"""When two names are one, and what is none."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.accounts.names import LONGEST, MOST_TYPED, key, shown
from rivermouth.ir.errors import ApiError


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Anna", "aNNA"),
        ("Ａｎｎａ", "anna"),
        ("Zoe\u0308", "zoë"),
        ("Straße", "STRASSE"),
        ("ΣΑΣ", "σας"),
        ("ﬁsh", "FISH"),
        ("  an   na ", "an na"),
        ("K", "k"),
    ],
)
def test_names_that_are_one(one: str, other: str) -> None:
    assert key(shown(one)) == key(shown(other))


@pytest.mark.parametrize(("one", "other"), [("anna", "ann"), ("anna", "a nna"), ("zoe", "zoë"), ("a.b", "ab")])
def test_names_that_are_two(one: str, other: str) -> None:
    assert key(one) != key(other)


@given(st.text(max_size=80))
def test_a_key_is_the_key_of_itself_and_of_every_case(text: str) -> None:
    made = key(text)
    assert key(made) == made
    assert key(text.casefold()) == made
    assert key(unicodedata.normalize("NFD", text)) == made
    assert key(unicodedata.normalize("NFC", text)) == made


@given(st.text(max_size=400))
def test_what_is_shown_is_short_and_can_be_seen_and_shown_again(text: str) -> None:
    try:
        plain = shown(text)
    except ApiError:
        return
    assert 1 <= len(plain) <= LONGEST
    assert shown(plain) == plain
    assert key(plain) == key(text)
    assert plain.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\u3000\t",
        "a\x00b",
        "a\u200bb",
        "a\u202eb",
        "\ud800",
        "a\u2028b\u2029\x7f",
        "x" * (LONGEST + 1),
        "\ufdfa" * 4,
        "a" + " " * MOST_TYPED + "b",
    ],
)
def test_what_is_no_name(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        shown(text)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, "name", "unfit_name")


def test_the_longest_name_is_one() -> None:
    assert shown("x" * LONGEST) == "x" * LONGEST
