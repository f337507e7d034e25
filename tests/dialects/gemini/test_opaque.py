from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.gemini import opaque
from rivermouth.dialects.gemini.opaque import Place, Signed

wires = st.binary(min_size=1).map(lambda b: base64.b64encode(b).decode())


@given(st.text(min_size=1), st.booleans())
def test_any_signature_comes_back_as_itself_in_either_alphabet(signature: str, redacted: bool) -> None:
    place, wire = opaque.to_client(signature, redacted=redacted)
    base64.b64decode(wire, validate=True) if opaque.native(signature) is None else None
    if opaque.native(signature) is not None and not redacted:
        assert opaque.from_client(place, wire) == (signature, False)
        return
    assert opaque.minted(wire)
    as_the_sdk_writes_it = base64.urlsafe_b64encode(base64.b64decode(wire)).decode()
    for written in (wire, as_the_sdk_writes_it, wire.rstrip("=")):
        assert opaque.from_client(place, written) == (signature, redacted)


@given(st.sampled_from(Place), wires)
def test_the_vendors_own_pass_unchanged_and_keep_their_place(place: Place, wire: str) -> None:
    neutral = opaque.from_upstream(place, wire)
    assert opaque.native(neutral) == opaque.to_client(neutral) == Signed(place, wire)
    assert opaque.from_client(place, wire) == (neutral, False)


@pytest.mark.parametrize("signature", [None, "", "gAAAA", "anthropic:EqQB", "gemini", "gemini:", "geminix:A"])
def test_what_no_model_of_the_vendor_made_is_not_its_own(signature: str | None) -> None:
    assert opaque.native(signature) is None


@pytest.mark.parametrize("wire", [opaque.MINTED, opaque.MINTED + "Lg==", opaque.MINTED + "!", opaque.MINTED + "/w=="])
def test_what_only_looks_wrapped_is_taken_as_it_is(wire: str) -> None:
    assert opaque.from_client(Place.THOUGHT, wire) == ("gemini:" + wire, False)
