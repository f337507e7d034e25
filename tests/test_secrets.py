"""A secret leaves its wrapper by `reveal` and by nothing else."""

from __future__ import annotations

import copy
import io
import json
import pickle

import msgspec
import pytest

from rivermouth.secrets import MASK, Secret, holds_secret, redact

VALUE = "s3cret-value-0123"

PRINTERS = {
    "str": str,
    "repr": repr,
    "format": lambda s: f"{s}",
    "format-spec": lambda s: f"{s:>5}",
    "percent": lambda s: "%s %r" % (s, s),  # noqa: UP031
    "json": json.dumps,
    "json-key": lambda s: json.dumps({s: [s]}),
    "concatenation": lambda s: "Bearer " + s,
    "join": lambda s: ",".join(2 * [s]),
    "encode": lambda s: s.encode().decode(),
    "container": lambda s: repr({"k": [s]}),
    "slice": lambda s: s[:],
}


@pytest.mark.fault("F36")
@pytest.mark.parametrize("show", PRINTERS.values(), ids=PRINTERS.keys())
def test_a_secret_prints_as_three_stars(show):
    shown = show(Secret(VALUE, "LAB_KEY"))
    assert MASK in shown
    assert VALUE not in shown


@pytest.mark.fault("F36")
def test_a_struct_that_holds_one_does_not_print_it():
    class Holder(msgspec.Struct):
        key: Secret

    assert VALUE not in repr(Holder(Secret(VALUE)))
    with pytest.raises(TypeError):
        msgspec.json.encode(Holder(Secret(VALUE)))


def test_it_is_not_pickled():
    with pytest.raises(TypeError):
        pickle.dump(Secret(VALUE), io.BytesIO())


def test_reveal_gives_a_plain_string():
    assert Secret(VALUE).reveal() == VALUE
    assert type(Secret(VALUE).reveal()) is str


def test_equality_is_of_the_values():
    assert Secret(VALUE) == Secret(VALUE, "elsewhere")
    assert Secret(VALUE) != Secret("other")
    assert Secret(VALUE) != MASK
    assert Secret(MASK) != MASK
    assert len({Secret(VALUE), Secret(VALUE), Secret("other")}) == 2
    assert copy.deepcopy([Secret(VALUE)]) == [Secret(VALUE)]


def test_matches_takes_what_a_client_sent():
    assert Secret(VALUE).matches(VALUE)
    assert not Secret(VALUE).matches(MASK)
    assert not Secret(VALUE).matches("\udcff")


@pytest.mark.fault("F36")
@pytest.mark.parametrize(
    ("text", "gone"),
    [
        (f"key {VALUE} refused", VALUE),
        ("Incorrect API key provided: sk-proj-abcdef123456", "sk-proj-abcdef123456"),
        ("header was 'Bearer abcdef.ghi'", "abcdef.ghi"),
        ("GET /v1beta/models?key=AIzaSyA1234567890&alt=sse", "AIzaSyA1234567890"),
        ("gsk_abcdefgh1234", "gsk_abcdefgh1234"),
    ],
)
def test_redact_takes_out_known_and_likely_secrets(text, gone):
    assert gone not in redact(text, [Secret(VALUE)])
    assert MASK in redact(text, [Secret(VALUE)])


def test_a_name_holds_a_secret_where_no_word_could_be_it():
    assert holds_secret(f"lab/{VALUE * 3}", [Secret(VALUE * 3)])
    assert holds_secret("rmk_" + "a1B2" * 10, ())
    assert not holds_secret("ollama/llama3", [Secret("ollama")])
    assert not holds_secret("rmk_model", [Secret("")])


def test_redact_leaves_ordinary_words():
    text = "the model said: risk-free basic training, ask for a desk"
    assert redact(text, [Secret("a")]) == text
