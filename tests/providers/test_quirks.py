"""Quirks edit the body and tell what they took away."""

from __future__ import annotations

import pytest

from rivermouth.dialects.dialect import Outgoing
from rivermouth.providers.quirks import QUIRKS, bend, lists
from rivermouth.wire import json

BODY = {"model": "m", "max_completion_tokens": 5, "seed": 1, "stream_options": {"include_usage": True}, "x": 1.50}


def bent(*words: str, body: dict[str, object] | None = None) -> tuple[dict[str, object], tuple[str, ...]]:
    out = bend(Outgoing(path="/p", body=json.encode(BODY if body is None else body), losses=("a",)), words)
    return json.decode(out.body), out.losses


def test_without_quirks_the_body_stays_the_same_bytes() -> None:
    outgoing = Outgoing(path="/p", body=b'{ "x": 1.50 }')
    assert bend(outgoing, ()) is outgoing
    assert bend(outgoing, ("no_seed",)) is outgoing


def test_a_field_that_is_dropped_is_a_loss_once() -> None:
    body, losses = bent("no_seed", "no_seed")
    assert "seed" not in body
    assert losses == ("a", "seed")


def test_what_the_client_did_not_ask_for_is_dropped_silently() -> None:
    body, losses = bent("no_stream_options")
    assert "stream_options" not in body
    assert losses == ("a",)


def test_a_renamed_field_keeps_its_value_and_one_that_is_there_wins() -> None:
    assert bent("max_tokens")[0]["max_tokens"] == 5
    body, losses = bent("max_tokens", body={"max_completion_tokens": 5, "max_tokens": 6})
    assert (body, losses) == ({"max_tokens": 6}, ("a",))


def test_untouched_fields_keep_their_bytes() -> None:
    out = bend(Outgoing(path="/p", body=b'{"seed": 1, "x": 1.50, "big": 123456789012345678901234567890}'), ("no_seed",))
    assert out.body == b'{"x":1.50,"big":123456789012345678901234567890}'


@pytest.mark.parametrize("word", QUIRKS)
def test_every_quirk_does_something_and_says_what(word: str) -> None:
    quirk = QUIRKS[word]
    assert quirk.says
    assert quirk.drop or quirk.rename or not lists([word])
    names = [*quirk.drop, *quirk.rename]
    body, _ = bent(word, body=dict.fromkeys(names, 1))
    assert not set(names) & set(body)


def test_a_word_that_is_no_quirk_is_an_error() -> None:
    with pytest.raises(KeyError):
        bent("typo")
