from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.gemini import opaque
from rivermouth.dialects.gemini.opaque import Place, Signed
from rivermouth.ir.opaque import SEALED_BASE64, sealed

wires = st.binary(min_size=1).map(lambda b: base64.b64encode(b).decode())


@given(st.text(min_size=1), st.booleans())
def test_any_signature_comes_back_as_itself_in_either_alphabet(signature: str, redacted: bool) -> None:
    place, wire = opaque.to_client(signature, redacted=redacted)
    base64.b64decode(wire, validate=True) if opaque.native(signature) is None else None
    if opaque.native(signature) is not None and not redacted:
        assert opaque.from_wire(place, wire) == (signature, False)
        return
    assert sealed(wire)
    as_the_sdk_writes_it = base64.urlsafe_b64encode(base64.b64decode(wire)).decode()
    for written in (wire, as_the_sdk_writes_it, wire.rstrip("=")):
        assert opaque.from_wire(place, written) == (signature, redacted)


@given(st.sampled_from(Place), wires)
def test_the_vendors_own_pass_unchanged_and_keep_their_place(place: Place, wire: str) -> None:
    neutral = place.value + wire
    assert opaque.native(neutral) == opaque.to_client(neutral) == Signed(place, wire)
    assert opaque.from_wire(place, wire) == (neutral, False)


@pytest.mark.parametrize("signature", [None, "", "gAAAA", "anthropic:EqQB", "gemini", "gemini:", "geminix:A"])
def test_what_no_model_of_the_vendor_made_is_not_its_own(signature: str | None) -> None:
    assert opaque.native(signature) is None


@pytest.mark.parametrize("wire", [SEALED_BASE64, SEALED_BASE64 + "Lg==", SEALED_BASE64 + "!", SEALED_BASE64 + "/w=="])
def test_a_broken_envelope_is_no_signature(wire: str) -> None:
    assert opaque.from_wire(Place.THOUGHT, wire) == (None, False)
