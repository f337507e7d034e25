from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.ir.opaque import (
    SEALED,
    SEALED_BASE64,
    Opened,
    holds_sealed,
    native,
    opened,
    seal,
    seal_base64,
    sealed,
    spell,
    unspelled,
)

signatures = st.text(min_size=1)
notes = st.text("0123456789+=@t", max_size=12)


@given(signatures, st.booleans(), notes, st.text())
def test_what_is_sealed_is_opened_in_either_form_and_alphabet(
    signature: str, redacted: bool, note: str, text: str
) -> None:
    kept = Opened(signature, redacted, note, text)
    wire = seal(signature, redacted=redacted, note=note, text=text)
    assert opened(wire) == kept
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", wire)
    base64 = seal_base64(signature, redacted=redacted, note=note, text=text)
    other_alphabet = urlsafe_b64encode(b64decode(base64, validate=True)).decode()
    for written in (base64, other_alphabet, base64.rstrip("=")):
        assert opened(written) == kept
    for form in (wire, base64):
        assert sealed(form)
        assert holds_sealed(b'{"a":"%b"}' % form.encode())


def test_nobodys_signature_is_an_envelope_too() -> None:
    assert seal(None) == SEALED
    assert opened(SEALED) == Opened()


@pytest.mark.parametrize(
    "wire",
    [
        *(
            SEALED + broken
            for broken in ("!", "Lg", spell("."), spell("x|0|a"), spell(".|0|"), spell(".|9|ab"), spell(".a"))
        ),
        *(SEALED_BASE64 + broken for broken in ("", "!", "/w==")),
        seal("s")[:-1],
        seal_base64("signature")[:-5],
    ],
)
def test_a_broken_envelope_has_nothing_in_it_and_is_still_one(wire: str) -> None:
    found = opened(wire)
    assert found is not None
    assert found.signature != "s"
    assert sealed(wire)


@pytest.mark.parametrize("wire", ["", "EqQB", "gAAAAA==", "anthropic:EqQB", "rivermouth", "Rivermouth.1.", "cml2"])
def test_what_others_write_is_no_envelope(wire: str) -> None:
    assert opened(wire) is None
    assert not sealed(wire)
    assert not holds_sealed(wire.encode())


@given(st.text())
def test_any_text_is_spelled_in_few_letters(text: str) -> None:
    letters = spell(text)
    assert re.fullmatch(r"[A-Za-z0-9_-]*", letters)
    assert unspelled(letters) == text


def test_a_signature_is_at_home_where_its_mark_says() -> None:
    assert native("a:", "a:x") == "x"
    assert native("a:", "b:x") is native("a:", None) is native("a:", "a:") is native("a:", "x") is None
