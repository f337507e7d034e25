from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rivermouth.dialects.openai_responses import opaque
from rivermouth.ir.opaque import sealed


@given(signature=st.text(min_size=1), redacted=st.booleans())
def test_whatever_is_wrapped_comes_back(signature: str, redacted: bool) -> None:
    wire = opaque.to_client(signature, redacted=redacted)
    assert wire.isascii()
    assert sealed(wire)
    assert opaque.from_wire("rs_ours", wire, silent=False) == (signature, redacted)


def test_the_vendors_own_keeps_its_id_and_goes_back_as_it_came() -> None:
    signed = opaque.from_wire("rs_1", "gAAA==", silent=False)
    assert signed == ("openai:rs_1:gAAA==", False)
    assert opaque.native(signed.signature) == ("rs_1", "gAAA==")
    assert opaque.from_wire(None, "gAAA==", silent=True) == ("openai::gAAA==", True)


def test_what_another_vendor_signed_is_not_the_vendors_own() -> None:
    for foreign in (None, "anthropic:EqQB", "gemini-call:AbC", "openai:", "openai:rs_1:", "c2ln"):
        assert opaque.native(foreign) is None


def test_nothing_is_no_signature_and_a_broken_envelope_is_none() -> None:
    assert opaque.from_wire("rs_1", None, silent=True) is None
    assert opaque.from_wire("rs_1", "", silent=True) is None
    assert opaque.from_wire("rs_1", "rivermouth.1.", silent=True) is None
    assert opaque.from_wire("rs_1", "rivermouth.1._w", silent=False) is None
